"""What a sceptic would ask of bases, layers and estimators: brute force, reductions, bad input."""

import copy
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skml.equivariant import (
    EquivariantLinear,
    EquivariantNetwork,
    _independence,
    compose_partitions,
    count_partitions,
    equivariant_basis,
    format_basis,
    format_partition,
    quantum_representation,
    sample_group,
    tensor_partitions,
)
from skml.equivariant._admissible import allows_matmul, pointwise_kind
from skml.equivariant._basis import basis_labels, spanning_labels
from skml.equivariant._dense_maps import KernelTable, _kernels_of_indices, _OnesAt, _ValuesAt
from skml.equivariant._groups import GROUPS, REAL_GROUPS
from skml.equivariant._independence import is_independent
from skml.equivariant._partitions import (
    _count_bounded,
    as_labels,
    contains,
    enumerate_partitions,
)
from skml.equivariant._product_cost import prefers_dense


def brute_force_partitions(m):
    """All partitions of m points, as tuples of labels."""
    found = [()]
    for _ in range(m):
        found = [(*row, b) for row in found for b in range(max(row, default=-1) + 2)]
    return found


# Partitions and bases.


@pytest.mark.parametrize("group", REAL_GROUPS)
def test_enumeration_finds_exactly_what_belongs(group):
    for m in range(7):
        for k in range(m + 1):
            expected = {row for row in brute_force_partitions(m) if contains(group, row, k)}
            assert {
                tuple(row) for row in enumerate_partitions(group, k, m - k).tolist()
            } == expected


def test_noncrossing_is_tested_in_the_cyclic_order():
    identity, swap = [0, 1, 0, 1], [0, 1, 1, 0]
    assert contains("S+", identity, 2)
    assert not contains("S+", swap, 2)
    assert contains("S+", swap, 4)  # the same labels in one row are nested
    assert not contains("S+", identity, 4)


@pytest.mark.parametrize("colors", ["uc", "ucuc", "uucc", "ucuccu", "uuuccc", "uuc", "ucucucuc"])
def test_coloured_counts_agree_with_enumeration(colors):
    for group in ("U", "U+"):
        labels = enumerate_partitions(group, 0, len(colors), colors_out=colors)
        assert count_partitions(group, len(colors), colors=colors) == len(labels)
        for row in labels:
            for block in range(row.max() + 1):
                pair = np.flatnonzero(row == block)
                assert {colors[point] for point in pair} == {"u", "c"}


def test_unitary_maps_commute_with_unitary_matrices():
    u = sample_group("U", 2, 0)
    moves = {"u": u, "c": u.conj()}
    for group in ("U", "U+"):
        for above, below in [("uc", "uc"), ("uu", "uu"), ("ucu", "uuc"), ("", "ucuc")]:
            maps = equivariant_basis(
                group, 2, len(above), len(below), colors_in=above, colors_out=below
            )
            left, right = np.ones((1, 1)), np.ones((1, 1))
            for color in above:
                left = np.kron(left, moves[color])
            for color in below:
                right = np.kron(right, moves[color])
            assert len(maps)
            np.testing.assert_allclose(maps @ left, right @ maps, atol=1e-13)


@pytest.mark.parametrize("group", list(GROUPS))
def test_independence_theorems_agree_with_the_gram_rank(group):
    for n, m in product((1, 2, 3, 4), range(7)):
        k = m // 2
        colors = {}
        if group in {"U", "U+"}:
            colors = {"colors_in": "u" * k, "colors_out": "u" * (m - k)}
        labels = spanning_labels(group, n, k, m - k, **colors)
        if n**m > 800 or not len(labels):
            continue
        maps = equivariant_basis(group, n, k, m - k, independent=False, **colors)
        maps = maps.reshape(len(maps), -1)
        rank = np.linalg.matrix_rank(maps @ maps.T)
        if is_independent(GROUPS[group], n, m):
            assert rank == len(labels), (n, m)
        assert len(equivariant_basis(group, n, k, m - k, **colors)) == rank, (n, m)


def test_basis_forms_agree():
    dense = equivariant_basis("B", 3, 2, 1)
    sparse = equivariant_basis("B", 3, 2, 1, form="sparse")
    blocks = equivariant_basis("B", 3, 2, 1, form="partitions")
    np.testing.assert_array_equal(dense, [matrix.toarray() for matrix in sparse])
    for matrix, partition in zip(dense, blocks, strict=True):
        labels = as_labels(partition, 3)
        for i1, i2, j in product(range(3), repeat=3):
            index = np.array([i1, i2, j])
            constant = all(len(set(index[labels == b])) == 1 for b in range(labels.max() + 1))
            assert matrix[j, 3 * i1 + i2] == constant


def test_the_empty_partition_is_the_number_one():
    np.testing.assert_array_equal(equivariant_basis("O", 3, 0, 0), [[[1.0]]])
    assert equivariant_basis("O", 3, 1, 0).shape == (0, 1, 3)
    assert equivariant_basis("O", 3, 1, 0, form="sparse") == []


def test_a_large_free_basis_needs_no_gram_matrix(monkeypatch):
    def refuse(*_):
        raise AssertionError("a Gram matrix was formed")

    monkeypatch.setattr("skml.equivariant._independence.scaled_gram_rows", refuse)
    assert len(equivariant_basis("S+", 5, 5, 5, form="partitions")) == 16796


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("X", 3, 1, 1), "group must be one of 'S', 'S\\+', 'O'.*got 'X'"),
        (("S", 0, 1, 1), "n must be an int of at least 1, got 0"),
        (("S", 3, -1, 1), "order_in must be an int that is not negative, got -1"),
        (("S", 3, 1, 1.5), "order_out must be an int that is not negative, got 1.5"),
    ],
)
def test_basis_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        equivariant_basis(*arguments)


def test_basis_refuses_bad_options():
    with pytest.raises(ValueError, match="form must be one of .*got 'csc'"):
        equivariant_basis("S", 3, 1, 1, form="csc")
    with pytest.raises(ValueError, match="colors_in must be a str of 2 letters.*got 'ux'"):
        equivariant_basis("U", 3, 2, 1, colors_in="ux")
    with pytest.raises(ValueError, match="for the groups 'U' and 'U\\+', got group 'S'"):
        equivariant_basis("S", 3, 1, 1, colors_in="u")
    with pytest.raises(ValueError, match="m must be an int"):
        count_partitions("S", -1)
    with pytest.raises(ValueError, match="once, got \\[\\(0, 0\\)\\]"):
        as_labels([(0, 0)], 2)


def test_text_and_latex():
    assert format_partition([(0, 1), (2,)], 1, style="latex") == r"\{1,1'\}\{2'\}"
    text = format_basis("S", 3, 2, 2)
    assert text.count("\n") == 9 + 14 - 1  # at most three blocks
    latex = format_basis("S", 2, 1, 1, style="latex")
    assert latex.startswith("\\begin{pmatrix}\na+b & b \\\\\n")
    assert format_basis("O", 2, 1, 2).splitlines() == ["[ 0  0  ]"] * 4
    assert "w16" in format_basis("S+", 4, 3, 2)
    with pytest.raises(ValueError, match="style must be one of .*got 'html'"):
        format_basis("S", 2, 1, 1, style="html")


# Groups and representations.


def test_sampled_elements_belong_to_their_groups():
    for seed in range(5):
        for group in ("S", "O", "H", "B", "S'", "B'"):
            g = sample_group(group, 4, seed)
            np.testing.assert_allclose(g @ g.T, np.eye(4), atol=1e-13)
            if group in {"S", "B"}:
                np.testing.assert_allclose(g.sum(axis=1), 1.0, atol=1e-13)
            if group in {"S'", "B'"}:
                np.testing.assert_allclose(np.abs(g.sum(axis=1)), 1.0, atol=1e-13)
            if group in {"S", "H"}:
                assert np.isin(np.abs(g), [0, 1]).all()
        u = sample_group("U", 3, seed)
        np.testing.assert_allclose(u @ u.conj().T, np.eye(3), atol=1e-13)
    signs = {float(np.sign(sample_group("B'", 3, seed).sum())) for seed in range(12)}
    assert signs == {-1.0, 1.0}


def test_orthogonal_matrices_follow_the_haar_measure():
    rng = np.random.RandomState(0)
    corners = np.array([sample_group("O", 2, rng)[0, 0] for _ in range(2000)])
    assert abs(corners.mean()) < 0.05  # QR without the sign correction gives -2 / pi
    assert np.mean(corners**2) == pytest.approx(0.5, abs=0.03)


def test_quantum_groups_have_no_elements_but_representations():
    with pytest.raises(ValueError, match="'S\\+' is a quantum group and has no elements"):
        sample_group("S+", 4)
    with pytest.raises(NotImplementedError, match="\\('S\\+', 4\\), \\('O\\+', 2\\)"):
        quantum_representation("S+", 5)
    with pytest.raises(NotImplementedError, match="no representation of group 'O'"):
        quantum_representation("O", 4)


# The layer.


@st.composite
def layers(draw):
    group = draw(st.sampled_from(REAL_GROUPS))
    n = draw(st.integers(1, 4))
    k, l = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    channels = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    return group, n, k, l, *channels, draw(st.integers(1, 5))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(layers())
def test_factorized_and_dense_products_agree_with_the_sum_of_matrices(case):
    group, n, k, l, c_in, c_out, n_samples = case
    if not count_partitions(group, k + l):
        with pytest.raises(ValueError, match=f"no equivariant map from order {k} to order {l}"):
            EquivariantLinear(group, n, [(k, c_in)], [(l, c_out)], bias=False)
        return
    layer = EquivariantLinear(group, n, [(k, c_in)], [(l, c_out)]).double()
    generator = torch.Generator().manual_seed(0)
    for bias in layer.biases.values():
        torch.nn.init.normal_(bias, generator=generator)
    x = torch.randn(n_samples, c_in, *[n] * k, dtype=torch.float64, generator=generator)
    path = layer.paths["0_0"]
    weight = (path.weight * path.scales[:, None, None]).detach().numpy()
    maps = equivariant_basis(group, n, k, l)
    expected = np.einsum("doc,dji,zci->zoj", weight, maps, x.reshape(n_samples, c_in, -1).numpy())
    if layer.biases:
        tensors = equivariant_basis(group, n, 0, l)[:, :, 0]
        expected = expected + layer.biases["0"].detach().numpy().T @ tensors
    for method in ("factorized", "dense", "auto"):
        layer.method = method
        for context in (torch.no_grad(), torch.enable_grad()):
            with context:
                result = layer(x)
            assert result.shape == (n_samples, c_out, *[n] * l)
            flat = result.detach().numpy().reshape(n_samples, c_out, -1)
            np.testing.assert_allclose(flat, expected, atol=1e-12)


def test_gradients_of_both_methods_agree_and_reach_every_weight():
    torch.manual_seed(0)
    layer = EquivariantLinear("S", 4, [(2, 2), (1, 3)], [(2, 2), (0, 1), (1, 2)]).double()
    x = [torch.randn(3, 2, 4, 4).double(), torch.randn(3, 3, 4).double()]
    gradients = []
    for method in ("factorized", "dense"):
        layer.method = method
        layer.zero_grad()
        sum(output.pow(3).sum() for output in layer(x)).backward()
        gradients.append([parameter.grad.clone() for parameter in layer.parameters()])
    for first, second in zip(*gradients, strict=True):
        assert first.abs().min() > 0
        torch.testing.assert_close(first, second)


def test_initial_outputs_keep_their_scale_whatever_n():
    """Without the factors n**(-s/2) the sum over everything outweighs the rest by powers of n."""
    spreads = []
    for n in (5, 40):
        torch.manual_seed(0)
        layer = EquivariantLinear("S", n, [(1, 16)], [(1, 64)], bias=False)
        spreads.append(layer(torch.randn(50, 16, n)).std().item())
    assert spreads[0] == pytest.approx(1.0, abs=0.3)
    assert spreads[1] == pytest.approx(spreads[0], rel=0.3)


def test_there_is_no_bias_where_there_is_no_invariant_tensor():
    assert not EquivariantLinear("O", 3, [(1, 1)], [(1, 1)]).biases
    layer = EquivariantLinear("S", 3, [(1, 1)], [(1, 1)])
    torch.nn.init.ones_(layer.biases["0"])
    torch.nn.init.zeros_(layer.paths["0_0"].weight)
    torch.testing.assert_close(layer(torch.zeros(2, 1, 3)), torch.ones(2, 1, 3))


def test_kept_matrix_follows_the_weights():
    layer = EquivariantLinear("S", 3, [(1, 1)], [(1, 1)], method="dense")
    x = torch.eye(3)[:, None]
    with torch.no_grad():
        before = layer(x)
        layer.paths["0_0"].weight.mul_(2)
        torch.testing.assert_close(layer(x), 2 * before)
        layer.double()
        assert layer(x.double()).dtype == torch.float64
        twin = copy.deepcopy(layer)
        twin.paths["0_0"].weight.zero_()
        assert twin(x.double()).abs().max() == 0 < layer(x.double()).abs().max()


@pytest.mark.filterwarnings("ignore:Complex modules:UserWarning")
def test_layer_of_the_unitary_group_takes_complex_tensors():
    layer = EquivariantLinear("U", 2, [(2, 1)], [(2, 1)], colors_in=["uc"], colors_out=["uc"])
    layer = layer.to(torch.complex128)
    u = torch.from_numpy(sample_group("U", 2, 0))
    x = torch.randn(3, 1, 2, 2, dtype=torch.complex128)
    moved = u @ x @ u.conj().T
    for method in ("factorized", "dense"):
        layer.method = method
        torch.testing.assert_close(layer(moved), u @ layer(x) @ u.conj().T)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("S", 3, [], [(1, 1)]), {}, "in_spec must hold at least one pair"),
        (("S", 3, [1], [(1, 1)]), {}, "in_spec must be a list of pairs .*got \\[1\\]"),
        (("S", 3, [(1, 0)], [(1, 1)]), {}, "at least one channel"),
        (("S", 3, [(1, 1)], [(-1, 1)]), {}, "an order in out_spec"),
        (("S", 3, [(1, 1)], [(1, 1)]), {"method": "fast"}, "method must be one of .*'fast'"),
        (("O", 3, [(1, 1)], [(2, 1)]), {"bias": False}, "order 1 to order 2 for group 'O'"),
        (("U", 3, [(1, 1)], [(1, 1)]), {"colors_in": ["u", "u"]}, "a string for each of the 1"),
    ],
)
def test_layer_refuses_bad_arguments(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        EquivariantLinear(*arguments, **options)


def test_layer_refuses_tensors_of_another_shape():
    layer = EquivariantLinear("S", 3, [(2, 1)], [(1, 1)])
    with pytest.raises(ValueError, match=r"\('n_samples', 1, 3, 3\), got \[\(4, 1, 9\)\]"):
        layer(torch.zeros(4, 1, 9))


def test_choice_of_method_follows_the_size():
    small = EquivariantLinear("S", 4, [(2, 1)], [(2, 1)]).paths["0_0"].product
    large = EquivariantLinear("S", 40, [(2, 1)], [(2, 1)]).paths["0_0"].product
    assert prefers_dense(small, 16, 1, 1, training=False)
    assert not prefers_dense(large, 64, 4, 4, training=False)


# Non-linearities.


def test_admissible_functions_of_entries():
    expected = {
        "S": ["any", "any"],
        "S+": ["any", None],
        "H": ["odd", "odd"],
        "H+": ["odd", None],
        "S'": ["odd", "any"],
        "S'+": ["odd", None],
    }
    expected |= {name: [None, None] for name in ("O", "O+", "O*", "B", "B+", "B'", "B'+", "B#+")}
    for group, kinds in expected.items():
        assert [pointwise_kind(group, order) for order in (1, 2)] == kinds, group
        assert allows_matmul(group)


@pytest.mark.parametrize("group", ["O", "B", "O+", "B+"])
def test_functions_of_entries_of_vectors_are_refused_under_rotations(group):
    with pytest.raises(
        ValueError, match=f"tensors of order 1 is not equivariant under group '{group[0]}"
    ):
        EquivariantNetwork(group, 3, 1, 1, nonlinearity="pointwise")


def test_matmul_is_refused_on_vectors():
    with pytest.raises(ValueError, match="order 1 it is not defined under group 'S'"):
        EquivariantNetwork("S", 3, 1, 1, hidden_layer_sizes=([(1, 4)],), nonlinearity="matmul")


@pytest.mark.parametrize("nonlinearity", ["gated", "pointwise", "matmul", "auto"])
def test_nonlinearities_change_the_network(nonlinearity):
    torch.manual_seed(0)
    network = EquivariantNetwork("S", 3, 2, 2, hidden_layer_sizes=(4,), nonlinearity=nonlinearity)
    x = torch.randn(5, 1, 3, 3)
    with torch.no_grad():
        nonlinear = network(2 * x) - 2 * network(x) + network(0 * x)
    assert nonlinear.abs().max() > 1e-3
    torch.manual_seed(0)
    linear = EquivariantNetwork("S", 3, 2, 2, hidden_layer_sizes=(4,), nonlinearity="identity")
    with torch.no_grad():
        residual = linear(2 * x) - 2 * linear(x) + linear(0 * x)
    assert residual.abs().max() < 1e-5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([(0, "a")], [(0, 1)], 0, 2, 0), r"outer must be blocks .* got \[\(0, 'a'\)\]"),
        (([(0, 1)], None, 0, 2, 0), "inner must be blocks .* got None"),
        (([0, 1], [(0, 1)], 0, 2, 0), r"outer must be blocks .* got \[0, 1\]"),
    ],
)
def test_calculus_names_malformed_blocks(arguments, message):
    with pytest.raises(ValueError, match=message):
        compose_partitions(*arguments)


@pytest.mark.parametrize("orders", [(1,), 3, (1, 0, 0)])
def test_calculus_names_malformed_orders(orders):
    with pytest.raises(ValueError, match="right_orders must be a pair"):
        tensor_partitions([(0,)], [(0,)], (1, 0), orders)


@pytest.mark.parametrize("colors", [3, ["u"], b"u"])
def test_colors_of_another_type_are_named(colors):
    with pytest.raises(ValueError, match="colors_out must be a str of 1 letters"):
        equivariant_basis("U", 2, 1, 1, colors_out=colors)
    with pytest.raises(ValueError, match="colors must be a str of 1 letters"):
        count_partitions("U", 1, colors=colors)


def test_layer_names_colors_that_are_no_list():
    with pytest.raises(ValueError, match="colors_in must be a list .* got 3"):
        EquivariantLinear("U", 2, [(1, 1)], [(1, 1)], colors_in=3)


@pytest.mark.parametrize("independent", ["yes", 1, None])
def test_independent_must_be_a_bool(independent):
    with pytest.raises(ValueError, match="independent must be a bool"):
        equivariant_basis("S", 2, 1, 1, independent=independent)


@pytest.mark.parametrize("inputs", [None, np.ones((2, 1, 3)), [np.ones((2, 1, 3))]])
def test_layer_names_inputs_that_are_no_tensors(inputs):
    with pytest.raises(TypeError, match="inputs must be a torch.Tensor or a list of them, got"):
        EquivariantLinear("S", 3, [(1, 1)], [(1, 1)])(inputs)


@pytest.mark.parametrize("method", ["dense", "factorized", "auto"])
def test_layer_takes_an_empty_batch(method):
    layer = EquivariantLinear("S", 3, [(0, 2), (2, 1)], [(1, 2)], method=method)
    assert layer([torch.ones(0, 2), torch.ones(0, 1, 3, 3)]).shape == (0, 2, 3)


def test_kernels_of_many_points_do_not_overflow():
    # 17**16 is no int64; with n = 2 there are just 2**16 different kernels.
    kernels, places = _kernels_of_indices(17, 2, 8)
    assert kernels.shape == (2**16, 17)
    rng = np.random.default_rng(0)
    for number in rng.integers(0, 2**17, size=200):
        bits = np.array([number >> (16 - axis) & 1 for axis in range(17)])
        points = np.concatenate([bits[9:], bits[:9]])  # the matrix has its outputs first
        np.testing.assert_array_equal(kernels[places[number]], points != points[0])


@pytest.mark.parametrize("group", ["S", "H", "S'", "H*", "S+", "H+", "S'+"])
def test_enumeration_with_a_bound_on_the_blocks(group):
    for most, k, l in product((1, 2, 3), range(4), range(5)):
        everything = enumerate_partitions(group, k, l)
        expected = everything[everything.max(axis=1, initial=-1) < most]
        np.testing.assert_array_equal(enumerate_partitions(group, k, l, max_blocks=most), expected)
        if group in ("S", "H"):
            assert _count_bounded(GROUPS[group], k + l, most) == len(expected)
        if most == 1:  # where all maps are one number, it does for a basis
            np.testing.assert_array_equal(basis_labels(group, 1, k, l), everything[:1])


@pytest.mark.parametrize(
    ("group", "n", "k", "l", "size"),
    [("S", 1, 12, 12, 1), ("S+", 1, 15, 0, 1), ("H*", 1, 12, 12, 1), ("S", 2, 12, 0, 2**11)],
)
def test_high_orders_over_few_points(group, n, k, l, size):
    assert len(basis_labels(group, n, k, l)) == size


@pytest.mark.parametrize(
    ("group", "n", "k", "l", "count"),
    [
        ("S", 30, 12, 12, 445958869294805289),
        ("O", 1, 12, 12, 316234143225),
        ("S", 2, 12, 12, 2**23),
    ],
)
def test_more_diagrams_than_can_be_listed_are_counted_and_refused(group, n, k, l, count):
    message = rf"order {k} to order {l} of group '{group}' are sums of {count} diagrams.*lower"
    with pytest.raises(ValueError, match=message):
        equivariant_basis(group, n, k, l)


def test_a_basis_that_takes_too_long_to_choose_is_refused(monkeypatch):
    monkeypatch.setattr(_independence, "_LARGEST_FACTOR", 14 * 5)
    with pytest.raises(
        ValueError, match="14 diagrams are dependent at this n.*more than 5 of them"
    ):
        _independence.select_independent(14, lambda i: np.eye(14)[i])


@pytest.mark.parametrize(
    ("group", "n", "k", "l"), [("S", 3, 2, 2), ("S+", 2, 3, 3), ("O+", 2, 4, 4), ("H", 4, 1, 3)]
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_places_of_ones_say_the_same_as_all_values(group, n, k, l, dtype):
    labels = spanning_labels(group, n, k, l)
    kernels, places = _kernels_of_indices(k + l, n, k)
    by_value = _ValuesAt(labels, kernels)
    by_place = _OnesAt(labels, n, k, places, len(kernels))
    weight = torch.randn(len(labels), 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(by_place.of_sums(weight), by_value.of_sums(weight))
    assert torch.autograd.gradcheck(by_place.of_sums, weight.requires_grad_())


def test_thousands_of_diagrams_make_a_matrix_by_their_ones():
    labels = spanning_labels("O+", 2, 8, 8)
    table = KernelTable(labels, 2, 8)
    assert isinstance(table._tables()[1], _OnesAt)
    layer = EquivariantLinear("O+", 2, [(8, 1)], [(8, 1)]).double()
    x = torch.randn(2, 1, *[2] * 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    layer.method = "dense"
    dense = layer(x)
    layer.method = "factorized"
    torch.testing.assert_close(dense, layer(x))
