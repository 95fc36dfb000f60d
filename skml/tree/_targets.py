"""The target in the form that the core takes: values, or class numbers."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

__all__ = ["Target", "encoded_classes"]


@dataclass
class Target:
    """Values, or the class number of each row."""

    y: np.ndarray | None = None
    codes: np.ndarray | None = None
    n_classes: int = 1


def encoded_classes(y, class_weight=None, earlier=None):
    """Number the classes of y.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Class labels.
    class_weight : dict, "balanced" or None
        Weights of the classes.
    earlier : ndarray of shape (n_classes,), optional
        Classes of the fit that a warm start goes on from; those of y must be the same.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Class labels in ascending order.
    codes : int32 ndarray of shape (n_samples,)
        Class number of each row.
    weight : float64 ndarray of shape (n_samples,) or None
        Weight of the class of each row.
    """
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if earlier is not None and not np.array_equal(classes, earlier):
        raise ValueError(
            "y must hold the classes of the first fit when warm_start is True, "
            f"{earlier}, got {classes}"
        )
    weight = None if class_weight is None else compute_sample_weight(class_weight, y)
    return classes, codes.astype(np.int32), weight
