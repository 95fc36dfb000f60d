"""Standardised columns of X, dense or sparse, as the solvers need them.

Both classes stand for Z with z_ij = (x_ij - centre_j) / scale_j and for weights p of the rows that
sum to one. They answer scalar products only, so that a sparse X is never centred in memory.
"""

import numpy as np
from scipy import sparse

from ._standardise import standardised_columns

__all__ = ["DenseDesign", "SparseDesign"]

# Rows that are standardised at a time; a block of a few dozen columns stays in the cache.
_BLOCK = 2048


class DenseDesign:
    """Standardised columns held as an array, which is made when it is first needed.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Columns, with NaN.
    fill, centre, scale : ndarray of shape (n_features,)
        What stands for NaN, what is subtracted then, and what the difference is divided by.
    weight : ndarray of shape (n_samples,) or None
        Weights of the rows with sum 1; None: 1 / n_samples each.
    """

    def __init__(self, X, fill, centre, scale, weight):
        self.n_samples, self.n_features = X.shape
        self.weight = weight
        self._raw = X, fill, centre, scale
        self._Z = None

    @classmethod
    def of_columns(cls, Z, weight):
        """Return the design of columns that are standardised."""
        design = cls.__new__(cls)
        design.n_samples, design.n_features = Z.shape
        design.weight = weight
        design._Z = Z
        return design

    @property
    def Z(self):
        """The standardised columns, in Fortran order."""
        if self._Z is None:
            self._Z = standardised_columns(*self._raw)
            self._raw = None
        return self._Z

    def part(self, features):
        """Return the design of some of the columns."""
        return DenseDesign.of_columns(self.Z.T[features].T, self.weight)

    def joined(self, other):
        """Return the design of the columns of both."""
        return DenseDesign.of_columns(np.concatenate([self.Z.T, other.Z.T]).T, self.weight)

    def predict(self, coef):
        """Return the sum of the columns times coef; coef may have several columns."""
        return self.Z @ coef

    def correlate(self, values):
        """Return the weighted products of the columns with values (n_samples[, k])."""
        return self.Z.T @ weighted(values, self.weight)

    def gram(self):
        """Return the weighted products of the columns."""
        return self.curvature(self.weight)

    def gram_and_correlation(self, values):
        """Return the weighted products of the columns, and those with values (n_samples,).

        Rows are standardised a block at a time, so that columns that nothing else asks for
        are never written to memory.
        """
        if self._Z is not None or self.n_samples <= _BLOCK:
            return self.gram(), self.correlate(values)
        X, fill, centre, scale = self._raw
        values = weighted(values, self.weight)
        gram, correlation = np.zeros((self.n_features,) * 2), np.zeros(self.n_features)
        for start in range(0, self.n_samples, _BLOCK):
            rows = slice(start, start + _BLOCK)
            Z = standardised_columns(X[rows], fill, centre, scale)
            correlation += Z.T @ values[rows]
            if self.weight is not None:
                Z = (Z.T * np.sqrt(self.weight[rows])).T
            gram += Z.T @ Z
        if self.weight is None:
            gram /= self.n_samples
        return gram, correlation

    def products(self, other):
        """Return the weighted products with the columns of another design."""
        return self.Z.T @ weighted(other.Z, self.weight)

    def curvature(self, weight):
        """Return the products of the columns under other weights; None: 1 / n_samples each."""
        if weight is None:
            product = self.Z.T @ self.Z
            product /= self.n_samples
            return product
        if weight.min() >= 0:
            # A product of an array with its own transpose takes half the time.
            Z = (self.Z.T * np.sqrt(weight)).T
            return Z.T @ Z
        return self.Z.T @ (self.Z.T * weight).T

    def total(self, weight):
        """Return the sums of the columns under other weights."""
        return weight @ self.Z


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

    def part(self, features):
        """Return the design of some of the columns."""
        return SparseDesign(
            self.X[:, features], self.centre[features], self.scale[features], self.weight
        )

    def joined(self, other):
        """Return the design of the columns of both."""
        return SparseDesign(
            sparse.hstack([self.X, other.X], format="csc"),
            np.concatenate([self.centre, other.centre]),
            np.concatenate([self.scale, other.scale]),
            self.weight,
        )

    def predict(self, coef):
        """Return the sum of the columns times coef; coef may have several columns."""
        coef = (coef.T / self.scale).T
        return self.X @ coef - self.centre @ coef

    def correlate(self, values):
        """Return the weighted products of the columns with values (n_samples[, k])."""
        values = weighted(values, self.weight)
        products = (self.X.T @ values).T
        products = products - np.multiply.outer(values.sum(axis=0), self.centre)
        return (products / self.scale).T

    def gram(self):
        """Return the weighted products of the columns."""
        return self._products(self, self.weight)

    def gram_and_correlation(self, values):
        """Return the weighted products of the columns, and those with values (n_samples,)."""
        return self.gram(), self.correlate(values)

    def products(self, other):
        """Return the weighted products with the columns of another design."""
        return self._products(other, self.weight)

    def curvature(self, weight):
        """Return the products of the columns under other weights."""
        return self._products(self, weight)

    def total(self, weight):
        """Return the sums of the columns under other weights."""
        return (self.X.T @ weight - self.centre * weight.sum()) / self.scale

    def _products(self, other, weight):
        weighted_columns = other.X.multiply(weight[:, np.newaxis]).tocsc()
        products = (self.X.T @ weighted_columns).toarray()
        products -= np.outer(self.centre, other.X.T @ weight)
        products -= np.outer(self.X.T @ weight - self.centre * weight.sum(), other.centre)
        products /= self.scale[:, np.newaxis]
        products /= other.scale
        return products


def weighted(values, weight):
    """Return the rows of values times their weights; None stands for equal weights."""
    if weight is None:
        return values / len(values)
    return (values.T * weight).T
