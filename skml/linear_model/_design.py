"""Standardised columns of X, dense or sparse, as the solvers need them.

Both classes stand for Z with z_ij = (x_ij - centre_j) / scale_j and for weights p of the rows that
sum to one. They answer scalar products only, so that a sparse X is never centred in memory.
"""

import numpy as np

__all__ = ["DenseDesign", "SparseDesign"]


class DenseDesign:
    """Standardised columns held as an array.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_features)
        Standardised columns, in Fortran order.
    weight : ndarray of shape (n_samples,) or None
        Weights of the rows with sum 1; None: 1 / n_samples each.
    """

    def __init__(self, Z, weight):
        self.Z = Z
        self.weight = weight
        self.n_samples, self.n_features = Z.shape

    def predict(self, coef, features):
        """Return the sum of the given columns times coef; coef may have several columns."""
        return self._columns(features) @ coef

    def correlate(self, values):
        """Return the weighted products of all columns with values (n_samples[, k])."""
        return self.Z.T @ weighted(values, self.weight)

    def gram(self, rows, columns=None):
        """Return the weighted products of two sets of columns; of one set by default."""
        left = self._columns(rows)
        if columns is not None:
            return left.T @ weighted(self._columns(columns), self.weight)
        return self.curvature(rows, self.weight)

    def curvature(self, features, weight):
        """Return the products of columns under other weights; None: 1 / n_samples each."""
        Z = self._columns(features)
        if weight is None:
            product = Z.T @ Z
            product /= self.n_samples
            return product
        if weight.min() >= 0:
            # A product of an array with its own transpose takes half the time.
            Z = Z * np.sqrt(weight)[:, np.newaxis]
            return Z.T @ Z
        return Z.T @ (Z * weight[:, np.newaxis])

    def total(self, features, weight):
        """Return the sum of columns under other weights."""
        return weight @ self._columns(features)

    def _columns(self, features):
        if len(features) == self.n_features:
            return self.Z
        return self.Z.T[features].T


class SparseDesign:
    """Standardised columns of a CSC matrix; the centre is taken off in the products.

    Parameters
    ----------
    X : CSC matrix of shape (n_samples, n_features)
        Imputed columns.
    centre, scale : ndarray of shape (n_features,)
        What is subtracted from the columns and what they are divided by then.
    weight : ndarray of shape (n_samples,) or None
        Weights of the rows with sum 1; None: 1 / n_samples each.
    """

    def __init__(self, X, centre, scale, weight):
        self.n_samples, self.n_features = X.shape
        self.X = X
        self.centre = centre
        self.scale = scale
        self.weight = np.full(self.n_samples, 1 / self.n_samples) if weight is None else weight

    def predict(self, coef, features):
        """Return the sum of the given columns times coef; coef may have several columns."""
        X, centre, scale = self._part(features)
        coef = (coef.T / scale).T
        return X @ coef - centre @ coef

    def correlate(self, values):
        """Return the weighted products of all columns with values (n_samples[, k])."""
        values = weighted(values, self.weight)
        products = self.X.T @ values
        if values.ndim == 1:
            return (products - self.centre * values.sum()) / self.scale
        products -= np.outer(self.centre, values.sum(axis=0))
        return products / self.scale[:, np.newaxis]

    def gram(self, rows, columns=None):
        """Return the weighted products of two sets of columns; of one set by default."""
        return self._products(rows, rows if columns is None else columns, self.weight)

    def curvature(self, features, weight):
        """Return the products of columns under other weights."""
        return self._products(features, features, weight)

    def total(self, features, weight):
        """Return the sum of columns under other weights."""
        X, centre, scale = self._part(features)
        return (X.T @ weight - centre * weight.sum()) / scale

    def _products(self, rows, columns, weight):
        left, left_centre, left_scale = self._part(rows)
        right, right_centre, right_scale = self._part(columns)
        products = (left.T @ right.multiply(weight[:, np.newaxis]).tocsc()).toarray()
        products -= np.outer(left_centre, right.T @ weight)
        products -= np.outer(left.T @ weight - left_centre * weight.sum(), right_centre)
        products /= left_scale[:, np.newaxis]
        products /= right_scale
        return products

    def _part(self, features):
        if len(features) == self.n_features:
            return self.X, self.centre, self.scale
        return self.X[:, features], self.centre[features], self.scale[features]


def weighted(values, weight):
    """Return the rows of values times their weights; None stands for equal weights."""
    if weight is None:
        return values / len(values)
    return (values.T * weight).T
