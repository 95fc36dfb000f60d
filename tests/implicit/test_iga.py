"""INRRegressor: what a sceptic would ask of it."""

import contextlib
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skml.implicit import (
    CoordinateMLP,
    INRRegressor,
    adjust_gradients,
    balancing_matrix,
    empirical_ntk,
)
from skml.implicit import _empirical_ntk as ntk
from skml.implicit._balancing import balance_kernel
from skml.implicit._grouping import detect_grid, group_points, kdtree_groups, patch_sides
from skml.implicit._reparameterized import BatchNormMLP, FourierReparameterizedMLP, fourier_basis

ARCHITECTURES = ["relu", "relu_pe", "siren", "finer"]


@pytest.fixture(autouse=True)
def untouched_torch_state():
    """Fails every test that changes what torch keeps for the whole process."""
    before = torch.random.get_rng_state(), torch.get_num_threads(), torch.is_grad_enabled()
    yield
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1:] == (torch.get_num_threads(), torch.is_grad_enabled())


@contextlib.contextmanager
def seeded():
    """Draws inside are the same each time, and leave the state outside alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield


def pixels(height, width):
    return np.indices((height, width)).reshape(2, -1).T.astype(float)


def texture(side, seed=0):
    """Smooth shapes and sharp edges, (side, side, 2)."""
    x, y = np.mgrid[:side, :side] / side
    waves = np.sin(9 * x) * np.cos(7 * y)
    edges = ((x * 6).astype(int) + (y * 6).astype(int)) % 2
    return np.stack([waves + 0.5 * edges, edges], axis=-1)


def quick(*args, **params):
    return INRRegressor(*args, **{"hidden_width": 16, "max_iter": 20, "random_state": 0} | params)


# What the method promises.


@pytest.mark.parametrize(("architecture", "gain"), [("relu_pe", 3.0), ("siren", 1.5)])
def test_balanced_training_reaches_finer_detail(architecture, gain):
    image = texture(24)
    psnr = {}
    for training in ("iga", "standard"):
        model = INRRegressor(
            architecture, hidden_width=48, max_iter=150, training=training, random_state=0
        )
        psnr[training] = max(model.fit_image(image).psnr_curve_)
    assert psnr["iga"] > psnr["standard"] + gain


def test_more_balanced_eigenvalues_bring_out_higher_frequencies():
    x = np.linspace(-1, 1, 128, endpoint=False).reshape(-1, 1)
    frequencies = [2, 4, 6, 8]
    y = sum(np.sin(np.pi * k * x.ravel()) for k in frequencies)
    errors = {}
    for n_balanced in (0, 16):
        model = INRRegressor(
            "relu",
            hidden_width=64,
            n_hidden_layers=2,
            n_balanced=n_balanced,
            group_size=2,
            update_interval=2,
            max_iter=300,
            learning_rate=2e-3,
            random_state=0,
        ).fit(x, y)
        true, fitted = np.fft.rfft(y), np.fft.rfft(model.predict(x))
        errors[n_balanced] = abs(fitted[8] - true[8]) / abs(true[8])
    assert errors[16] < 0.6 * errors[0]


def test_gradient_descent_speeds_weak_directions_up():
    x = np.linspace(0, 1, 60).reshape(-1, 1)
    y = np.sin(20 * x.ravel())
    settings = {"first_omega_0": 10.0, "optimizer": "sgd", "learning_rate": 1e-3, "max_iter": 100}
    last = {}
    for reference in ("auto", "start", "end"):
        model = quick(balance_reference=reference, n_balanced=8, **settings).fit(x, y)
        last[reference] = model.loss_curve_[-1]
    standard = quick(training="standard", **settings).fit(x, y).loss_curve_[-1]
    assert last["auto"] == last["start"]
    assert last["start"] < 0.5 * standard
    assert last["end"] > standard


# Networks.


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("y_shape", [(30,), (30, 1), (30, 3)])
def test_gradient_is_that_of_finite_differences(architecture, y_shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)) * [1.0, 100.0]
    model = quick(architecture, first_omega_0=3.0).fit(X, rng.normal(size=y_shape))
    gradient = model.gradient(X[:5])
    assert gradient.shape == (5, *y_shape[1:], 2)
    for j, step in enumerate([1e-6, 1e-4]):
        move = np.zeros(2)
        move[j] = step
        difference = (model.predict(X[:5] + move) - model.predict(X[:5] - move)) / (2 * step)
        np.testing.assert_allclose(gradient[..., j], difference, rtol=1e-4, atol=1e-5)


def test_positional_encoding_by_hand():
    with seeded():
        module = CoordinateMLP(2, architecture="relu_pe", n_frequencies=2, hidden_width=4)
    x = torch.tensor([[0.25, -0.5]])
    s, c = math.sin, math.cos
    angles = [math.pi / 4, -math.pi / 2, math.pi / 2, -math.pi]
    expected = [0.25, -0.5, *map(s, angles), *map(c, angles)]
    torch.testing.assert_close(module.encode(x), torch.tensor([expected]))
    assert module.layers[0].in_features == 2 * (1 + 2 * 2)


@pytest.mark.parametrize(
    ("side", "d", "expected"), [(64, 2, 5), (128, 2, 6), (3, 2, 1), (16, 3, 3), (1024, 1, 9)]
)
def test_automatic_number_of_frequencies(side, d, expected):
    X = np.stack(np.meshgrid(*[np.arange(side)] * d, indexing="ij"), axis=-1).reshape(-1, d)
    settings = {"hidden_width": 2, "n_hidden_layers": 0, "training": "standard", "max_iter": 1}
    model = INRRegressor("relu_pe", **settings).fit(X, X[:, 0])
    assert model.module_.n_frequencies == expected
    given = quick("relu_pe", n_frequencies=4, n_balanced=2).fit(X[:50], X[:50, 0])
    assert given.module_.n_frequencies == 4


def test_first_biases_of_finer():
    with seeded():
        module = CoordinateMLP(2, architecture="finer", first_bias_range=10.0, hidden_width=512)
    assert 9 < module.layers[0].bias.abs().max() <= 10
    settings = {"first_bias_range": 10.0, "max_iter": 1, "hidden_width": 256}
    model = quick("finer", n_balanced=2, **settings).fit(pixels(4, 4), np.arange(16))
    assert model.module_.layers[0].bias.abs().max() > 9


def test_factor_of_finer_counts_as_constant_in_training_only():
    with seeded():
        module = CoordinateMLP(1, architecture="finer", hidden_width=4, n_hidden_layers=0)
    x = torch.tensor([[0.3]])
    records = []
    module.forward_encoded(x, records)
    z = records[0][1].detach()
    trained = torch.autograd.grad(module(x).sum(), module.layers[0].bias)[0]
    exact = torch.autograd.grad(
        module.forward_encoded(x, exact_derivative=True).sum(), module.layers[0].bias
    )[0]
    u = z / 30
    outer = module.layers[1].weight[0].detach() * (30 * (u.abs() + 1) * u).cos()[0]
    torch.testing.assert_close(trained, outer * 30 * (u.abs() + 1)[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(exact, outer * 30 * (2 * u.abs() + 1)[0], rtol=1e-4, atol=1e-5)


def test_fourier_basis_by_hand():
    basis = fourier_basis(5, n_low=2, n_high=1, n_phases=2, alpha=0.1).numpy()
    z = np.linspace(-2 * np.pi, 2 * np.pi, 5)
    expected = [0.1 * np.cos(f * z + phase) for f in (0.5, 1.0, 1.0) for phase in (0.0, np.pi)]
    np.testing.assert_allclose(basis, expected, atol=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_initial_weights_of_the_fourier_basis(architecture):
    with seeded():
        module = FourierReparameterizedMLP(
            2, architecture=architecture, hidden_width=64, n_low=8, n_high=8, n_phases=4
        )
    layer = module.layers[1]
    bound = math.sqrt(6 / 64) / layer.basis.norm(dim=1)
    if architecture in ("siren", "finer"):
        bound /= 30
    assert (layer.coefficients.abs() <= bound).all()
    assert (layer.coefficients.abs().max(dim=0).values > 0.8 * bound).all()
    assert not layer.bias.any()
    assert not layer.basis.requires_grad
    assert type(module.layers[0]) is type(module.layers[-1]) is torch.nn.Linear


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_merging_batch_normalisation_keeps_the_values(architecture):
    with seeded():
        torch.manual_seed(0)
        module = BatchNormMLP(2, 2, architecture=architecture, hidden_width=16, first_omega_0=4.0)
        for norm in module.norms:
            norm.weight.data.uniform_(0.5, 2)
            norm.bias.data.normal_()
        X = torch.rand(50, 2) * 2 - 1
    encoded = module.encode(X)
    module.train()
    expected = module.forward_encoded(encoded)
    with seeded():
        merged = module.merged(encoded)
    torch.testing.assert_close(merged(X), expected, rtol=1e-4, atol=1e-4)


# The kernel.


class InPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(2, 8), torch.nn.Linear(8, 3, bias=False)

    def forward(self, x):
        return self.last(torch.nn.functional.relu(self.first(x), inplace=True))


class Twice(InPlace):
    """Uses its hidden layer twice, so that the layer-wise form does not hold."""

    def __init__(self):
        super().__init__()
        self.middle = torch.nn.Linear(8, 8)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        return self.last(torch.tanh(self.middle(torch.tanh(self.middle(hidden)))))


class Hidden(InPlace):
    """Uses a weight beside its layer, which no hook sees."""

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        return self.last(hidden) + (hidden @ self.last.weight.T).sin()


class Mixing(InPlace):
    """Looks at the other rows in training, not in a single row."""

    def forward(self, x):
        hidden = self.first(x)
        return self.last(torch.tanh(hidden - hidden.mean(dim=0)))


class Free(InPlace):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return self.last(torch.sin(self.scale * self.first(x)))


def brute_force_kernel(module, X):
    parameters = [p for p in module.parameters() if p.requires_grad]
    rows = []
    for x in X:
        outputs = module(x.unsqueeze(0))
        scalar = outputs.sum() / math.sqrt(outputs.shape[1])
        gradients = torch.autograd.grad(scalar, parameters, allow_unused=True)
        rows.append(
            torch.cat(
                [
                    torch.zeros(p.numel()) if g is None else g.flatten()
                    for g, p in zip(gradients, parameters, strict=True)
                ]
            )
        )
    G = torch.stack(rows)
    return G @ G.T


@pytest.mark.parametrize("make", [InPlace, Twice, Hidden, Mixing, Free])
@pytest.mark.parametrize("frozen", [False, True])
def test_kernel_of_any_module(make, frozen):
    with seeded():
        torch.manual_seed(0)
        module = make()
        X = torch.randn(9, 2)
    if frozen:
        module.first.weight.requires_grad_(False)
    expected = brute_force_kernel(module, X)
    for chunk_size in (None, 1, 4):
        K = empirical_ntk(module, X, chunk_size=chunk_size)
        torch.testing.assert_close(K, expected, rtol=1e-4, atol=1e-5)
    assert module.training


def test_layer_wise_form_is_used_where_it_holds(monkeypatch):
    used = []
    monkeypatch.setattr(ntk, "_kernel_in_chunks", lambda *args: used.append(1) or args[1])
    with seeded():
        plain, twice, free = InPlace(), Twice(), Free()
        network = CoordinateMLP(2, 3, hidden_width=8)
    X = torch.ones(3, 2)
    for module in (plain, network):
        empirical_ntk(module, X)
    assert not used
    for module in (twice, free):
        empirical_ntk(module, X)
    assert len(used) == 2


def test_kernel_leaves_the_module_as_it_was():
    with seeded():
        module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    empirical_ntk(module, np.ones((3, 2)))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert module.training
    assert all(p.grad is None for p in module.parameters())
    assert not module[0]._forward_hooks


def test_kernel_of_the_estimator():
    X = pixels(5, 6) * [1.0, 40.0]
    model = quick("relu", n_balanced=3).fit(X, np.sin(X))
    K = model.empirical_ntk(X)
    assert K.shape == (30, 30)
    assert K.dtype == np.float64
    scaled = torch.from_numpy((X / X.max(axis=0)) * 2 - 1).float()
    np.testing.assert_allclose(K, brute_force_kernel(model.module_, scaled), rtol=1e-4)


def test_kernel_refuses_bad_input():
    with seeded():
        module = torch.nn.Linear(2, 1)
    with pytest.raises(ValueError, match=r"X must have the shape \(n, n_features\)"):
        empirical_ntk(module, np.ones(2))
    with pytest.raises(ValueError, match="chunk_size must be None or an integer of at least 1"):
        empirical_ntk(module, np.ones((2, 2)), chunk_size=0)
    with pytest.raises(ValueError, match="X must be finite"):
        empirical_ntk(module, np.full((2, 2), np.nan))
    with pytest.raises(TypeError, match="X must hold real numbers, got complex128"):
        empirical_ntk(module, np.ones((2, 2), dtype=complex))
    with pytest.raises(TypeError, match=r"module must be a torch.nn.Module, got type"):
        empirical_ntk(torch.nn.Linear, np.ones((2, 2)))
    module.requires_grad_(False)
    with pytest.raises(ValueError, match="Linear has no trainable parameters"):
        empirical_ntk(module, np.ones((2, 2)))


# The balancing matrix.


@given(
    n=st.integers(1, 12),
    rank=st.integers(1, 12),
    end=st.integers(0, 14),
    start=st.integers(0, 14),
    reference=st.sampled_from(["end", "start"]),
    seed=st.integers(0, 100),
)
def test_balancing_matrix_of_any_kernel(n, rank, end, start, reference, seed):
    A = np.random.default_rng(seed).normal(size=(n, rank))
    K = A @ A.T
    S = balancing_matrix(K, end, start, reference)
    values, V = np.linalg.eigh(K)
    values, V = values[::-1], V[:, ::-1]
    numerical_rank = np.sum(values > n * np.finfo(float).eps * values[0])
    last = min(end, numerical_rank - 1)
    expected = np.eye(n)
    for i in range(start, last):
        factor = values[last if reference == "end" else start] / values[i]
        expected -= (1 - factor) * np.outer(V[:, i], V[:, i])
    np.testing.assert_allclose(S, expected, atol=1e-9 * max(1, np.abs(expected).max()))
    np.testing.assert_array_equal(S, S.T)


def test_leading_pairs_of_a_large_kernel_are_those_of_the_whole(monkeypatch):
    A = np.random.default_rng(0).normal(size=(40, 60))
    K = torch.from_numpy(A @ A.T)
    whole = balance_kernel(K, 5)
    monkeypatch.setattr("skml.implicit._balancing._FULL_EIGH", 10)
    leading = balance_kernel(K, 5)
    assert len(leading.eigenvalues) == 7
    torch.testing.assert_close(leading.eigenvalues, whole.eigenvalues[:7])
    eye = torch.eye(40, dtype=torch.float64)
    torch.testing.assert_close(leading.apply(eye), whole.apply(eye))


def test_matrix_keeps_kind_and_type():
    K = np.diag([4.0, 2.0, 1.0])
    assert balancing_matrix(K.astype(np.float32), 1).dtype == np.float32
    assert balancing_matrix(K.astype(int), 1).dtype == np.float64
    tensor = balancing_matrix(torch.from_numpy(K).float(), 1)
    assert tensor.dtype == torch.float32
    np.testing.assert_allclose(tensor, balancing_matrix(K, 1))
    np.testing.assert_array_equal(balancing_matrix(np.zeros((3, 3)), 2), np.eye(3))


@pytest.mark.parametrize(
    ("K", "kwargs", "message"),
    [
        (np.ones(3), {}, r"square matrix, got shape \(3,\)"),
        (np.ones((2, 3)), {}, r"square matrix, got shape \(2, 3\)"),
        (np.full((2, 2), np.nan), {}, "K must be finite"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), {}, "K must be symmetric"),
        (np.eye(2), {"end": -1}, "end must be an integer of at least 0, got -1"),
        (np.eye(2), {"end": True}, "end must be an integer of at least 0, got True"),
        (np.eye(2), {"start": 0.5}, "start must be an integer of at least 0, got 0.5"),
        (np.eye(2), {"reference": "first"}, "reference must be 'end' or 'start', got 'first'"),
    ],
)
def test_matrix_refuses_bad_input(K, kwargs, message):
    with pytest.raises(ValueError, match=message):
        balancing_matrix(K, **{"end": 1} | kwargs)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.eye(2) + 0j, "must hold real numbers, got complex128"),
        (torch.eye(2) + 0j, "must hold real numbers, got torch.complex64"),
        (np.array([["a", "b"], ["c", "d"]]), "must hold real numbers, got <U1"),
        (np.array([["a", 1], [1, 1]], dtype=object), "must hold real numbers: could not convert"),
        (sp.csr_array(np.eye(2)), "must be dense, got a sparse csr_array"),
        (torch.eye(2).to_sparse(), "must be dense, got a sparse Tensor"),
    ],
)
def test_what_holds_no_real_numbers_is_refused(values, message):
    for name, call in (
        ("K", lambda: balancing_matrix(values, 1)),
        ("gradients", lambda: adjust_gradients(values, np.eye(2))),
        ("S", lambda: adjust_gradients(np.ones(2), values)),
    ):
        with pytest.raises(TypeError, match=f"{name} {message}"):
            call()


def test_whole_numbers_in_a_tensor_are_not_rounded():
    S = balancing_matrix(torch.diag(torch.tensor([8, 4, 2])), 2)
    np.testing.assert_allclose(S, np.diag([0.25, 0.5, 1]))
    adjusted = adjust_gradients(torch.tensor([1, 1, 1]), S.tolist())
    np.testing.assert_allclose(adjusted, [0.25, 0.5, 1])


def test_adjusted_gradients_by_einsum():
    rng = np.random.default_rng(0)
    r, S = rng.normal(size=(4, 5, 2)), balancing_matrix(np.diag([8.0, 4.0, 2.0, 1.0]), 2)
    expected = np.einsum("ij,jkc->ikc", S, r)
    np.testing.assert_allclose(adjust_gradients(r, S), expected)
    np.testing.assert_allclose(adjust_gradients(torch.from_numpy(r), S), expected)
    np.testing.assert_allclose(adjust_gradients(r[:, 0, 0], S), expected[:, 0, 0])
    assert not adjust_gradients(torch.from_numpy(r).requires_grad_(), S).requires_grad
    with pytest.raises(ValueError, match=r"S of shape \(4, 4\) and gradients of shape \(3, 5, 2\)"):
        adjust_gradients(r[:3], S)


# Groups.


@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    group_size=st.one_of(st.just("auto"), st.integers(1, 12)),
    grouping=st.sampled_from(["auto", "grid", "kdtree", "order"]),
    seed=st.integers(0, 20),
)
def test_groups_are_disjoint_and_of_one_size(shape, group_size, grouping, seed):
    axes = [np.linspace(-1, 1, n) for n in shape]
    X = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(shape))
    X = X[np.random.default_rng(seed).permutation(len(X))]
    sides = patch_sides(shape, group_size)
    if group_size != "auto" and (group_size > len(X) or (grouping == "grid" and sides is None)):
        with pytest.raises(ValueError, match=f"group_size={group_size}"):
            group_points(X, grouping, group_size)
        return
    groups, leftovers = group_points(X, grouping, group_size)
    assert sorted([*groups.ravel(), *leftovers]) == list(range(len(X)))
    if group_size != "auto":
        assert groups.shape[1] == group_size
    # Auto falls back to the tree where no patch has that size.
    if grouping == "grid" or (grouping == "auto" and sides is not None):
        offsets = X[groups] - X[groups[:, :1]]
        np.testing.assert_allclose(offsets, np.broadcast_to(offsets[0], offsets.shape), atol=1e-9)
    elif grouping != "order":
        assert len(leftovers) < groups.shape[1]


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((64, 64), "auto", (4, 4)),
        ((128, 128), "auto", (8, 8)),
        ((512, 768), 1024, (32, 32)),
        ((2048,), "auto", (8,)),
        ((64, 64, 64), "auto", (8, 8, 16)),
        ((1, 64), "auto", (1, 1)),
        ((6, 6), 6, (2, 3)),
        ((5, 7), 7, (1, 7)),
        ((4, 4), 5, None),
    ],
)
def test_sides_of_patches(shape, size, expected):
    sides = patch_sides(shape, size)
    assert (sides if sides is None else tuple(sorted(sides))) == expected


def test_automatic_patches_leave_few_points_over():
    for shape in [(427, 640), (100, 101), (300, 451), (37, 41, 43), (10007,)]:
        sides = patch_sides(shape)
        counts = [n // s for n, s in zip(shape, sides, strict=True)]
        assert 128 <= math.prod(counts) <= 512
        assert math.prod(counts) * math.prod(sides) > 0.92 * math.prod(shape)


def test_grids_are_recognised_in_any_order():
    X = pixels(3, 4)
    rows = np.random.default_rng(0).permutation(12)
    found = detect_grid(X[rows])
    np.testing.assert_array_equal(rows[found.ravel()], np.arange(12))
    assert detect_grid(X[:-1]) is None
    X[0] = X[1]
    assert detect_grid(X) is None
    assert detect_grid(np.zeros((2, 2))) is None


def test_tree_groups_are_compact_and_ordered():
    X = np.random.default_rng(0).random((400, 2))
    groups = kdtree_groups(X, 16)
    spread = X[groups].std(axis=1).mean()
    assert spread < 0.1
    for members in X[groups]:
        assert members.tolist() == sorted(members.tolist())
    # Equal points are told apart by their rows, so that a group never depends on chance.
    np.testing.assert_array_equal(kdtree_groups(np.zeros((10, 2)), 5).ravel().sort(), None)


def test_given_groups():
    labels = np.array(["b", "a", "b", "a", "b", "c", "c"])
    model = quick(grouping="given", n_balanced=1).fit(
        np.arange(7.0).reshape(-1, 1), np.arange(7.0), point_groups=labels
    )
    assert model.groups_.tolist() == [[1, 3], [0, 2], [5, 6]]
    assert model.leftovers_.tolist() == [4]
    same = quick(n_balanced=1).fit(
        np.arange(7.0).reshape(-1, 1), np.arange(7.0), point_groups=labels
    )
    assert same.loss_curve_ == model.loss_curve_


@pytest.mark.parametrize(
    ("params", "point_groups", "message"),
    [
        ({"grouping": "given"}, None, "grouping='given' needs the labels point_groups"),
        ({"grouping": "grid"}, np.zeros(7), "point_groups may be passed with grouping='given'"),
        ({"grouping": "given"}, np.zeros(6), "inconsistent numbers of samples"),
        ({"grouping": "given"}, np.full(7, 0.5), "point_groups must hold whole numbers"),
        ({"grouping": "given"}, np.full(7, np.nan), "point_groups must hold whole numbers"),
        ({"grouping": "given"}, np.zeros((7, 2)), "point_groups should be a 1d array"),
        ({"grouping": "given"}, np.full(7, np.inf), "point_groups must hold whole numbers"),
        ({"grouping": "given"}, 5, "point_groups must have a label for each point, got 5"),
        ({"group_size": 8}, None, "group_size=8 is larger than the number of points, 7"),
        ({"training": "fr", "module": torch.nn.Linear}, None, "training='fr' changes the layers"),
        ({"training": "fr", "fr_params": {"beta": 1}}, None, r"fr_params may hold .* \['beta'\]"),
        ({"fr_params": {"n_low": -1}}, None, r"fr_params\['n_low'\] .* at least 0, got -1"),
        ({"fr_params": {"n_phases": 0}}, None, r"fr_params\['n_phases'\] .* at least 1, got 0"),
        ({"fr_params": {"n_high": 2.5}}, None, r"fr_params\['n_high'\] must be an integer"),
        ({"fr_params": {"alpha": np.nan}}, None, r"fr_params\['alpha'\] .* got nan"),
        ({"fr_params": {"n_low": 0, "n_high": 0}}, None, "n_low=0 and n_high=0"),
        ({"hidden_omega_0": 1e-300}, None, "'hidden_omega_0' .* Got 1e-300"),
        ({"first_omega_0": 1e300}, None, r"'first_omega_0' .* Got 1e\+300"),
        ({"first_bias_range": 1e38}, None, r"'first_bias_range' .* Got 1e\+38"),
        ({"n_frequencies": 127}, None, "'n_frequencies' .* Got 127"),
        ({"module": torch.nn.Linear(3, 1)}, None, r"module cannot take .* shape \(2, 1\)"),
        ({"module": lambda d, C: torch.nn.ReLU()}, None, "with trainable parameters, got ReLU"),
        (
            {"module": lambda d, C: torch.nn.Linear(d, 3)},
            None,
            r"to values of shape \(2, 1\); it returned shape \(2, 3\)",
        ),
        ({"device": "nowhere"}, None, "device must be 'auto', 'cpu'"),
    ],
)
def test_what_does_not_fit_together_is_refused(params, point_groups, message):
    model = quick(**{"n_balanced": 1} | params)
    X = np.arange(7.0).reshape(-1, 1)
    with pytest.raises(ValueError, match=message):
        model.fit(X, X.ravel(), point_groups=point_groups)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_extreme_frequencies_are_trainable():
    X = np.arange(7.0).reshape(-1, 1)
    for params in (
        {"architecture": "relu_pe", "n_frequencies": 126},
        {"architecture": "siren", "first_omega_0": 1e9, "hidden_omega_0": 1e-9},
        {"architecture": "finer", "first_omega_0": 1e9, "first_bias_range": 1e9},
    ):
        model = quick(n_balanced=1, max_iter=2, **params).fit(X, X.ravel())
        assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("labels", [[None] * 7, [0, "a"] * 3 + [0]])
def test_labels_of_mixed_kinds_are_refused(labels):
    X = np.arange(7.0).reshape(-1, 1)
    with pytest.raises(TypeError, match="point_groups must hold whole numbers or strings, and not"):
        quick().fit(X, X.ravel(), point_groups=np.array(labels, dtype=object))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_features", 0),
        ("n_outputs", -1),
        ("hidden_width", 2.5),
        ("n_hidden_layers", -1),
        ("n_frequencies", True),
        ("first_omega_0", np.nan),
        ("hidden_omega_0", 0),
        ("first_bias_range", -1),
    ],
)
def test_network_names_the_bad_argument(name, value):
    with pytest.raises(ValueError, match=f"{name} must be .* got {value}"):
        CoordinateMLP(**{"n_features": 2, name: value})


@pytest.mark.parametrize("name", ["X", "y"])
def test_ranges_beyond_float64_are_refused(name):
    values = np.array([-1.7e308, 0, 1.7e308])
    X, y = (values, np.arange(3.0)) if name == "X" else (np.arange(3.0), values)
    with pytest.raises(ValueError, match=f"{name} must have a range that float64 holds"):
        quick(n_balanced=0).fit(X.reshape(-1, 1), y)


def test_an_empty_block_of_eigenvalues_warns():
    X = np.arange(7.0).reshape(-1, 1)
    with pytest.warns(UserWarning, match="balance_start=2 is not below n_balanced=2"):
        quick(n_balanced=2, balance_start=2).fit(X, X.ravel())


def test_no_grid_and_no_patch_are_told_apart():
    X = pixels(4, 4)
    with pytest.raises(ValueError, match="needs the points of a full grid"):
        quick(grouping="grid").fit(X[:-1], X[:-1])
    with pytest.raises(ValueError, match=r"group_size=5 cannot be laid out .* within \(4, 4\)"):
        quick(grouping="grid", group_size=5).fit(X, X)


def test_groups_of_very_different_sizes_warn():
    X = np.arange(9.0).reshape(-1, 1)
    with pytest.warns(UserWarning, match="7 of 9 points belong to no group"):
        quick(n_balanced=1).fit(X, X.ravel(), point_groups=[0] * 8 + [1])


def test_too_few_groups_warn():
    X = np.arange(9.0).reshape(-1, 1)
    with pytest.warns(UserWarning, match="there are 9, so at most 8 eigenvalues"):
        model = quick().fit(X, X.ravel())
    assert np.sum(model.eigenvalues_ != model.balanced_eigenvalues_) <= 8


# Options.


@pytest.mark.parametrize(
    "changed",
    [
        {"architecture": "finer"},
        {"hidden_width": 15},
        {"n_hidden_layers": 1},
        {"first_omega_0": 29.0},
        {"hidden_omega_0": 29.0},
        {"first_bias_range": 1.0},
        {"training": "standard"},
        {"training": "fr"},
        {"training": "bn"},
        {"n_balanced": 4},
        {"balance_start": 1},
        {"balance_reference": "start"},
        {"group_size": 9},
        {"grouping": "kdtree"},
        {"grouping": "order"},
        {"sampling": "centre"},
        {"update_interval": 1},
        {"optimizer": "sgd"},
        {"learning_rate": 2e-3},
        {"lr_decay_at": 5},
        {"lr_decay_at": "exponential"},
        {"max_iter": 19},
        {"batch_groups": 3},
        {"scale_target": False},
        {"n_iter_no_change": 2, "tol": 1.0},
        {"random_state": 1},
        {"module": lambda d, C: CoordinateMLP(d, C, hidden_width=8)},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_every_option_changes_the_model(changed):
    image = texture(12)
    base = quick(group_size=4, n_balanced=6)
    expected = clone(base).fit_image(image).predict_image()
    found = clone(base).set_params(**changed).fit_image(image).predict_image()
    assert np.abs(found - expected).max() > 1e-4


@pytest.mark.parametrize("decay", ["exponential", 4])
def test_learning_rate_schedules(decay, monkeypatch):
    rates = []
    step = torch.optim.SGD.step
    monkeypatch.setattr(
        torch.optim.SGD,
        "step",
        lambda self, *args: rates.append(self.param_groups[0]["lr"]) or step(self, *args),
    )
    X = pixels(3, 3)
    quick(
        optimizer="sgd",
        learning_rate=1e-3,
        max_iter=8,
        lr_decay_at=decay,
        lr_decay=0.5,
        n_balanced=2,
    ).fit(X, X)
    if decay == 4:
        expected = [1e-3] * 4 + [5e-4] * 4
    else:
        expected = 1e-3 * 0.5 ** (np.arange(8) / 8)
    np.testing.assert_allclose(rates, expected)


def test_best_weights_are_kept():
    image = texture(8)
    # So large a step makes the loss rise and fall.
    model = quick(learning_rate=0.05, max_iter=30, n_balanced=3).fit_image(image)
    best = int(np.argmin(model.loss_curve_))
    assert best < 29
    assert model.best_iter_ == best
    assert model.loss_curve_[-1] > 1.05 * model.loss_curve_[best]
    psnr = model.psnr(pixels(8, 8), image.reshape(-1, 2))
    assert psnr == pytest.approx(model.psnr_curve_[best], abs=1e-2)
    np.testing.assert_allclose(model.psnr_curve_, -10 * np.log10(model.loss_curve_))


def test_early_stopping():
    model = quick(max_iter=200, n_iter_no_change=3, tol=0.5, n_balanced=3).fit_image(texture(8))
    assert model.n_iter_ == len(model.loss_curve_) < 50


def test_batches_of_groups():
    X = pixels(13, 9)  # leftovers
    y = np.sin(X)
    model = quick(group_size=4, batch_groups=5, max_iter=60, n_balanced=3).fit(X, y)
    n_groups = len(model.groups_)
    assert n_groups % 5
    assert len(model.leftovers_)
    steps_per_epoch = -(-n_groups // 5)
    assert model.best_iter_ == 59 or (model.best_iter_ + 1) % steps_per_epoch == 0
    assert model.psnr(X, y) > model.psnr_curve_[0] + 3
    assert len(model.eigenvalues_) <= 5
    whole = quick(group_size=4, batch_groups=n_groups, n_balanced=3).fit(X, y)
    assert whole.loss_curve_ == quick(group_size=4, n_balanced=3).fit(X, y).loss_curve_


def test_leftover_points_keep_their_gradient():
    """One step of gradient descent, against the gradient written out."""
    X = np.linspace(0, 1, 11).reshape(-1, 1)
    y = np.sin(5 * X.ravel())

    class Linear(torch.nn.Module):
        def __init__(self, d, C):
            super().__init__()
            self.map = torch.nn.Linear(d, C)

        def forward(self, x):
            return self.map(torch.cat([x], dim=1))

    settings = {"grouping": "order", "group_size": 3, "n_balanced": 1, "sampling": "centre"}
    learning_rate = 0.1
    with seeded():
        torch.manual_seed(0)
        start = Linear(1, 1).double()
    moved = []

    class Spy(torch.optim.SGD):
        def step(self, *args):
            moved.append([p.grad.clone() for group in self.param_groups for p in group["params"]])
            return super().step(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim, "SGD", Spy)
        INRRegressor(
            module=start, optimizer="sgd", learning_rate=learning_rate, max_iter=1, **settings
        ).fit(X, y)
    x = torch.from_numpy(2 * X - 1)
    target = torch.from_numpy((y - y.min()) / (y.max() - y.min()))
    r = (start(x)[:, 0] - target).detach()
    J = torch.cat([x, torch.ones_like(x)], dim=1)
    K = J[[1, 4, 7]] @ J[[1, 4, 7]].T
    S = balancing_matrix(K, 1, reference="start")
    q = torch.cat([(S @ r[:9].view(3, 3)).flatten(), r[9:]])
    expected = 2 / 11 * J.T @ q
    torch.testing.assert_close(torch.cat([g.flatten() for g in moved[0]]), expected)


def test_failed_updates_fall_back_to_the_plain_gradient(monkeypatch):
    image = texture(8)
    standard = quick(training="standard").fit_image(image)

    def fail(*args):
        raise np.linalg.LinAlgError("no convergence")

    monkeypatch.setattr("skml.implicit._balancing._leading_pairs", fail)
    model = quick(n_balanced=3).fit_image(image)
    assert model.n_failed_updates_ == 2
    assert model.loss_curve_ == standard.loss_curve_
    assert model.eigenvalues_ is None


def test_spectra_of_the_last_kernel():
    model = quick(n_balanced=4, balance_start=1).fit_image(texture(8))
    values, balanced = model.eigenvalues_, model.balanced_eigenvalues_
    assert len(values) == 64
    assert (np.diff(values) <= 0).all()
    np.testing.assert_array_equal(balanced[1:4], np.full(3, values[4]))
    np.testing.assert_array_equal(np.delete(balanced, [1, 2, 3]), np.delete(values, [1, 2, 3]))


def test_divergence_is_an_error_that_leaves_nothing_behind():
    model = quick(optimizer="sgd", learning_rate=1e6, n_balanced=3, max_iter=50)
    with pytest.raises(ValueError, match="try a smaller learning_rate"):
        model.fit_image(texture(8))
    assert not [name for name in vars(model) if name.endswith("_")]


# A module of one's own.


@pytest.mark.parametrize(
    "module",
    [
        lambda d, C: torch.nn.Sequential(
            torch.nn.Linear(d, 16), torch.nn.Tanh(), torch.nn.Linear(16, C)
        ),
        lambda d, C: torch.nn.Sequential(
            torch.nn.Linear(d, 16), torch.nn.PReLU(16), torch.nn.Linear(16, C)
        ),
    ],
)
def test_own_module(module):
    X = pixels(6, 6)
    y = np.column_stack([np.sin(X[:, 0]), X[:, 1]])
    model = quick(module=module, n_balanced=3, max_iter=200).fit(X, y)
    assert model.predict(X).shape == (36, 2)
    assert model.loss_curve_[-1] < 0.3 * model.loss_curve_[0]
    assert model.gradient(X[:2]).shape == (2, 2, 2)
    assert model.empirical_ntk(X[:3]).shape == (3, 3)
    again = quick(module=module, n_balanced=3, max_iter=200).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


def test_instance_of_a_module_is_copied():
    with seeded():
        module = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    X = np.arange(10.0).reshape(-1, 1)
    model = quick(module=module, n_balanced=2).fit(X, np.sin(X.ravel()))
    assert model.module_ is not module
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


# Images and shapes.


@pytest.mark.parametrize("shape", [(6, 9), (9, 6, 1), (5, 7, 3), (1, 8), (8, 1, 2)])
def test_images_of_any_aspect(shape):
    image = np.random.default_rng(0).random(shape)
    model = quick(n_balanced=2).fit_image(image)
    assert model.predict_image().shape == shape
    assert model.predict_image((12, 20)).shape == (12, 20, *shape[2:])
    flat = model.predict(pixels(*shape[:2]))
    np.testing.assert_allclose(model.predict_image().reshape(flat.shape), flat, rtol=1e-12)


def test_finer_grid_has_the_same_corners():
    image = texture(8)
    model = quick(n_balanced=2).fit_image(image)
    small, large = model.predict_image(), model.predict_image((15, 29))
    np.testing.assert_allclose(large[::2, ::4], small, rtol=1e-9, atol=1e-12)
    X = pixels(8, 8)
    refit = clone(model).fit(X, image.reshape(-1, 2))
    np.testing.assert_array_equal(refit.predict_image((8, 8)), small)
    with pytest.raises(ValueError, match=r"needs shape=\(height, width\) after fit"):
        refit.predict_image()


def test_bytes_are_taken_for_numbers():
    image = (texture(8) * 100).clip(0, 255).astype(np.uint8)
    model = quick(n_balanced=2).fit_image(image)
    as_floats = quick(n_balanced=2).fit_image(image.astype(float))
    np.testing.assert_array_equal(model.predict_image(), as_floats.predict_image())


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros(5), "Expected 2D array|image must have the shape"),
        (np.zeros((2, 2, 2, 2)), "image must have the shape"),
        (np.full((3, 3), np.nan), "image contains NaN"),
        (np.zeros((3, 0)), "minimum of 1 is required|image must have the shape"),
    ],
)
def test_bad_images_are_refused(image, message):
    with pytest.raises(ValueError, match=message):
        quick().fit_image(image)


def test_only_models_of_the_plane_predict_images():
    X = np.arange(10.0).reshape(-1, 1)
    model = quick(n_balanced=2).fit(X, X.ravel())
    with pytest.raises(ValueError, match="needs a model of 2 coordinates; this has 1"):
        model.predict_image((3, 3))


@pytest.mark.parametrize("shape", [5, (3,), (3, 4, 5), (0, 4), (3.5, 4), (True, 2), "ab"])
def test_bad_shapes_of_images_are_refused(shape):
    model = quick(n_balanced=1).fit_image(np.eye(3))
    with pytest.raises(ValueError, match="shape must be two integers of at least 1, got"):
        model.predict_image(shape)


def test_psnr_refuses_other_shapes():
    model = quick(n_balanced=2).fit_image(texture(4))
    with pytest.raises(ValueError, match=r"\(16, 2\), got \(16,\)"):
        model.psnr(pixels(4, 4), np.zeros(16))


def test_occupancy_of_a_ball():
    from skml.metrics import intersection_over_union

    axis = np.linspace(-1, 1, 12)
    X = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    inside = (X**2).sum(axis=1) < 0.6
    model = quick("relu_pe", hidden_width=32, max_iter=100).fit(X, inside.astype(float))
    assert intersection_over_union(inside, model.predict(X)) > 0.95


# As an estimator.


def test_fit_is_repeatable_and_leaves_torch_alone():
    image = texture(10)
    first, second = (quick(n_balanced=3).fit_image(image) for _ in range(2))
    assert first.loss_curve_ == second.loss_curve_
    np.testing.assert_array_equal(first.predict_image(), second.predict_image())
    other = quick(n_balanced=3, random_state=1).fit_image(image)
    assert other.loss_curve_ != first.loss_curve_


@pytest.mark.parametrize("module", [None, torch.nn.Linear])
def test_fits_in_threads_are_those_of_one(module):
    X = pixels(4, 4)
    y = np.sin(3 * X[:, 0])

    def weights(seed):
        model = quick(n_balanced=2, max_iter=5, module=module, random_state=seed).fit(X, y)
        return model.predict(X)

    seeds = list(range(8)) * 3
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(weights, seeds))
    alone = [weights(seed) for seed in range(8)] * 3
    np.testing.assert_array_equal(together, alone)


def test_fit_where_gradients_are_off():
    X = pixels(4, 4)
    with torch.no_grad():
        model = quick(n_balanced=2, max_iter=5).fit(X, X[:, 0])
        assert not torch.is_grad_enabled()
    assert model.loss_curve_ == quick(n_balanced=2, max_iter=5).fit(X, X[:, 0]).loss_curve_


def test_predictions_do_not_depend_on_their_company():
    model = quick(n_balanced=3).fit_image(texture(12))
    X = pixels(12, 12)
    whole = model.predict(X)
    np.testing.assert_allclose(model.predict(X[::-1])[::-1], whole, rtol=1e-12, atol=1e-13)
    alone = np.concatenate([model.predict(X[i : i + 1]) for i in range(0, 144, 17)])
    np.testing.assert_allclose(alone, whole[::17], rtol=1e-12, atol=1e-13)


def test_constant_coordinates_and_targets():
    X = np.column_stack([np.arange(20.0), np.full(20, 7.0)])
    model = quick(n_balanced=3).fit(X, np.full(20, 3.0))
    assert model.coord_scale_[1] == 0
    np.testing.assert_allclose(model.predict(X), 3.0, atol=0.5)
    moved = X + [0.0, 100.0]
    np.testing.assert_array_equal(model.predict(moved), model.predict(X))
    np.testing.assert_array_equal(model.gradient(X)[:, 1], 0)


def test_units_of_the_coordinates_do_not_matter():
    X = pixels(6, 7)
    y = np.sin(X[:, 0] + X[:, 1])
    base = quick(n_balanced=3).fit(X, y)
    moved = X * [1e-6, 1e9] + [5.0, -1e9]
    other = quick(n_balanced=3).fit(moved, y)
    np.testing.assert_allclose(other.predict(moved), base.predict(X), atol=1e-4)
    np.testing.assert_allclose(
        other.gradient(moved) * [1e-6, 1e9], base.gradient(X), rtol=1e-2, atol=1e-3
    )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_signals(n):
    X = np.arange(float(n)).reshape(-1, 1)
    with pytest.warns(UserWarning, match="needs more than 20 groups"):
        model = quick().fit(X, X.ravel())
    assert model.predict(X).shape == (n,)
    if n == 1:
        with pytest.raises(ValueError, match="needs at least 2 samples, got n_samples = 1"):
            quick(training="bn").fit(X, X.ravel())


def test_no_hidden_layers_and_width_one():
    for training in ("iga", "fr", "bn"):
        model = quick(n_hidden_layers=0, hidden_width=1, n_balanced=2, training=training)
        assert model.fit_image(texture(5)).predict_image().shape == (5, 5, 2)


def test_float32_in_float32_out():
    X = pixels(5, 5).astype(np.float32)
    model = quick(n_balanced=2).fit(X, X[:, 0])
    assert model.predict(X).dtype == np.float32
    assert model.predict(X.astype(float)).dtype == np.float64


def test_weights_of_a_later_parameter_are_not_asked_for_in_a_pickle():
    X = pixels(5, 5)
    model = quick(n_balanced=2).fit(X, X)
    expected = model.predict(X)
    model.set_params(hidden_width=99, architecture="relu", module=torch.nn.Linear)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), expected)


def test_pipeline_and_grid_search_with_routed_groups():
    X = pixels(8, 8)
    y = np.sin(X[:, 0]) + X[:, 1] / 8
    labels = (X[:, 0] // 2 * 4 + X[:, 1] // 2).astype(int)
    with config_context(enable_metadata_routing=True):
        model = quick(n_balanced=3, grouping="given").set_fit_request(point_groups=True)
        pipeline = make_pipeline(StandardScaler(), model)
        pipeline.fit(X, y, point_groups=labels)
        assert pipeline[-1].groups_.shape == (16, 4)
        assert pipeline.score(X, y) > 0
        search = GridSearchCV(pipeline, {"inrregressor__n_balanced": [0, 3]}, cv=2)
        search.fit(X, y, point_groups=labels)
        assert search.best_estimator_[-1].groups_.shape == (16, 4)


def test_dataframes_and_names():
    X = pd.DataFrame(pixels(5, 6), columns=["row", "column"])
    model = quick(n_balanced=2).fit(X, X["row"])
    assert model.feature_names_in_.tolist() == ["row", "column"]
    assert model.predict(X).shape == (30,)
    assert model.predict_image((5, 6)).shape == (5, 6)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["column", "row"]])


def test_progress_shows_the_ratio(capsys):
    quick(n_balanced=2, verbose=1, max_iter=3).fit_image(texture(5))
    shown = capsys.readouterr().err
    assert "INRRegressor" in shown
    assert "dB" in shown


@pytest.mark.parametrize("architecture", ["siren", "relu", "relu_pe", "finer"])
@pytest.mark.parametrize("method", ["predict", "gradient", "empirical_ntk"])
def test_coordinates_too_far_for_numbers_are_named(architecture, method):
    x = np.linspace(0, 1e-3, 12).reshape(-1, 1)
    model = INRRegressor(
        architecture, hidden_width=4, max_iter=2, n_balanced=2, random_state=0
    ).fit(x, 1e3 * x.ravel())
    evaluate = getattr(model, method)
    assert np.isfinite(evaluate([[5e-4], [1e3]])).all()
    for far in (1e308, -1e306):
        with pytest.raises(ValueError, match=r"row 1 of X is \[.*\], and fit saw .* from \[0.0\]"):
            evaluate([[5e-4], [far]])


def test_values_beyond_single_precision_are_refused_there():
    x = np.linspace(0, 1, 8).reshape(-1, 1)
    model = INRRegressor(hidden_width=4, max_iter=2, n_balanced=2, random_state=0)
    model.fit(x, 1e300 * (1 + x.ravel()))
    assert np.isfinite(model.predict(x)).all()
    with pytest.raises(ValueError, match="finite numbers of float32; row 0 of X"):
        model.predict(x.astype(np.float32))


def test_a_device_without_numbers_is_refused():
    with pytest.raises(ValueError, match="device='meta' holds shapes without numbers"):
        INRRegressor(device="meta", n_balanced=0, max_iter=1).fit([[0.0], [1.0]], [0.0, 1.0])
