"""Standardisation that commutes with a group."""

from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skml.utils import restores_on_error
from skml.utils._weights import validated_weight

from ._basis import invariant_tensors
from ._groups import REAL_GROUPS
from ._tensor_input import infer_dimension, invariant_location_scale


class EquivariantScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Standardise tensors without breaking their symmetry.

    :class:`sklearn.preprocessing.StandardScaler` gives each column its own scale, after which the
    columns are no longer exchangeable. This one subtracts the invariant part of the mean and
    divides all entries of a channel by one number.

    Parameters
    ----------
    group : str, default="S"
        Name of the group, as in :func:`equivariant_basis`; not a unitary one.

    order : int, default=1
        Order k of the tensors.

    n_channels : int, default=1
        Number c of channels; X has c * n**k columns, channel by channel in C order.

    with_mean : bool, default=True
        Whether to subtract the invariant part of the mean. Under "O" and "H" a vector has none.

    with_scale : bool, default=True
        Whether to divide by the root mean square.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,) or None
        What is subtracted; None without `with_mean`.

    scale_ : ndarray of shape (n_channels,) or None
        What a channel is divided by; None without `with_scale`.

    n_ : int
        Dimension of the base space.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    QuantumGroupEquivariantRegressor : A model that needs such input.

    Notes
    -----
    With P the orthogonal projection onto :math:`\mathrm{Hom}(1, u^{\otimes k})`, a tensor x becomes
    :math:`(x - P \bar x) / s`, which commutes with the group.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    >>> from skml.equivariant import EquivariantScaler
    >>> EquivariantScaler("S").fit_transform([[0.0, 2.0], [2.0, 4.0]]).round(3)
    array([[-1.414,  0.   ],
           [ 0.   ,  1.414]])
    """

    _parameter_constraints: dict = {
        "group": [StrOptions(set(REAL_GROUPS))],
        "order": [Interval(Integral, 1, None, closed="left")],
        "n_channels": [Interval(Integral, 1, None, closed="left")],
        "with_mean": ["boolean"],
        "with_scale": ["boolean"],
    }

    def __init__(self, group="S", *, order=1, n_channels=1, with_mean=True, with_scale=True):
        self.group = group
        self.order = order
        self.n_channels = n_channels
        self.with_mean = with_mean
        self.with_scale = with_scale

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def fit(self, X, y=None, sample_weight=None):
        """Find offset and scale.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Tensors.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        weights = validated_weight(sample_weight, X)
        n = infer_dimension(
            X.shape[1],
            self.order,
            self.n_channels,
            order_name="order",
            channels_name="n_channels",
        )
        tensors = X.reshape(len(X), int(self.n_channels), -1)
        invariants = np.zeros((0, tensors.shape[2]), dtype=X.dtype)
        if self.with_mean:
            invariants = invariant_tensors(self.group, n, int(self.order), X.dtype)
        offset, scale = invariant_location_scale(tensors, invariants, weights)
        self.n_ = n
        self.mean_ = offset.ravel() if self.with_mean else None
        self.scale_ = scale if self.with_scale else None
        return self

    def transform(self, X):
        """Standardise tensors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Tensors.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            What is left after offset and scale.
        """
        X = self._validated(X)
        if self.mean_ is not None:
            X -= self.mean_
        if self.scale_ is not None:
            X /= self._column_scales()
        return X

    def inverse_transform(self, X):
        """Undo :meth:`transform`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Standardised tensors.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The tensors as they were.
        """
        X = self._validated(X)
        if self.scale_ is not None:
            X *= self._column_scales()
        if self.mean_ is not None:
            X += self.mean_
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _validated(self, X):
        check_is_fitted(self)
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False, copy=True)

    def _column_scales(self):
        return np.repeat(self.scale_, self.n_features_in_ // len(self.scale_))

    def _equivariant_map(self):
        return self.transform, self.n_, self.order, self.order
