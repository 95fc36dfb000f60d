"""Samples of these estimators: rows of features, or images, which may come as flattened rows."""

import math
from numbers import Integral

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)


def check_image_shape(image_shape):
    """The parameter `image_shape` as a tuple of int, or None."""
    if image_shape is None:
        return None
    try:
        shape = tuple(image_shape)
    except TypeError:
        shape = ()
    is_whole = all(isinstance(side, Integral) and side > 0 for side in shape)
    if len(shape) not in (1, 3) or not is_whole:
        raise ValueError(
            "image_shape must be (n_channels, height, width), or (n_features,) for vectors, of "
            f"positive ints, got {image_shape!r}."
        )
    return tuple(int(side) for side in shape)


def flat_samples(estimator, X, *, image_shape, reset):
    """Validate samples, and flatten images to rows.

    Parameters
    ----------
    estimator : estimator object
        Its `n_features_in_` and `feature_names_in_` are set or compared.
    X : array-like of shape (n, n_features) or (n, n_channels, height, width)
        Samples.
    image_shape : tuple of int or None
        Shape of a sample, if it is known.
    reset : bool
        Whether this is `fit`.

    Returns
    -------
    X : ndarray of shape (n, n_features), dtype float32
        The rows.
    shape : tuple of int
        Shape of a sample.
    """
    X = as_array(X)
    seen = getattr(X, "shape", ())
    if len(seen) == 4:
        shape = tuple(int(side) for side in seen[1:])
        if image_shape not in (None, shape):
            raise ValueError(
                f"X holds samples of the shape {shape}, but the image_shape is {image_shape}."
            )
        X = np.asarray(X).reshape(seen[0], -1)
        image_shape = shape
    X = validate_data(estimator, X, dtype=np.float32, order="C", reset=reset)
    return X, resolve_shape(image_shape, X.shape[1])


def as_array(X):
    """Images may come as nested lists, whose shape must be known."""
    return np.asarray(X) if isinstance(X, (list, tuple)) else X


def resolve_shape(image_shape, n_features):
    """Shape of a sample of so many features."""
    if image_shape is None:
        return (n_features,)
    if math.prod(image_shape) != n_features:
        raise ValueError(
            f"image_shape={image_shape} has {math.prod(image_shape)} values, but X has "
            f"{n_features} features."
        )
    return image_shape


def flat_other(X, shape):
    """Validate samples of another domain, and flatten images to rows."""
    X = as_array(X)
    if len(getattr(X, "shape", ())) == 4:
        if tuple(X.shape[1:]) != shape:
            raise ValueError(
                f"X_ood holds samples of the shape {tuple(X.shape[1:])}, those of X are {shape}."
            )
        X = np.asarray(X).reshape(len(X), -1)
    X = check_array(X, dtype=np.float32, order="C", input_name="X_ood")
    if X.shape[1] != math.prod(shape):
        raise ValueError(f"X_ood has {X.shape[1]} features, but X has {math.prod(shape)}.")
    return X


def encode_labels(estimator, X, y):
    """Classes of y, and the code of each label.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Sorted labels.
    codes : ndarray of shape (n,), dtype int64
        Their numbers.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    y = column_or_1d(y, warn=True)
    try:
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"y must hold labels of one kind, all strings or all numbers: {error}."
        ) from error
    check_consistent_length(X, y)
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least 2 classes; y holds one class, "
            f"{classes[0]}."
        )
    return classes, codes.astype(np.int64)


def check_pair(clip_values):
    """The two parts of the parameter `clip_values`."""
    if len(clip_values) != 2:
        raise ValueError(
            f"clip_values must be 'auto' or a pair (least, greatest), got {clip_values!r}."
        )
    return clip_values


def clip_bounds(low, high, n_features):
    """Bounds of each feature, shape (2, n_features), from numbers or arrays."""
    bounds = np.empty((2, n_features), dtype=np.float32)
    for row, bound in zip(bounds, (low, high), strict=True):
        try:
            bound = np.asarray(bound, dtype=np.float32)
        except (TypeError, ValueError):
            raise ValueError(
                f"clip_values must be a pair of numbers or arrays, got {(low, high)!r}."
            ) from None
        if bound.ndim and bound.size != n_features:
            raise ValueError(
                f"clip_values must be numbers or have {n_features} values each, one for each "
                f"feature, got {bound.size}."
            )
        row[:] = bound.ravel()
    if not (np.isfinite(bounds).all() and (bounds[0] <= bounds[1]).all()):
        raise ValueError(f"clip_values must be finite and ascending, got {(low, high)!r}.")
    return bounds
