"""LeTEEncoding and its basis functions against the paper's formulas written out."""

import copy
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skml.preprocessing import LeTEEncoding
from skml.preprocessing._time_bases import bspline_basis, bspline_polynomials, harmonics

_PATH = Path(__file__).with_name("_reference_lete.py")
_SPEC = importlib.util.spec_from_file_location("_reference_lete", _PATH)
reference = importlib.util.module_from_spec(_SPEC)
sys.modules["_reference_lete"] = reference
_SPEC.loader.exec_module(reference)


def random_layer(seed=0, **kwargs):
    """A layer in double precision, all of whose parameters are random."""
    torch.manual_seed(seed)
    layer = LeTEEncoding(**kwargs).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return layer


@pytest.mark.parametrize("mixing", ["full", "diagonal"])
@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_harmonics": 1, "n_grid_intervals": 1, "spline_degree": 1},
        {"n_harmonics": 20, "n_grid_intervals": 9, "spline_degree": 5, "grid_range": (-0.5, 2.0)},
        {"spline_degree": 0, "layer_norm": False},
        {"spline_degree": 2, "learn_scale": False},
    ],
)
def test_encoding_equals_the_formulas(mixing, p, options):
    layer = random_layer(n_components=5, fourier_fraction=p, mixing=mixing, **options)
    tau = np.random.default_rng(0).normal(size=40)
    found = layer(torch.from_numpy(tau)).detach().numpy()
    np.testing.assert_allclose(found, reference.encode(layer, tau), rtol=1e-9, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(
    n_intervals=st.integers(1, 12),
    degree=st.integers(0, 6),
    low=st.floats(-5, 5),
    width=st.floats(0.1, 10),
    seed=st.integers(0, 2**31),
)
def test_splines_equal_the_recursion(n_intervals, degree, low, width, seed):
    grid_range = (low, low + width)
    knots = reference.extended_knots(n_intervals, degree, grid_range)
    rng = np.random.default_rng(seed)
    margin = 1.1 * (degree + 1) * width / n_intervals
    x = rng.uniform(low - margin, low + width + margin, size=50)
    # On which side of a knot a point lies is a matter of rounding; for degree 0 it matters.
    x = x[np.abs(x[:, None] - knots).min(axis=1) > 1e-9 * width]
    found = bspline_basis(torch.from_numpy(x)[None], n_intervals, degree, grid_range)
    expected = reference.cox_de_boor(x, knots, degree)
    np.testing.assert_allclose(found[0].numpy().T, expected, rtol=0, atol=1e-11)


def test_intervals_are_half_open():
    basis = bspline_basis(torch.tensor([[0.0, 1.0, 2.0, 3.0, -1e-7]]), 3, 0, (0.0, 3.0))
    np.testing.assert_array_equal(
        basis[0].T, [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    )


def test_cubic_pieces_are_the_known_polynomials():
    expected = np.array([[1, -3, 3, -1], [4, 0, -6, 3], [1, 3, 3, -3], [0, 0, 0, 1]]).T / 6
    np.testing.assert_allclose(bspline_polynomials(3), expected, atol=1e-16)


@pytest.mark.parametrize("degree", range(11))
def test_spline_pieces_sum_to_one(degree):
    u = np.linspace(0, 1, 50)[:, None] ** np.arange(degree + 1)
    values = u @ bspline_polynomials(degree)
    np.testing.assert_allclose(values.sum(axis=1), 1, atol=1e-12)
    assert values.min() > -1e-12


@pytest.mark.parametrize("n_harmonics", [1, 2, 5, 16, 17, 40, 100])
def test_recurrence_gives_the_harmonics(n_harmonics):
    x = torch.linspace(-30, 30, 601, dtype=torch.float64)[None]
    found = harmonics(x.float(), n_harmonics).reshape(2, n_harmonics, -1)
    # The same angles as in single precision, to see the error of the recurrence alone.
    multiples = torch.arange(1, n_harmonics + 1)[:, None] * x.float().double()
    expected = torch.stack((multiples.cos(), multiples.sin()))
    assert (found - expected).abs().max() < 2.0**-23 * (1 + n_harmonics)
    # Sines of rounded multiples are worse, but for the first few.
    if n_harmonics > 16:
        direct = (multiples.float().sin() - expected[1]).abs().max()
        assert (found - expected).abs().max() < direct


def test_one_kind_reads_its_own_linear_maps_only():
    layer = random_layer(n_components=6, layer_norm=False)
    t = torch.linspace(-1, 1, 20).double()
    before = layer(t).detach()
    with torch.no_grad():
        layer.spline.omega += 1
    after = layer(t).detach()
    torch.testing.assert_close(after[:, :3], before[:, :3])
    assert (after[:, 3:] != before[:, 3:]).any(dim=0).all()


@pytest.mark.parametrize("mixing", ["full", "diagonal"])
def test_transformations_add_up_to_the_components(mixing):
    layer = random_layer(n_components=5, mixing=mixing, layer_norm=False, learn_scale=False)
    tau = torch.linspace(-1, 1, 30).double()
    branches = [(0, layer.fourier), (2, layer.spline)]
    encoded = layer(tau).detach()
    for first, branch in branches:
        d = len(branch.omega)
        for j in range(d):
            total = branch.bias[j].item() if first == 0 else 0.0
            for i in range(d):
                x = branch.omega[i] * tau + branch.phase[i]
                total = total + layer.transformation(first + j, first + i, x)
            torch.testing.assert_close(total.detach(), encoded[:, first + j])


def test_initial_weights_have_the_documented_spread():
    torch.manual_seed(0)
    layer = LeTEEncoding(64, omega_range=(100.0, 1.0))
    omega = 100.0 ** (1 - np.linspace(0, 1, 32))
    np.testing.assert_allclose(layer.omega.detach().numpy(), np.tile(omega, 2), rtol=1e-5)
    spread = 1 / np.sqrt(32 * 5)
    for weight in (layer.fourier.cos_weight, layer.fourier.sin_weight):
        assert weight.std().item() == pytest.approx(spread, rel=0.05)
    assert layer.spline.spline_weight.std().item() == pytest.approx(0.1 / np.sqrt(32), rel=0.05)
    base = layer.spline.base_weight
    assert base.abs().max() <= 1 / np.sqrt(32)
    assert base.std().item() == pytest.approx(1 / np.sqrt(3 * 32), rel=0.1)
    for name in ("fourier.phase", "fourier.bias", "spline.phase", "norm.bias"):
        assert not dict(layer.named_parameters())[name].any()


def test_default_frequencies_are_the_papers():
    layer = LeTEEncoding(20)
    np.testing.assert_allclose(
        layer.fourier.omega.detach().numpy(), 10.0 ** -np.linspace(0, 9, 10), rtol=1e-6
    )


def test_times_are_scaled_in_their_own_precision():
    layer = LeTEEncoding(8, omega_range=(10.0, 1.0), time_origin=1.7e9, time_unit=100.0)
    offsets = torch.tensor([-3.0, 0.0, 7.0])
    expected = LeTEEncoding(8, omega_range=(10.0, 1.0), time_unit=100.0)
    expected.load_state_dict(layer.state_dict())
    for times in ((1.7e9 + offsets.double()), (1_700_000_000 + offsets.long())):
        torch.testing.assert_close(layer(times), expected(offsets))
        assert layer(times).dtype == torch.float32


def test_shape_does_not_matter():
    layer = random_layer(n_components=4)
    t = torch.randn(3, 4, 2, dtype=torch.float64)
    torch.testing.assert_close(layer(t), layer(t.reshape(-1)).reshape(3, 4, 2, 4))
    torch.testing.assert_close(layer(t.transpose(0, 2)), layer(t).transpose(0, 2))


def test_nan_gives_nan_in_its_own_row_alone():
    layer = random_layer(n_components=6)
    t = torch.tensor([0.1, float("nan"), 0.3, float("inf")], dtype=torch.float64)
    encoded = layer(t)
    assert encoded[1].isnan().all()
    torch.testing.assert_close(encoded[[0, 2]], layer(t[[0, 2]]))


def test_second_derivatives_and_deep_copies_work():
    layer = random_layer(n_components=4)
    t = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(layer(t).sum(), t, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), t)
    h = 1e-4
    with torch.no_grad():
        values = [layer(t + offset).sum() for offset in (-h, 0, h)]
    assert second.item() == pytest.approx(
        ((values[0] - 2 * values[1] + values[2]) / h**2).item(), rel=1e-4
    )
    torch.testing.assert_close(copy.deepcopy(layer)(t), layer(t))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
        ({"n_harmonics": 0}, "n_harmonics must be at least 1, got 0"),
        ({"n_grid_intervals": 0}, "n_grid_intervals must be at least 1, got 0"),
        ({"spline_degree": -1}, "spline_degree must be at least 0, got -1"),
        ({"fourier_fraction": 1.5}, "fourier_fraction must be from 0 to 1, got 1.5"),
        ({"mixing": "half"}, "mixing must be 'full' or 'diagonal', got 'half'"),
        ({"grid_range": (1, -1)}, r"grid_range must be .*increasing.*, got \(1, -1\)"),
        ({"omega_range": (1.0, 0.0)}, "omega_range must be .*positive.*, got"),
        ({"time_unit": 0}, "time_unit must not be 0"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        LeTEEncoding(**arguments)


def test_bad_functions_are_named():
    layer = LeTEEncoding(6)
    x = torch.zeros(2)
    with pytest.raises(ValueError, match="j must be from 0 to 5, got 6"):
        layer.transformation(6, 0, x)
    with pytest.raises(ValueError, match="i must be from 0 to 5, got -1"):
        layer.transformation(0, -1, x)
    with pytest.raises(ValueError, match=r"both be below 3 .*, got j=0, i=4"):
        layer.transformation(0, 4, x)
