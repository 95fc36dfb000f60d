"""Bases beside a numerical null space, "auto" beside both ways to multiply, memory at n = 50.

The numerical peer does what libraries for arbitrary groups do: it stacks the conditions
T g^k = g^l T of several group elements and finds the null space, by Lanczos iterations on the
normal matrix, which is never formed. Both find the same span; that is checked before the times
are taken. emlp itself, where it is installed, stands beside ours at sizes that it finishes in
seconds. One thread.
"""

import time
from itertools import product

import numpy as np
import pytest
import torch
from _timing import compare, compare_memory, memory_rate
from scipy.linalg import subspace_angles
from scipy.sparse.linalg import LinearOperator, eigsh

from skml.equivariant import EquivariantLinear, equivariant_basis, sample_group
from skml.equivariant._groups import get_group
from skml.equivariant._partitions import _enumerate, contains

PACKAGES = ("torch", "emlp", "jax")
pytestmark = pytest.mark.usefixtures("one_torch_thread")

N_ELEMENTS = 6
GRID = list(
    product(
        ("S", "S+"),
        ((5, 1, 1), (50, 1, 1), (20, 2, 0), (4, 2, 2), (10, 2, 2), (20, 2, 2), (4, 3, 2)),
        (1, 16, 256),
    )
)
CHANNELS = 2


def null_space(group, n, rank):
    """Matrices from order 2 to order 2 that commute with sampled elements: (n**4, rank)."""
    elements = [sample_group(group, n, seed) for seed in range(N_ELEMENTS)]

    def act(g, tensor):
        for axis in range(4):
            tensor = np.moveaxis(np.tensordot(g, tensor, axes=(1, axis)), 0, axis)
        return tensor

    def normal(flat):
        tensor = flat.reshape((n,) * 4)
        total = 2 * N_ELEMENTS * tensor
        for g in elements:
            total = total - act(g, tensor) - act(g.T, tensor)
        return total.ravel()

    operator = LinearOperator((n**4, n**4), matvec=normal, dtype=float)
    start = np.random.default_rng(0).normal(size=n**4)
    # Lanczos sees one vector of an eigenspace, and the others by rounding: ask for some more.
    values, vectors = eigsh(operator, k=rank + 5, which="SA", v0=start, ncv=4 * rank + 20)
    return vectors[:, values < 1e-8]


def our_basis(group, n):
    return equivariant_basis(group, n, 2, 2)


@pytest.mark.parametrize("group", ["S", "O"])
def test_basis(benchmark, record, group):
    n, rank = 10, {"S": 15, "O": 3}[group]
    ours = our_basis(group, n).reshape(-1, n**4).T
    theirs = null_space(group, n, rank)
    assert theirs.shape == ours.shape
    assert subspace_angles(ours, theirs).max() < 1e-6
    record.add(
        compare(
            benchmark,
            f"basis of {group}(10), k = l = 2",
            lambda: our_basis(group, n),
            "stacked null space",
            lambda: null_space(group, n, rank),
            goal=100,
            rounds=2,
            warm_up=False,
            clock=time.process_time,
        )
    )


@pytest.mark.parametrize(("group", "n"), [("S", 5), ("O", 4)])
def test_basis_beside_emlp(benchmark, record, group, n):
    """At the sizes that emlp finishes in seconds, in double precision; skipped without it."""
    pytest.importorskip("emlp.reps", exc_type=ImportError)
    import emlp.groups
    import jax
    from emlp.reps import T

    jax.config.update("jax_enable_x64", True)
    found = []

    def theirs():  # once: emlp keeps its solutions
        element = getattr(emlp.groups, group)(n)
        found.append(np.asarray((T(2)(element) >> T(2)(element)).equivariant_basis()))

    row = compare(
        benchmark,
        f"basis of {group}({n}), k = l = 2",
        lambda: our_basis(group, n),
        "emlp",
        theirs,
        goal=100,
        rounds=1,
        warm_up=False,
        clock=time.process_time,
    )
    ours = our_basis(group, n).reshape(-1, n**4).T
    assert found[0].shape == ours.shape
    assert subspace_angles(ours, found[0]).max() < 1e-6
    record.add(row)


def test_enumeration(benchmark, record):
    group = get_group("S+")

    def grow(row):
        for label in range(max(row, default=-1) + 2):
            yield (*row, label)

    def filter_all():
        found = [()]
        for _ in range(10):
            found = [longer for row in found for longer in grow(row)]
        return [row for row in found if contains(group, row, 5)]

    def ours():
        return _enumerate.__wrapped__(group, 5, 5, None)

    assert len(ours()) == 16796
    record.add(
        compare(
            benchmark,
            "diagrams of S+ on ten points",
            ours,
            "filter of all 115975 partitions",
            filter_all,
            goal=5,
            rounds=1,
            warm_up=False,
            clock=time.process_time,
        )
    )


@pytest.mark.parametrize(("group", "sizes", "n_samples"), GRID)
def test_auto_is_near_the_better_way(benchmark, record, group, sizes, n_samples):
    n, k, l = sizes
    layers = {
        method: EquivariantLinear(
            group, n, [(k, CHANNELS)], [(l, CHANNELS)], bias=False, method=method
        ).double()
        for method in ("auto", "dense", "factorized")
    }
    x = torch.randn(n_samples, CHANNELS, *[n] * k, dtype=torch.float64)
    # Several calls, so that the clock's resolution does not matter.
    n_calls = 20 if n_samples * n ** max(k, l) < 20_000 else 3

    def calls(layer):
        def run():
            with torch.no_grad():
                for _ in range(n_calls):
                    layer(x)

        return run

    record.add(
        compare(
            benchmark,
            f"forward {group}({n}), k = {k}, l = {l}, {n_samples} rows",
            calls(layers["auto"]),
            None,
            {"dense": calls(layers["dense"]), "factorized": calls(layers["factorized"])},
            goal=1 / 1.2,
            rounds=7,
            clock=time.process_time,
        )
    )


def large_product():
    layer = EquivariantLinear("S", 50, [(2, 4)], [(2, 4)], bias=False, method="factorized")
    x = torch.randn(128, 4, 50, 50, dtype=torch.float64)
    layer = layer.double()

    def forward():
        with torch.no_grad():
            return layer(x)

    return forward, x


def test_memory_at_n_50(record):
    forward, x = large_product()
    moved = x.nbytes + forward().nbytes
    record.add(
        compare_memory(
            "memory of S(50), k = l = 2, 128 rows, 4 channels",
            forward,
            4 * moved,
            "4 x (input + output)",
        )
    )


def test_time_at_n_50(benchmark, record):
    forward, x = large_product()
    target = torch.empty_like(x)
    record.add(
        compare(
            benchmark,
            "forward S(50), k = l = 2, 128 rows, 4 channels",
            forward,
            "copy of the input to the output",
            lambda: target.copy_(x),
            rounds=3,
            limit_s=2 * x.nbytes / memory_rate(),
            clock=time.process_time,
        )
    )
