"""GANQ beside the formulation in columns of numpy arrays that the paper's pseudo-code suggests.

The peer does the same steps with the same factor: a loop over the columns with all rows at once,
and the least-squares problem of each row from its one-hot matrix. It would take many minutes on the
whole layer, and its time is proportional to rows and iterations, so it is timed on one panel of 256
rows and one iteration, before and after ours, and scaled. Ours runs whole, once. One thread.
"""

import time

import numpy as np
import pytest
from _timing import compare_memory
from threadpoolctl import threadpool_limits

from skml.quantization import GANQQuantizer, GPTQQuantizer, KMeansQuantizer
from skml.quantization._codebooks import initial_codebook

N = 4096
PEER_ROWS = 256
MAX_ITER = 10


@pytest.fixture(scope="module")
def layer():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + 1000, N)).astype(np.float32)
    X[:, 1:] += 0.7 * X[:, :-1]
    return X, rng.normal(size=(N, N)).astype(np.float32)


def timed(function):
    with threadpool_limits(limits=1):
        start = time.perf_counter()
        function()
        return time.perf_counter() - start


def column_loop(W, table, L):
    """One alternation in numpy, float32 but for the pseudo-inverse."""
    n_rows, n = W.shape
    errors = np.zeros_like(W)
    codes = np.zeros(W.shape, dtype=np.intp)
    for j in range(n - 1, -1, -1):
        target = W[:, j] + errors[:, j + 1 :] @ L[j + 1 :, j] / L[j, j]
        codes[:, j] = np.abs(target[:, None] - table).argmin(axis=1)
        errors[:, j] = W[:, j] - table[np.arange(n_rows), codes[:, j]]
    H = L @ L.T
    right = W @ H
    table = table.copy()
    for i in range(n_rows):
        S = (codes[i] == np.arange(table.shape[1])[:, None]).astype(W.dtype)
        A = (S @ H @ S.T).astype(np.float64)
        table[i] = (S @ right[i]).astype(np.float64) @ np.linalg.pinv(A)
    return table, codes


@pytest.fixture(scope="module")
def times(layer):
    X, W = layer
    with threadpool_limits(limits=1):
        ganq = GANQQuantizer(4, max_iter=MAX_ITER, column_order="original").fit(X)
        statistics = ganq.gram_, ganq.n_samples_seen_
        gptq = GPTQQuantizer(4)._fit_gram(*statistics)
        kmeans = KMeansQuantizer(4)._fit_gram(*statistics)
    L = ganq.cholesky_.astype(np.float32)
    few = W[:PEER_ROWS]
    table = initial_codebook(few, 4, "paper").astype(np.float32)
    peer = [timed(lambda: column_loop(few, table, L))]
    ours = timed(lambda: ganq.quantize(W))
    peer.append(timed(lambda: column_loop(few, table, L)))
    return {
        "ours": ours,
        "peer": min(peer) * MAX_ITER * N / PEER_ROWS,
        "GPTQQuantizer": timed(lambda: gptq.quantize(W)),
        "KMeansQuantizer": timed(lambda: kmeans.quantize(W)),
    }


def row(name, ours, peer, peer_s, goal=None):
    ratio = peer_s / ours
    holds = None if goal is None else bool(ratio >= goal)
    keys = ("name", "ours_s", "peer", "peer_s", "ratio", "goal", "holds")
    return dict(zip(keys, (name, ours, peer, peer_s, ratio, goal, holds), strict=True))


def test_beside_a_column_loop(record, times):
    name = f"GANQ, 4 bits, {N} x {N}, {MAX_ITER} iterations"
    peer = f"numpy column loop (timed on {PEER_ROWS} rows and 1 iteration, scaled)"
    record.add(row(name, times["ours"], peer, times["peer"], goal=10))


@pytest.mark.parametrize("rival", ["GPTQQuantizer", "KMeansQuantizer"])
def test_beside_our_other_quantizers(record, times, rival):
    """Reported without a goal: GANQ does ten times the work of GPTQ."""
    name = f"GANQ, 4 bits, {N} x {N}, {MAX_ITER} iterations, beside {rival}"
    record.add(row(name, times["ours"], rival, times[rival]))


def test_memory(record):
    rng = np.random.default_rng(0)
    n = 1024
    quantizer = GANQQuantizer(4, max_iter=2).fit(rng.normal(size=(2 * n, n)))
    W = rng.normal(size=(4 * n, n)).astype(np.float32)
    record.add(
        compare_memory(
            f"peak memory, GANQ, 4 bits, {4 * n} x {n}",
            lambda: quantizer.quantize(W),
            allowed=W.nbytes + 4 * 1024 * n * 8 + n * n * 4,
            what="W once, four copies of 1024 rows in float64, L in float32",
        )
    )
