"""Weights of the rows, checked alike by all learners."""

import numpy as np
from sklearn.utils.validation import _check_sample_weight

__all__ = ["validated_weight"]


def validated_weight(sample_weight, X):
    """Weights of the rows of X as float64, none negative and not all zero; None stays None.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,), number or None
        The argument of `fit`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Validated rows.

    Returns
    -------
    float64 ndarray of shape (n_samples,) or None
        The weights.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, all are zero, or there is not one for each row.
    """
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if weight.min() < 0:
        raise ValueError(
            "Negative values in data passed to `sample_weight`: weights must be >= 0, got "
            f"{weight.min()}"
        )
    # Early releases of scikit-learn let zeros pass.
    if not weight.sum() > 0:
        raise ValueError("sample_weight must have a positive sum, got only zeros")
    return weight
