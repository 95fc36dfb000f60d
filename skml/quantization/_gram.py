"""Gram matrices of calibration inputs: dense, sparse, weighted, in batches, over dask chunks."""

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight

from skml.utils._optional import import_optional

# Rows that are converted to float64 at a time.
_CHUNK = 4096


def gram_matrix(X, sample_weight=None):
    """Compute X^T diag(w) X in float64.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Checked calibration inputs of any float type.
    sample_weight : ndarray of shape (n_samples,) or None, default=None
        Weights; None means ones.

    Returns
    -------
    ndarray of shape (n_features, n_features), dtype float64
        The Gram matrix.
    """
    if sp.issparse(X):
        X = X.astype(np.float64).tocsr()
        weighted = X if sample_weight is None else X.multiply(sample_weight[:, None]).tocsr()
        return np.asarray((X.T @ weighted).toarray())
    n_samples, n_features = X.shape
    gram = np.zeros((n_features, n_features))
    for start in range(0, n_samples, _CHUNK):
        part = np.asarray(X[start : start + _CHUNK], dtype=np.float64)
        if sample_weight is not None:
            # One factor on both sides keeps the product symmetric to the last bit.
            part = part * np.sqrt(sample_weight[start : start + _CHUNK, None])
        gram += part.T @ part
    return gram


def is_dask(X):
    """Whether X is a dask array or dataframe, whose chunks may lie on other machines."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "compute")


def dask_gram_matrix(X, sample_weight=None):
    """Compute the Gram matrix of a dask array, one task for each chunk of rows.

    Only matrices of shape (n_features, n_features) travel between workers.

    Parameters
    ----------
    X : dask array or dataframe of shape (n_samples, n_features)
        Calibration inputs.
    sample_weight : array-like or dask array of shape (n_samples,), default=None
        Weights; None means ones.

    Returns
    -------
    gram : ndarray of shape (n_features, n_features), dtype float64
        The Gram matrix.
    n_samples : int
        Number of rows.
    """
    dask = import_optional("dask", extra="distributed", needed_by="A dask array as X")
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array(lengths=True)
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions, got a dask array of shape {X.shape}.")
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    blocks = list(X.to_delayed().ravel())
    weights = [None] * len(blocks)
    if sample_weight is not None:
        if np.isnan(X.shape[0]):
            X.compute_chunk_sizes()
        weights = _split_like(sample_weight, X.chunks[0])
    part = dask.delayed(_block_gram)
    parts = [part(block, weight) for block, weight in zip(blocks, weights, strict=True)]
    add = dask.delayed(_add)
    while len(parts) > 1:
        parts = [add(parts[i : i + 8]) for i in range(0, len(parts), 8)]
    gram, n_samples = parts[0].compute()
    if n_samples == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return gram, n_samples


def _split_like(sample_weight, lengths):
    if is_dask(sample_weight):
        sample_weight = sample_weight.compute()
    sample_weight = np.asarray(sample_weight)
    if sample_weight.shape != (sum(lengths),):
        raise ValueError(
            f"sample_weight must have shape ({sum(lengths)},) as X has that many rows, "
            f"got {sample_weight.shape}."
        )
    return np.split(sample_weight, np.cumsum(lengths)[:-1])


def _block_gram(block, weight):
    n_features = block.shape[1]
    if block.shape[0] == 0:
        return np.zeros((n_features, n_features)), 0
    block = check_array(block, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X")
    if weight is not None:
        weight = _check_sample_weight(weight, block, ensure_non_negative=True)
    return gram_matrix(block, weight), block.shape[0]


def _add(parts):
    return sum(gram for gram, _ in parts), sum(count for _, count in parts)
