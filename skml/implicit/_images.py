"""Images as signals: points of a grid with values."""

from numbers import Integral

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ._signal_scaling import coordinate_spans


class ImageMixin:
    """Methods that take and give images, for a regressor of two coordinates."""

    def fit_image(self, image, *, point_groups=None):
        """Train the network on an image.

        Parameters
        ----------
        image : array-like of shape (height, width) or (height, width, n_channels)
            Values of the pixels. The coordinates are the row and the column.
        point_groups : array-like of shape (height * width,), default=None
            As in `fit`, in row-major order.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, values, shape = _image_points(image)
        self.fit(X, values, point_groups=point_groups)
        self.image_shape_ = shape
        return self

    def predict_image(self, shape=None):
        """Evaluate the network on the pixels of an image.

        Parameters
        ----------
        shape : tuple of (int, int) or None, default=None
            Height and width of the image that is made, over the same extent: the corner pixels
            coincide. None: those of the image given to `fit_image`.

        Returns
        -------
        ndarray of shape (height, width) or (height, width, n_channels)
            The image; of higher resolution if `shape` is larger.
        """
        check_is_fitted(self)
        if self.n_features_in_ != 2:
            raise ValueError(
                f"predict_image needs a model of 2 coordinates; this has {self.n_features_in_}"
            )
        if shape is None:
            if not hasattr(self, "image_shape_"):
                raise ValueError("predict_image needs shape=(height, width) after fit(X, y)")
            shape = self.image_shape_
        shape = _checked_shape(shape)
        first, last = self.coord_min_, self.coord_min_ + coordinate_spans(self.coord_scale_)
        X = _pixel_grid(*(np.linspace(*ends) for ends in zip(first, last, shape, strict=True)))
        return self._evaluate(X).reshape(*shape, *self._output_shape)


def _image_points(image):
    """Turn an image into coordinates and values.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, n_channels)
        Values of the pixels.

    Returns
    -------
    X : ndarray of shape (height * width, 2)
        Row and column of each pixel, row-major.
    values : ndarray of shape (height * width,) or (height * width, n_channels)
        Their values.
    shape : tuple of (int, int)
        Height and width.

    Raises
    ------
    ValueError
        If it is no image.
    """
    image = check_array(
        image, allow_nd=True, dtype=np.float64, input_name="image", ensure_min_samples=1
    )
    if image.ndim not in (2, 3) or image.size == 0:
        raise ValueError(
            "image must have the shape (height, width) or (height, width, n_channels), got "
            f"{image.shape}"
        )
    height, width = image.shape[:2]
    X = _pixel_grid(np.arange(height), np.arange(width))
    return X, image.reshape(height * width, *image.shape[2:]), (height, width)


def _checked_shape(shape):
    """Check that a height and a width are whole numbers, and return them."""
    if (
        np.ndim(shape) != 1
        or len(shape) != 2
        or any(not isinstance(n, Integral) or isinstance(n, bool) or n < 1 for n in shape)
    ):
        raise ValueError(f"shape must be two integers of at least 1, got {shape!r}")
    return tuple(int(n) for n in shape)


def _pixel_grid(rows, columns):
    """Points of the grid over two axes, row-major, as an ndarray of shape (n_points, 2)."""
    return np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2).astype(float)
