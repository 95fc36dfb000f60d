"""LeTE: facts that follow from the paper's formulas, one test for each."""

import math

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline

from skml.preprocessing import LeTEEncoding, LeTETimeEncoder
from skml.preprocessing._time_bases import bspline_basis

GRID = (5, 3, (-1.0, 1.0))
KNOTS = -1 + 0.4 * (np.arange(12) - 3)


def basis(x, grid=GRID):
    """B_1, ..., B_M at points x, ndarray of shape (n_points, M)."""
    x = torch.as_tensor(np.asarray(x, dtype=np.float64)).reshape(1, -1)
    return bspline_basis(x, *grid)[0].numpy().T


def fourier_layer(d, **kwargs):
    layer = LeTEEncoding(d, fourier_fraction=1.0, n_harmonics=1, dtype=torch.float64, **kwargs)
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    return layer


def set_function(layer, *, cos, sin):
    """Make every component cos times cosine plus sin times sine of its own linear map."""
    d = layer.n_components
    layer.fourier.cos_weight.copy_(cos * torch.eye(d).unsqueeze(-1))
    layer.fourier.sin_weight.copy_(sin * torch.eye(d).unsqueeze(-1))


def test_oracle_01_time2vec_sines_are_a_special_case():
    layer = fourier_layer(6)
    assert layer.norm is None
    assert layer.scale is None
    set_function(layer, cos=0, sin=1)
    generator = torch.Generator().manual_seed(0)
    layer.fourier.omega.copy_(torch.randn(6, generator=generator))
    layer.fourier.phase.copy_(torch.randn(6, generator=generator))
    t = torch.linspace(-20, 20, 301, dtype=torch.float64)
    expected = torch.sin(t.unsqueeze(-1) * layer.fourier.omega + layer.fourier.phase)
    assert (layer(t) - expected).abs().max() < 1e-14  # rounding of omega t + phase


def test_oracle_02_tgat_and_the_fixed_encoder_of_tgn_are_special_cases():
    d = 8
    t = torch.linspace(0, 1000, 301, dtype=torch.float64)
    omega = torch.from_numpy(10.0 ** -np.linspace(0, 9, d))
    expected = torch.cos(t.unsqueeze(-1) * omega)
    layer = fourier_layer(d)  # the paper's initial frequencies are those of TGN
    set_function(layer, cos=1, sin=0)
    assert (layer(t) - expected).abs().max() < 1e-12
    set_function(layer, cos=0, sin=1)
    layer.fourier.phase.fill_(math.pi / 2)
    assert (layer(t) - expected).abs().max() < 1e-6


def test_oracle_03_position_encoding_of_the_transformer_is_a_special_case():
    d = 10
    position = np.arange(50)
    expected = np.empty((50, d))
    for i in range(d // 2):
        expected[:, 2 * i] = np.sin(position / 10000 ** (2 * i / d))
        expected[:, 2 * i + 1] = np.cos(position / 10000 ** (2 * i / d))
    layer = fourier_layer(d)
    set_function(layer, cos=0, sin=1)
    even = torch.arange(d) // 2 * 2
    layer.fourier.omega.copy_(10000.0 ** (-even.double() / d))
    layer.fourier.phase.copy_(torch.arange(d).double() % 2 * math.pi / 2)
    np.testing.assert_allclose(layer(torch.arange(50)).numpy(), expected, atol=1e-12)


def test_oracle_04_linear_coordinate_of_time2vec_and_constants_are_splines():
    x = np.linspace(-1, 1, 201)
    greville = np.array([-1.4, -1, -0.6, -0.2, 0.2, 0.6, 1, 1.4])
    layer = LeTEEncoding(3, fourier_fraction=0.0, dtype=torch.float64, omega_range=(1, 1))
    with torch.no_grad():
        layer.spline.base_weight.zero_()
        layer.spline.spline_weight.copy_(torch.eye(3).unsqueeze(-1) * torch.from_numpy(greville))
        layer.spline.phase.copy_(torch.tensor([0.0, 0.25, -0.5]))
        layer.spline.omega.copy_(torch.tensor([1.0, 0.75, 0.5]))
        encoded = layer(torch.from_numpy(x)).numpy()
        expected = x[:, None] * [1.0, 0.75, 0.5] + [0.0, 0.25, -0.5]
        np.testing.assert_allclose(encoded, expected, atol=4e-16)
        layer.spline.spline_weight.copy_(torch.eye(3).unsqueeze(-1) * torch.full((8,), 0.7))
        np.testing.assert_allclose(layer(torch.from_numpy(x)).numpy(), np.float32(0.7), atol=4e-16)


def test_oracle_05_splines_are_scipys_on_the_extended_knots():
    x = np.concatenate([np.linspace(-1, 1, 500, endpoint=False), KNOTS[3:8]])
    x = x[x < 1]
    expected = BSpline.design_matrix(x, KNOTS, 3).toarray()
    np.testing.assert_allclose(basis(x), expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(basis([-2.21, 2.2, 50.0, -np.inf, np.inf]), 0)
    assert basis([1.0]).sum() == pytest.approx(1, abs=1e-15)
    # Beyond the grid each function runs to the end of its support.
    x = np.linspace(-2.5, 2.5, 1001)
    for m in range(8):
        element = BSpline.basis_element(KNOTS[m : m + 5], extrapolate=False)
        np.testing.assert_allclose(basis(x)[:, m], np.nan_to_num(element(x)), rtol=0, atol=3e-15)


def test_oracle_06_splines_fit_a_sine_to_fourth_order():
    x = np.linspace(-1, 1, 4000, endpoint=False)
    errors = []
    for n_intervals, bound in [(5, 4.6e-3), (10, 2.3e-4), (20, 1.4e-5), (40, 8.5e-7)]:
        B = basis(x, (n_intervals, 3, (-1.0, 1.0)))
        coefficients, *_ = np.linalg.lstsq(B, np.sin(np.pi * x), rcond=None)
        errors.append(np.abs(B @ coefficients - np.sin(np.pi * x)).max())
        assert errors[-1] == pytest.approx(bound, rel=0.05)
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders, 4, atol=0.4)


@pytest.mark.parametrize(
    ("coefficients", "base", "expected"),
    [
        (
            (0.0013, 0.0047, -0.0353, -0.0321, -0.0455, -0.0273, 0.0211, 0.0248),
            0.4133,
            (-0.317300, -0.222499, -0.038487, 0.161349, 0.326003, 0.411256),
        ),
        (
            (-0.0008, -0.0072, -0.0040, 0.0227, -0.0067, 0.0248, 0.0165, 0.0078),
            0.0100,
            (-0.013216, -0.000440, 0.008100, 0.018906, 0.024219, 0.009951),
        ),
    ],
    ids=["f2", "f3"],
)
def test_oracle_07_trained_functions_of_the_papers_appendix(coefficients, base, expected):
    layer = LeTEEncoding(4, mixing="diagonal", dtype=torch.float64)
    with torch.no_grad():
        layer.spline.spline_weight[0] = torch.tensor(coefficients, dtype=torch.float64)
        layer.spline.base_weight[0] = base
    x = torch.tensor([-1, -0.5, 0, 0.5, 0.99, 3], dtype=torch.float64)
    np.testing.assert_allclose(layer.transformation(2, 2, x).numpy(), expected, atol=6e-7)


def test_oracle_07_a_fourier_component_reads_several_linear_maps():
    """f0 of the appendix is a function of 1.0069 x + .0069 and of .0054 x + .0108."""
    layer = LeTEEncoding(4, n_harmonics=2, dtype=torch.float64)
    omega, phase = [1.0069, 0.0054], [0.0069, 0.0108]
    with torch.no_grad():
        layer.fourier.omega.copy_(torch.tensor(omega))
        layer.fourier.phase.copy_(torch.tensor(phase))
        layer.fourier.bias.copy_(torch.tensor([0.25, -0.5]))
    x = np.linspace(-3, 3, 50)
    maps = [np.float32(omega[i]) * x + np.float32(phase[i]) for i in range(2)]
    cos_weight, sin_weight = (
        weight.detach().numpy() for weight in (layer.fourier.cos_weight, layer.fourier.sin_weight)
    )
    expected = 0.25 + sum(
        cos_weight[0, i, m - 1] * np.cos(m * maps[i])
        + sin_weight[0, i, m - 1] * np.sin(m * maps[i])
        for i in range(2)
        for m in (1, 2)
    )
    found = layer.fourier(torch.from_numpy(x))[0].detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_oracle_08_rescaled_time_with_rescaled_frequencies_gives_the_same_encoding():
    layer = LeTEEncoding(12, omega_range=(50.0, 1.0))
    t = torch.linspace(-1, 1, 100)
    expected = layer(t).detach()
    with torch.no_grad():
        for branch in (layer.fourier, layer.spline):
            branch.omega /= 37.5
    np.testing.assert_allclose(layer(37.5 * t).detach().numpy(), expected.numpy(), atol=1e-4)
    layer.double()
    exact = layer(37.5 * t.double()).detach()
    with torch.no_grad():
        for branch in (layer.fourier, layer.spline):
            branch.omega *= 37.5
    np.testing.assert_allclose(layer(t.double()).detach().numpy(), exact.numpy(), atol=1e-12)


@pytest.mark.parametrize(("a", "c"), [(4.0, 2.0**20), (86400.0, 1.7e9), (1e-3, -5.0)])
def test_oracle_08_scale_and_origin_of_time_do_not_matter_to_the_encoder(a, c):
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 100, size=(80, 1)).round(2)
    y = np.sin(t.ravel()) + rng.normal(size=80)
    encoder = LeTETimeEncoder(8, max_iter=30, dtype="float64", random_state=0)
    expected = encoder.fit_transform(t, y)
    np.testing.assert_allclose(encoder.fit(a * t + c, y).transform(a * t + c), expected, atol=1e-5)


def n_parameters(layer):
    return sum(parameter.numel() for parameter in layer.parameters())


@pytest.mark.parametrize("d", [2, 7, 32])
@pytest.mark.parametrize("p", [0.3, 0.5, 0.8])
@pytest.mark.parametrize(("K", "G", "k"), [(5, 5, 3), (1, 3, 2), (8, 10, 4)])
def test_oracle_09_shapes_and_number_of_parameters(d, p, K, G, k):
    layer = LeTEEncoding(d, fourier_fraction=p, n_harmonics=K, n_grid_intervals=G, spline_degree=k)
    d_F = math.floor(p * d)
    d_S = d - d_F
    expected = (
        2 * d_F + 2 * d_F**2 * K + d_F + 2 * d_S + d_S**2 * (1 + G + k) + (3 * d if d_F else 0)
    )
    expected -= d_F == 0 and 0
    assert n_parameters(layer) == expected
    for shape in [(), (3,), (0,), (2, 3), (2, 1, 4)]:
        assert layer(torch.zeros(shape)).shape == (*shape, d)


def test_oracle_09_number_of_parameters_of_the_papers_setting():
    assert n_parameters(LeTEEncoding(32)) == 5040


def test_oracle_10_one_kind_of_function_has_neither_norm_nor_scale():
    for layer in (
        LeTEEncoding(6, fourier_fraction=0.0),
        LeTEEncoding(6, fourier_fraction=1.0),
        LeTEEncoding(1, fourier_fraction=0.5),
    ):
        assert layer.norm is None
        assert layer.scale is None
        assert (layer.fourier is None) != (layer.spline is None)
    layer = LeTEEncoding(1, fourier_fraction=0.5)
    assert layer.fourier is None  # d_F = floor(0.5) = 0
    assert layer(torch.zeros(4)).shape == (4, 1)


@pytest.mark.parametrize("mixing", ["full", "diagonal"])
def test_oracle_11_gradients(mixing):
    torch.manual_seed(0)
    layer = LeTEEncoding(6, mixing=mixing, n_harmonics=3, omega_range=(2.0, 0.3)).double()
    t = torch.tensor([-1.13, -0.37, 0.211, 0.93], dtype=torch.float64, requires_grad=True)
    names, values = zip(*layer.named_parameters(), strict=True)

    def encode(t, *values):
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (t,))

    assert torch.autograd.gradcheck(encode, (t, *values))


def test_oracle_11_splines_have_two_continuous_derivatives():
    torch.manual_seed(0)
    layer = LeTEEncoding(2, fourier_fraction=0.0, omega_range=(1, 1)).double()
    with torch.no_grad():
        layer.spline.spline_weight.normal_()
        h = 1e-4
        offsets = torch.arange(-3, 4, dtype=torch.float64) * h
        for knot in KNOTS:
            values = layer(knot + offsets)
            first = torch.diff(values, dim=0) / h
            second = torch.diff(first, dim=0) / h
            third = torch.diff(second, dim=0) / h
            # The third derivative jumps, so the second differs by O(h) across the knot.
            assert torch.diff(first, dim=0).abs().max() < 50 * h
            assert torch.diff(second, dim=0).abs().max() < 500 * h
            assert third.abs().max() < 500


def test_oracle_12_neighbouring_seconds_of_unix_time_differ():
    start = 1.7e9
    t = start + np.arange(0, 4000, 10.0).reshape(-1, 1)
    y = np.sin(t.ravel() / 300)
    encoder = LeTETimeEncoder(8, max_iter=5, random_state=0).fit(t, y)
    pair = np.array([[start], [start + 1]])
    first, second = encoder.transform(pair)
    assert np.abs(first - second).max() > 1e-3
    first, second = encoder.transform(pair.astype(np.float32))
    np.testing.assert_array_equal(first, second)
    # The layer alone keeps the second as well, if it gets double precision.
    layer = encoder.modules_[0]
    first, second = layer(torch.from_numpy(pair.ravel())).detach()
    assert (first - second).abs().max() > 1e-3
    first, second = layer(torch.from_numpy(pair.ravel()).long()).detach()
    assert (first - second).abs().max() > 1e-3
