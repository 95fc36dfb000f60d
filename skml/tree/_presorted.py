"""Data sorted once, shared by every tree that grows on it."""

from dataclasses import dataclass

import numpy as np

from skml.utils._missing import pack_mask

from ._presort import presort_columns

__all__ = ["PresortedData"]


@dataclass(frozen=True, eq=False)
class PresortedData:
    """Columns, their sorted order and the missing cells of one training set.

    Parameters
    ----------
    columns : float32 array of shape (n_features, n_samples)
        Imputed values; NaN only under native treatment of missing values.
    order : int32 array of shape (n_features, n_samples)
        Row numbers of each column in ascending order of its values, NaN last.
    mask : uint8 array of shape (n_missing_columns, n_samples)
        Missing cells of the columns that miss any.
    mask_row : int32 array of shape (n_features,)
        The row of `mask` that belongs to a feature, -1 if the feature misses nothing.
    has_nan : uint8 array of shape (n_features,)
        Which columns contain NaN.
    """

    columns: np.ndarray
    order: np.ndarray
    mask: np.ndarray
    mask_row: np.ndarray
    has_nan: np.ndarray

    @classmethod
    def from_columns(cls, columns, mask=None, *, native=False):
        """Sort `columns` (n_features, n_samples); `mask` is bool (n_samples, n_features)."""
        packed, mask_row = pack_mask(mask, columns.shape[0], columns.shape[1])
        order = presort_columns(columns)
        has_nan = np.zeros(columns.shape[0], dtype=np.uint8)
        if native:
            greatest = columns[np.arange(columns.shape[0]), order[:, -1]]
            has_nan[:] = np.isnan(greatest)
        return cls(columns, order, packed, mask_row, has_nan)

    @property
    def n_features(self):
        return self.columns.shape[0]

    @property
    def n_samples(self):
        return self.columns.shape[1]

    def __sizeof__(self):
        # joblib's dask backend ships an argument once, and not with every tree, if it is large.
        arrays = (self.columns, self.order, self.mask, self.mask_row, self.has_nan)
        return object.__sizeof__(self) + sum(array.nbytes for array in arrays)
