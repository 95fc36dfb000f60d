"""Facts about easy quantum groups and their layers, one test each."""

import numpy as np
import pytest
import torch

from skml.equivariant import (
    EquivariantLinear,
    EquivariantNetwork,
    EquivariantPolynomialFeatures,
    QuantumGroupEquivariantRegressor,
    adjoint_partition,
    compose_partitions,
    count_partitions,
    equivariant_basis,
    format_basis,
    quantum_representation,
    sample_group,
    tensor_partitions,
)
from skml.equivariant._basis import basis_labels, dense_maps, spanning_labels
from skml.equivariant._partitions import as_labels, enumerate_partitions
from skml.equivariant._polynomial_features import add_polynomial
from skml.equivariant._representations import intertwiner_residual, operator_power

COUNTS = {
    "S": [1, 1, 2, 5, 15, 52, 203, 877, 4140],
    "S+": [1, 1, 2, 5, 14, 42, 132, 429, 1430],
    "O": [1, 0, 1, 0, 3, 0, 15, 0, 105],
    "O+": [1, 0, 1, 0, 2, 0, 5, 0, 14],
    "H": [1, 0, 1, 0, 4, 0, 31, 0, 379],
    "H+": [1, 0, 1, 0, 3, 0, 12, 0, 55],
    "B": [1, 1, 2, 4, 10, 26, 76, 232, 764],
    "B+": [1, 1, 2, 4, 9, 21, 51, 127, 323],
    "S'": [1, 0, 2, 0, 15, 0, 203, 0, 4140],
    "S'+": [1, 0, 2, 0, 14, 0, 132, 0, 1430],
    "B'": [1, 0, 2, 0, 10, 0, 76, 0, 764],
    "B'+": [1, 0, 2, 0, 9, 0, 51, 0, 323],
    "B#+": [1, 0, 2, 0, 7, 0, 30, 0, 143],
    "O*": [1, 0, 1, 0, 2, 0, 6, 0, 24],
    "H*": [1, 0, 1, 0, 3, 0, 16, 0, 131],
}
CLASSICAL = ["S", "O", "H", "B", "S'", "B'"]


def as_operators(matrix):
    """A plain matrix as a representation by 1 x 1 matrices."""
    return matrix.astype(complex)[..., None, None]


def null_space_dimension(representations, order_in, order_out):
    """Dimension of the common solutions T of T u^k = u^l T."""
    n = len(representations[0])
    n_in, n_out = n**order_in, n**order_out
    normal = 0.0
    for u in representations:
        inner, outer = operator_power(u, order_in), operator_power(u, order_out)
        d = u.shape[-1]
        system = np.zeros((n_out, n_in, d, d, n_out, n_in), dtype=complex)
        for j in range(n_out):
            system[j, :, :, :, j, :] += inner.transpose(1, 2, 3, 0)
        for i in range(n_in):
            system[:, i, :, :, :, i] -= outer.transpose(0, 2, 3, 1)
        system = system.reshape(-1, n_out * n_in)
        normal = normal + system.conj().T @ system
    values = np.linalg.eigvalsh(normal)
    return int(np.sum(values < 1e-9 * max(values.max(), 1.0)))


def draws(group, n, number=3):
    return [quantum_representation(group, n, seed) for seed in range(number)]


@pytest.mark.parametrize("group", COUNTS)
def test_oracle_01_counts_do_not_depend_on_the_split(group):
    for m, expected in enumerate(COUNTS[group]):
        assert count_partitions(group, m) == expected
        for k in range(m + 1):
            labels = enumerate_partitions(group, k, m - k)
            assert len(labels) == expected
            assert len(np.unique(labels, axis=0)) == expected


def test_oracle_01_counts_of_unitary_groups():
    for k in range(1, 5):
        factorial = [1, 1, 2, 6, 24][k]
        catalan = [1, 1, 2, 5, 14][k]
        assert len(enumerate_partitions("U", k, k)) == factorial
        assert len(enumerate_partitions("U+", k, k)) == 1
        colors = "uc" * k
        assert len(enumerate_partitions("U", 0, 2 * k, colors_out=colors)) == factorial
        assert len(enumerate_partitions("U+", 0, 2 * k, colors_out=colors)) == catalan


@pytest.mark.parametrize("group", COUNTS)
def test_oracle_02_rank_of_the_dense_basis(group):
    for n in (2, 3, 4):
        for m in range(5):
            k = m // 2
            spanning = dense_maps(spanning_labels(group, n, k, m - k), n, k).reshape(-1, n**m)
            basis = equivariant_basis(group, n, k, m - k).reshape(-1, n**m)
            rank = np.linalg.matrix_rank(spanning) if len(spanning) else 0
            gram_rank = np.linalg.matrix_rank(spanning @ spanning.T) if len(spanning) else 0
            assert len(basis) == rank == gram_rank
            assert not len(basis) or np.linalg.matrix_rank(basis) == rank


@pytest.mark.parametrize(
    ("group", "n", "m", "rank"),
    [
        ("S", 2, 6, 2**5),
        ("S", 3, 6, (3**5 + 1) // 2),
        ("H", 2, 8, 1 + 63),  # partitions into one or two even blocks
        ("O", 2, 6, 10),
        ("B", 3, 6, 71),
        ("B", 2, 5, 2**4),
        ("S+", 3, 4, 14),
        ("S+", 3, 5, 41),
        ("S+", 3, 6, 122),
        ("S+", 4, 6, 132),
        ("O+", 2, 8, 14),
        ("H+", 2, 6, 10),
        ("H+", 2, 8, 35),
        ("H+", 3, 6, 12),
        ("B+", 3, 6, 51),
        ("B'+", 3, 6, 51),
        ("B#+", 3, 6, 30),
    ],
)
def test_oracle_02_ranks_at_small_n(group, n, m, rank):
    k = m // 2
    assert len(basis_labels(group, n, k, m - k)) == rank
    maps = dense_maps(spanning_labels(group, n, k, m - k), n, k).reshape(-1, n**m)
    assert np.linalg.matrix_rank(maps @ maps.T) == rank


@pytest.mark.parametrize("group", CLASSICAL)
def test_oracle_03_classical_equivariance_and_completeness(group):
    for n, spaces in [(2, [(1, 2), (2, 2)]), (3, [(0, 2), (1, 1), (2, 1), (2, 2)])]:
        elements = [as_operators(sample_group(group, n, seed)) for seed in range(6)]
        for k, l in spaces:
            basis = equivariant_basis(group, n, k, l)
            for u in elements:
                assert intertwiner_residual(basis, u, k, l).max(initial=0) < 1e-12
            assert null_space_dimension(elements, k, l) == len(basis)


def test_oracle_04_pauli_model_of_the_free_symmetric_group():
    representations = draws("S+", 4)
    u = representations[0]
    np.testing.assert_allclose(u.sum(axis=0), np.broadcast_to(np.eye(4), (4, 4, 4)), atol=1e-14)
    np.testing.assert_allclose(u.sum(axis=1), np.broadcast_to(np.eye(4), (4, 4, 4)), atol=1e-14)
    np.testing.assert_allclose(u @ u, u, atol=1e-14)
    expected = {(0, 1): 1, (0, 2): 2, (1, 1): 2, (1, 2): 5, (2, 2): 14}
    for (k, l), dimension in expected.items():
        maps = equivariant_basis("S+", 4, k, l)
        assert len(maps) == dimension
        assert intertwiner_residual(maps, u, k, l).max() < 1e-14
        assert null_space_dimension(representations, k, l) == dimension
    swap = equivariant_basis("S", 4, 2, 2)[
        equivariant_basis("S", 4, 2, 2, form="partitions").index(((0, 3), (1, 2)))
    ]
    for v in representations:
        assert intertwiner_residual(swap[None], v, 2, 2)[0] > 0.1


@pytest.mark.parametrize(("group", "free", "classical"), [("H", 3, 4), ("O", 2, 3), ("B", 9, 10)])
def test_oracle_05_free_groups_at_n_4(group, free, classical):
    assert null_space_dimension(draws(f"{group}+", 4), 2, 2) == free
    assert len(equivariant_basis(f"{group}+", 4, 2, 2)) == free
    elements = [as_operators(sample_group(group, 4, seed)) for seed in range(5)]
    assert null_space_dimension(elements, 2, 2) == classical


def test_oracle_06_free_orthogonal_group_at_n_2():
    representations = draws("O+", 2)
    u = representations[0]
    np.testing.assert_allclose(u, u.conj().swapaxes(-1, -2), atol=1e-14)
    product = np.einsum("ikab,jkbc->ijac", u, u)
    np.testing.assert_allclose(product, np.einsum("ij,ab->ijab", np.eye(2), np.eye(3)), atol=1e-14)
    elements = [as_operators(sample_group("O", 2, seed)) for seed in range(4)]
    for k, free, classical in [(1, 1, 1), (2, 2, 3), (3, 5, 10)]:
        assert null_space_dimension(representations, k, k) == free
        assert len(equivariant_basis("O+", 2, k, k)) == free
        assert null_space_dimension(elements, k, k) == classical


@pytest.mark.parametrize(
    ("group", "dimension", "invariant_vectors"), [("B+", 9, 1), ("B'+", 9, 0), ("B#+", 7, 0)]
)
def test_oracle_07_free_bistochastic_groups_at_n_3(group, dimension, invariant_vectors):
    representations = draws(group, 3)
    for (k, l), expected in {(2, 2): dimension, (1, 0): invariant_vectors}.items():
        maps = equivariant_basis(group, 3, k, l)
        assert len(maps) == expected
        assert null_space_dimension(representations, k, l) == expected
        assert intertwiner_residual(maps, representations[0], k, l).max(initial=0) < 1e-13


def test_oracle_08_small_magic_unitary():
    def projection(angle):
        vector = np.array([np.cos(angle), np.sin(angle)])
        return np.outer(vector, vector)

    u = np.zeros((4, 4, 2, 2), dtype=complex)
    for start, p in [(0, projection(0.0)), (2, projection(0.7))]:
        u[start, start] = u[start + 1, start + 1] = p
        u[start, start + 1] = u[start + 1, start] = np.eye(2) - p
    for k, l in [(1, 1), (2, 2), (1, 2), (3, 1)]:
        assert intertwiner_residual(equivariant_basis("S+", 4, k, l), u, k, l).max() < 1e-14
    swap = dense_maps(as_labels([(0, 3), (1, 2)], 4)[None], 4, 2)
    assert intertwiner_residual(swap, u, 2, 2)[0] == pytest.approx(0.49, abs=0.01)


def test_oracle_09_calculus_of_diagrams():
    rng = np.random.default_rng(0)
    n = 3

    def draw(k, l):
        labels = enumerate_partitions("S", k, l)
        row = labels[rng.integers(len(labels))]
        blocks = tuple(
            tuple(np.flatnonzero(row == b).tolist()) for b in range(row.max(initial=-1) + 1)
        )
        return blocks, dense_maps(row[None], n, k)[0]

    for _ in range(60):
        k, l, m = rng.integers(0, 4, size=3).tolist()
        sigma, t_sigma = draw(k, l)
        pi, t_pi = draw(l, m)
        composed, n_loops = compose_partitions(pi, sigma, k, l, m)
        matrix = dense_maps(as_labels(composed, k + m)[None], n, k)[0]
        np.testing.assert_array_equal(t_pi @ t_sigma, float(n) ** n_loops * matrix)
        flipped = adjoint_partition(sigma, k, l)
        np.testing.assert_array_equal(
            t_sigma.T, dense_maps(as_labels(flipped, k + l)[None], n, l)[0]
        )
        k2, l2 = rng.integers(0, 3, size=2).tolist()
        tau, t_tau = draw(k2, l2)
        both = tensor_partitions(sigma, tau, (k, l), (k2, l2))
        matrix = dense_maps(as_labels(both, k + l + k2 + l2)[None], n, k + k2)[0]
        np.testing.assert_array_equal(np.kron(t_sigma, t_tau), matrix)


def test_oracle_10_reductions_to_known_layers():
    deep_sets = equivariant_basis("S", 5, 1, 1)
    np.testing.assert_array_equal(deep_sets, [np.eye(5), np.ones((5, 5))])
    layer = EquivariantLinear("S", 5, [(2, 1)], [(2, 1)])
    assert len(layer.partitions()) == 15
    assert layer.biases["0"].shape == (2, 1)
    free = set(equivariant_basis("S+", 5, 2, 2, form="partitions"))
    dropped = set(equivariant_basis("S", 5, 2, 2, form="partitions")) - free
    assert dropped == {((0, 3), (1, 2))}
    maps = dense_maps(as_labels([(0, 3), (1, 2)], 4)[None], 5, 2)[0]
    x = np.arange(25.0).reshape(5, 5)
    np.testing.assert_array_equal(maps @ x.ravel(), x.T.ravel())


def test_oracle_10_weight_matrices_at_n_2():
    expected = {
        "O": "a+b+c 0 0 a  0 b c 0  0 c b 0  a 0 0 a+b+c",
        "O+": "a+b 0 0 a  0 b 0 0  0 0 b 0  a 0 0 a+b",
        "H": "a+b+c+d 0 0 b  0 c d 0  0 d c 0  b 0 0 a+b+c+d",
        "H+": "a+b+c 0 0 b  0 c 0 0  0 0 c 0  b 0 0 a+b+c",
    }
    for group, cells in expected.items():
        lines = format_basis(group, 2, 2, 2, independent=False).splitlines()[:4]
        assert [cell for line in lines for cell in line.strip("[] ").split()] == cells.split()
    dimensions = {"S": 8, "S+": 8, "H": 4, "H+": 3, "O": 3, "O+": 2, "B": 8, "B+": 8}
    for group, dimension in dimensions.items():
        assert len(equivariant_basis(group, 2, 2, 2)) == dimension


def test_oracle_11_factorized_product_and_gradients():
    n, generator = 3, torch.Generator().manual_seed(0)
    layer = EquivariantLinear("O", n, [(3, 1)], [(3, 1)], method="factorized").double()
    path = layer.paths["0_0"]
    maps = torch.from_numpy(equivariant_basis("O", n, 3, 3))
    assert len(maps) == 15
    x = torch.randn(4, 1, n**3, dtype=torch.float64, generator=generator)
    for number, matrix in enumerate(maps):
        weight = torch.zeros(15, 1, 1, dtype=torch.float64)
        weight[number] = 1.0
        product = path.product(x, weight)
        torch.testing.assert_close(product, x @ matrix.T, rtol=0, atol=1e-12)
    small = EquivariantLinear("O", 2, [(3, 2)], [(3, 2)]).double().paths["0_0"]
    x = torch.randn(2, 2, 8, dtype=torch.float64, generator=generator, requires_grad=True)
    weight = torch.randn(10, 2, 2, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(small.product, (x, weight))
    assert torch.autograd.gradgradcheck(small.product, (x, weight))
    assert torch.autograd.gradcheck(lambda w: small.kernels.matrix(w), (weight,))


@pytest.mark.parametrize(
    ("group", "order_in", "order_out", "nonlinearity", "hidden"),
    [
        ("S", 1, 0, "auto", (6,)),
        ("S", 1, 1, "pointwise", (6,)),
        ("S", 2, 1, "pointwise", (4, [(1, 3), (0, 2)])),
        ("S", 2, 2, "auto", (4,)),
        ("O", 1, 0, "auto", (6,)),
        ("O", 2, 2, "matmul", (4,)),
        ("H", 1, 0, "matmul", ([(2, 4)],)),
        ("H", 2, 2, "pointwise", (4,)),
        ("B", 1, 1, "gated", (6,)),
        ("S'", 2, 2, "auto", ([(2, 3), (4, 1)],)),
        ("B'", 1, 1, "gated", (6,)),
        ("S+", 1, 1, "auto", (6,)),
        ("H+", 2, 2, "auto", (4,)),
    ],
)
def test_oracle_12_trained_network_is_equivariant(group, order_in, order_out, nonlinearity, hidden):
    n, rng = 4, np.random.default_rng(0)
    X = rng.normal(size=(30, n**order_in))
    y = rng.normal(size=(30, n**order_out))
    model = QuantumGroupEquivariantRegressor(
        group,
        order_in=order_in,
        order_out=order_out,
        hidden_layer_sizes=hidden,
        nonlinearity=nonlinearity,
        input_power=2 if (order_in + order_out) % 2 and group != "S" else "auto",
        learning_rate=0.02,
        max_epochs=8,
        random_state=0,
    ).fit(X, y)
    before = model.predict(X).reshape(30, -1)
    assert np.ptp(before) > 0
    for seed in range(3):
        g = sample_group(group.rstrip("+"), n, seed)
        moved = model.predict(X @ kron_power(g, order_in).T).reshape(30, -1)
        np.testing.assert_allclose(moved, before @ kron_power(g, order_out).T, atol=1e-10)


def kron_power(g, order):
    return operator_power(as_operators(g), order)[..., 0, 0].real


def test_oracle_12_linear_layers_on_operator_valued_input():
    """y = u x has entries that are operators; a layer acts on each of their d x d components."""
    rng, k, l = np.random.default_rng(0), 2, 2
    for group, n in [("S+", 4), ("H+", 4), ("O+", 4), ("B+", 3)]:
        u = quantum_representation(group, n, 0)
        x = rng.normal(size=(2, n**k))
        layer = EquivariantLinear(group, n, [(k, 2)], [(l, 3)], method="factorized").double()
        for bias in layer.biases.values():
            torch.nn.init.normal_(bias)

        def apply(tensors, layer=layer, n=n):
            rows = torch.from_numpy(np.ascontiguousarray(tensors))
            with torch.no_grad():
                result = layer(rows.reshape(-1, 2, *[n] * k)).numpy()
            return result.reshape(len(tensors), 3, -1)

        moved = np.einsum("IJab,cJ->abcI", operator_power(u, k), x).reshape(-1, 2, n**k)
        d = u.shape[-1]
        constant = apply(np.zeros((1, 2, n**k)))[0]
        linear = [apply(part.copy()) - constant for part in (moved.real, moved.imag)]
        outputs = (linear[0] + 1j * linear[1]).reshape(d, d, 3, n**l)
        outputs = outputs + np.einsum("ab,oJ->aboJ", np.eye(d), constant)
        plain = apply(x[None])[0]
        expected = np.einsum("IJab,oJ->aboI", operator_power(u, l), plain)
        np.testing.assert_allclose(outputs, expected, atol=1e-12)


def test_oracle_12_polynomial_features_on_operator_valued_input():
    rng, n = np.random.default_rng(0), 4
    for group, order_out, is_free in [("S+", 1, True), ("S+", 3, True), ("S", 3, False)]:
        u = quantum_representation("S+", n, 0)
        x = rng.normal(size=n)
        y = np.einsum("ijab,j->iab", u, x)
        features = EquivariantPolynomialFeatures(group, order_out=order_out, degree=2).fit(x[None])
        power = np.einsum("iab,jbc->ijac", y, y)
        worst = 0.0
        for degree, partition in features.partitions_:
            if degree != 2:
                continue
            labels = as_labels(partition, 2 + order_out)
            matrix = dense_maps(labels[None], n, 2)[0]
            left = np.einsum("JI,Iab->Jab", matrix, power.reshape(n**2, 4, 4))
            plain = np.zeros((1, n**order_out))
            add_polynomial(plain, x[None], labels.tolist(), 2)
            right = np.einsum("JKab,K->Jab", operator_power(u, order_out), plain[0])
            worst = max(worst, np.abs(left - right).max())
        assert (worst < 1e-12) == is_free


def test_oracle_12_pointwise_and_matmul_on_operator_valued_input():
    """The diagrams behind the non-linearities of free groups intertwine; the others do not."""
    u = quantum_representation("S+", 4, 0)
    diagrams = {
        "square of a vector": ([(0, 1, 2)], 2, 1, True),
        "matrix product": ([(0, 4), (1, 2), (3, 5)], 4, 2, True),
        "square of a matrix, entry by entry": ([(0, 2, 4), (1, 3, 5)], 4, 2, False),
        "transpose": ([(0, 3), (1, 2)], 2, 2, False),
    }
    for name, (blocks, k, l, is_free) in diagrams.items():
        maps = dense_maps(as_labels(blocks, k + l)[None], 4, k)
        residual = intertwiner_residual(maps, u, k, l)[0]
        assert (residual < 1e-14) == is_free, name
        assert is_free or residual > 0.05, name


def test_oracle_12_networks_of_plus_groups_refuse_what_is_not_free():
    for group in ("S+", "H+"):
        with pytest.raises(ValueError, match=f"order 2 is not equivariant under group '{group[0]}"):
            EquivariantNetwork(group, 4, 2, 2, nonlinearity="pointwise")
