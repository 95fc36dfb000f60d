"""Layers and plain references that the tests of the weight quantizers share."""

import numpy as np


def make_layer(seed=0, n_rows=20, n=40, n_samples=200, dtype=np.float64, mixing=0.7):
    """Weights and correlated inputs of uneven size."""
    rng = np.random.default_rng(seed)
    mixer = mixing * rng.normal(size=(n, n)) / np.sqrt(n) + np.diag(0.2 + rng.random(n))
    X = rng.normal(size=(n_samples, n)) @ mixer
    W = rng.normal(size=(n_rows, n)) * (0.5 + rng.random((n_rows, 1)))
    return X.astype(dtype), W.astype(dtype)


def reference_s_step(W, table, lower, kept=None):
    """The S-step as the paper writes it, one column and one row at a time."""
    n_rows, n = W.shape
    codes, errors = np.zeros((n_rows, n), int), np.zeros((n_rows, n))
    for i in range(n_rows):
        for j in range(n - 1, -1, -1):
            residual = errors[i, j + 1 :] @ lower[j + 1 :, j]
            is_kept = kept is not None and kept[i, j]
            target = W[i, j] if is_kept else W[i, j] + residual / lower[j, j]
            codes[i, j] = np.argmin(np.abs(target - table[i]))
            errors[i, j] = 0 if is_kept else W[i, j] - table[i, codes[i, j]]
    return codes, errors


def reference_gptq(W, H, scale, zero, bits):
    """GPTQ on a fixed grid by the inverse Gram matrix, without blocks."""
    W = W.astype(np.float64).copy()
    U = np.linalg.cholesky(np.linalg.inv(H)).T
    codes = np.zeros(W.shape, int)
    for j in range(W.shape[1]):
        codes[:, j] = np.clip(np.round(W[:, j] / scale + zero), 0, 2**bits - 1)
        error = (W[:, j] - scale * (codes[:, j] - zero)) / U[j, j]
        W[:, j:] -= np.outer(error, U[j, j:])
    return codes


def one_hot(codes, n_codes):
    """S of one row: (n_codes, n)."""
    return (np.arange(n_codes)[:, None] == codes).astype(float)
