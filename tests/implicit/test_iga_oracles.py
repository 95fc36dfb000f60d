"""IGA: facts that follow from the paper's mathematics, one test for each."""

import math

import numpy as np
import pytest
import torch

from skml.implicit import (
    CoordinateMLP,
    INRRegressor,
    adjust_gradients,
    balancing_matrix,
    empirical_ntk,
)
from skml.implicit._gradient_steps import GroupedPoints, ResidualBalancer
from skml.implicit._grouping import group_points, kdtree_groups
from skml.implicit._network_training import decibels

ARCHITECTURES = ["relu", "relu_pe", "siren", "finer"]


def jacobian(module, X):
    """d f_c(x_i) / d theta for each point and channel, (n, C, number of parameters)."""
    parameters = list(module.parameters())
    rows = []
    for output in module(X).flatten():
        gradients = torch.autograd.grad(output, parameters, retain_graph=True, allow_unused=True)
        flat = [
            torch.zeros_like(p).flatten() if g is None else g.flatten()
            for g, p in zip(gradients, parameters, strict=True)
        ]
        rows.append(torch.cat(flat))
    return torch.stack(rows).reshape(len(X), -1, len(rows[0])).detach()


def parameter_gradient(module):
    return torch.cat([p.grad.flatten() for p in module.parameters()])


def iga_gradient(module, X, y, p, n_balanced, *, sampling="max_residual", reference="end"):
    """Gradient that a step of the trainer gives, for points in the order of their groups."""
    points = GroupedPoints(X, X, y, len(X) // p, p)
    balancer = ResidualBalancer(
        lambda x: empirical_ntk(module, x),
        n_balanced=n_balanced,
        start=0,
        reference=reference,
        sampling=sampling,
        update_interval=1,
    )
    module.zero_grad()
    outputs = module(X)
    residual = balancer.adjust(outputs.detach() - y, points)
    outputs.backward(residual * 2 / residual.numel())
    return parameter_gradient(module)


@pytest.fixture
def image():
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:12, :10]
    smooth = np.sin(rows / 3) + np.cos(columns / 2)
    return np.stack([smooth, rng.normal(size=(12, 10))], axis=-1)


def small_network(architecture="siren", n_features=2, n_outputs=3, width=8):
    torch.manual_seed(0)
    settings = {"n_hidden_layers": 1, "n_frequencies": 2, "first_omega_0": 5.0}
    return CoordinateMLP(
        n_features, n_outputs, architecture=architecture, hidden_width=width, **settings
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_oracle_01_nothing_balanced_is_standard_training(architecture, image):
    settings = {"hidden_width": 16, "max_iter": 30, "random_state": 0}
    standard = INRRegressor(architecture, training="standard", **settings).fit_image(image)
    unbalanced = INRRegressor(architecture, n_balanced=0, **settings).fit_image(image)
    assert standard.loss_curve_ == unbalanced.loss_curve_
    assert unbalanced.eigenvalues_ is None
    np.testing.assert_array_equal(standard.predict_image(), unbalanced.predict_image())
    adjusted = INRRegressor(architecture, n_balanced=5, **settings).fit_image(image)
    assert adjusted.loss_curve_[0] == standard.loss_curve_[0]
    assert adjusted.loss_curve_[1:] != standard.loss_curve_[1:]

    module = small_network(architecture)
    X, y = torch.rand(24, 2) * 2 - 1, torch.rand(24, 3)
    gradient = iga_gradient(module, X, y, p=4, n_balanced=0)
    module.zero_grad()
    (module(X) - y).square().mean().backward()
    torch.testing.assert_close(gradient, parameter_gradient(module), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_oracle_02_layer_wise_kernel_is_that_of_torch_func(architecture):
    torch.manual_seed(0)
    module = CoordinateMLP(2, 3, architecture=architecture, hidden_width=32)
    X = torch.rand(40, 2) * 2 - 1
    names = dict(module.named_parameters())

    def scalar(parameters, x):
        outputs = torch.func.functional_call(module, parameters, (x.unsqueeze(0),))
        return outputs.sum() / math.sqrt(3)

    gradients = torch.func.vmap(torch.func.grad(scalar), in_dims=(None, 0))(names, X)
    G = torch.cat([g.flatten(1) for g in gradients.values()], dim=1).detach()
    K = empirical_ntk(module, X)
    assert (K - G @ G.T).norm() / K.norm() < 1e-5


@pytest.mark.parametrize(("start", "end"), [(0, 5), (2, 7)])
@pytest.mark.parametrize("reference", ["end", "start"])
def test_oracle_03_balanced_spectrum(start, end, reference):
    rng = np.random.default_rng(0)
    V, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    values = 2.0 ** -np.arange(12)
    K = V * values @ V.T
    S = balancing_matrix(K, end, start, reference)
    expected = values.copy()
    expected[start:end] = values[end if reference == "end" else start]
    np.testing.assert_allclose(S @ K, V * expected @ V.T, atol=1e-13)
    np.testing.assert_array_equal(S, S.T)
    outside = np.r_[0:start, end:12]
    np.testing.assert_allclose(S @ V[:, outside], V[:, outside], atol=1e-13)
    spectrum = np.linalg.eigvalsh(S)
    if reference == "end":
        assert spectrum.min() > 0
        assert spectrum.max() <= 1 + 1e-12
    else:
        assert spectrum.min() >= 1 - 1e-12


def test_oracle_04_scale_rotation_and_signs_do_not_matter():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(10, 10))
    K = A @ A.T
    Q, _ = np.linalg.qr(rng.normal(size=(10, 10)))
    signs = np.diag(rng.choice([-1.0, 1.0], size=10))
    S = balancing_matrix(K, 4)
    for c in (1e-12, 3.0, 1e12):
        np.testing.assert_allclose(balancing_matrix(c * K, 4), S, atol=1e-10)
    for rotation in (Q, signs):
        rotated = balancing_matrix(rotation @ K @ rotation.T, 4)
        np.testing.assert_allclose(rotated, rotation @ S @ rotation.T, atol=1e-10)


def test_oracle_05_linear_model_decays_at_the_balanced_rates():
    rng = np.random.default_rng(0)
    Phi, y = rng.normal(size=(8, 20)), rng.normal(size=8)
    K = Phi @ Phi.T
    values, V = np.linalg.eigh(K)
    values, V = values[::-1], V[:, ::-1]
    g = values.copy()
    g[:3] = values[3]
    S, eta = balancing_matrix(K, 3), 0.5 / values[0]
    theta = np.zeros(20)
    r_0 = -y
    for t in range(1, 21):
        theta -= eta * Phi.T @ adjust_gradients(Phi @ theta - y, S)
        expected = V @ ((1 - eta * g) ** t * (V.T @ r_0))
        np.testing.assert_allclose(Phi @ theta - y, expected, atol=1e-14)


def test_oracle_06_groups_of_one_are_the_full_kernel():
    module = small_network(n_outputs=1).double()
    X = torch.rand(20, 2, dtype=torch.float64) * 2 - 1
    y = torch.rand(20, 1, dtype=torch.float64)
    J = jacobian(module, X)[:, 0]
    S = balancing_matrix(J @ J.T, 6)
    expected = 2 / 20 * J.T @ S @ (module(X) - y).detach()[:, 0]
    torch.testing.assert_close(iga_gradient(module, X, y, 1, 6), expected, rtol=1e-9, atol=1e-12)


def test_oracle_07_permutations_of_groups_and_members():
    module = small_network()
    torch.manual_seed(1)
    X, y = torch.rand(6, 4, 2) * 2 - 1, torch.rand(6, 4, 3)

    def gradient(X, y, sampling="max_residual"):
        return iga_gradient(module, X.flatten(0, 1), y.flatten(0, 1), 4, 3, sampling=sampling)

    base = gradient(X, y)
    groups = torch.tensor([3, 0, 5, 1, 2, 4])
    torch.testing.assert_close(gradient(X[groups], y[groups]), base, rtol=0, atol=1e-6)
    members = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(gradient(X[:, members], y[:, members]), base, rtol=0, atol=1e-6)
    # The centre is place 2, so it moves along when its place is kept.
    base_centre = gradient(X, y, "centre")
    members = torch.tensor([3, 0, 2, 1])
    moved = gradient(X[:, members], y[:, members], "centre")
    torch.testing.assert_close(moved, base_centre, rtol=0, atol=1e-6)
    X, y = X.clone(), y.clone()
    X[0], y[0] = X[0, members].clone(), y[0, members].clone()
    assert (gradient(X, y) - base).abs().max() > 1e-4


def test_oracle_08_gradient_is_the_explicit_one():
    torch.manual_seed(0)
    module = CoordinateMLP(2, 3, architecture="relu", hidden_width=8, n_hidden_layers=1)
    X, y = torch.rand(24, 2) * 2 - 1, torch.rand(24, 3)
    p, n = 4, 6
    residual = (module(X) - y).detach()
    J = jacobian(module, X)
    chosen = torch.arange(n) * p + residual.abs().sum(1).view(n, p).argmax(1)
    G = J[chosen].sum(1) / math.sqrt(3)
    S = balancing_matrix((G @ G.T).double(), 3)
    operator = torch.kron(S, torch.eye(p * 3, dtype=torch.float64)).float()
    expected = 2 / (24 * 3) * J.flatten(0, 1).T @ operator @ residual.flatten()
    torch.testing.assert_close(iga_gradient(module, X, y, p, 3), expected, rtol=0, atol=2e-7)


def test_oracle_09_wide_relu_kernel_tends_to_the_arc_cosine_formula():
    m = 2**14
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(2, m, bias=True),
        torch.nn.ReLU(),
        torch.nn.Linear(m, 1, bias=False),
    )
    with torch.no_grad():
        module[0].weight.normal_()
        module[0].bias.zero_()
        module[2].weight.copy_(torch.randint(0, 2, (1, m)) * 2.0 - 1).div_(math.sqrt(m))
    module[2].weight.requires_grad_(False)
    angles = torch.linspace(0, 2 * math.pi, 30)
    unit = torch.stack([angles.cos(), angles.sin()], dim=1)
    # x / sqrt(2) in the weights, and the bias as a coordinate of the same factor.
    K = empirical_ntk(module, unit) / 2
    cosine = (unit @ unit.T).clamp(-1, 1)
    expected = (cosine + 1) * (math.pi - cosine.arccos()) / (4 * math.pi)
    assert expected.max() == pytest.approx(0.5)
    assert (K - expected).abs().max() < 0.02


def test_oracle_10_psnr_and_invariance_to_the_scale_of_the_target(image):
    assert decibels(0.01) == pytest.approx(20)
    model = INRRegressor(hidden_width=16, max_iter=20, random_state=0)
    X = np.indices(image.shape[:2]).reshape(2, -1).T.astype(float)
    base = model.fit_image(image).predict_image()
    psnr = model.psnr(X, image.reshape(-1, 2))
    scaled = model.fit_image(50 * image - 7)
    np.testing.assert_allclose(scaled.predict_image(), 50 * base - 7, atol=50 * 1e-4)
    assert scaled.psnr(X, 50 * image.reshape(-1, 2) - 7) == pytest.approx(psnr, abs=1e-2)


@pytest.mark.parametrize("training", ["fr", "iga"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_oracle_11_the_fitted_network_is_a_plain_one(architecture, training, image):
    fr_params = {"n_low": 4, "n_high": 4, "n_phases": 4}
    model = INRRegressor(
        architecture,
        hidden_width=16,
        max_iter=10,
        training=training,
        fr_params=fr_params,
        random_state=0,
    ).fit_image(image)
    assert type(model.module_) is CoordinateMLP
    plain = CoordinateMLP(
        2, 2, architecture=architecture, hidden_width=16, n_frequencies=model.module_.n_frequencies
    )
    count = [sum(p.numel() for p in m.parameters()) for m in (model.module_, plain)]
    assert count[0] == count[1]
    # The loss of the best step was computed with Lambda B, the predictions with W.
    X = np.indices(image.shape[:2]).reshape(2, -1).T.astype(float)
    best = max(model.psnr_curve_)
    assert model.psnr(X, image.reshape(-1, 2)) == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize(("zero_bias", "expected"), [(False, 1 + 300 / 256), (True, 1.0)])
def test_oracle_12_preactivations_of_siren_at_the_start(zero_bias, expected):
    torch.manual_seed(0)
    module = CoordinateMLP(2, 1, hidden_width=256, n_hidden_layers=4)
    for d in (1, 2, 3):
        first = CoordinateMLP(d, 1, hidden_width=4096).layers[0].weight
        assert 0.99 / d < first.abs().max() <= 1 / d
    if zero_bias:
        for layer in module.layers[1:]:
            torch.nn.init.zeros_(layer.bias)
    records = []
    module.forward_encoded(torch.rand(4000, 2) * 2 - 1, records)
    # The bias is the same for all points: its variance is over the units.
    second_moments = [z.square().mean().item() for _, z, _ in records[1:-1]]
    assert second_moments[0] == pytest.approx(expected, rel=0.1)
    # The square of the sine of a normal phase of variance one has the mean 0.43 and not 0.5.
    assert second_moments == pytest.approx([expected] * 4, rel=0.2)
    assert [omega for *_, omega in records] == [30] * 5 + [1]


def test_oracle_13_groups_of_a_grid_and_of_a_tree():
    X = np.indices((4, 6)).reshape(2, -1).T.astype(float)
    groups, leftovers = group_points(X, "grid", 4)
    assert groups.tolist() == [
        [0, 1, 6, 7],
        [2, 3, 8, 9],
        [4, 5, 10, 11],
        [12, 13, 18, 19],
        [14, 15, 20, 21],
        [16, 17, 22, 23],
    ]
    assert len(leftovers) == 0

    X = np.random.default_rng(0).random((103, 2))
    groups, leftovers = group_points(X, "kdtree", 10)
    assert groups.shape == (10, 10)
    assert len(leftovers) == 3
    assert sorted([*groups.ravel(), *leftovers]) == list(range(103))
    np.testing.assert_array_equal(groups, kdtree_groups(X, 10))
