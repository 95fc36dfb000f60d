"""Estimators that keep the whole contract: 2-D, transformer, sequences, not X and y."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from skml.utils import extend_tags, restores_on_error
from skml.utils.estimator_checks import (
    ContractInputs,
    Malformed,
    register_inputs,
)


class GoodCentroid(ClassifierMixin, BaseEstimator):
    """Classify by the nearest class mean along random directions.

    Parameters
    ----------
    n_directions : int
        Number of random directions.
    scales : list of float
        Scales of the directions, used in turn.
    random_state : int, RandomState instance or None
        Source of the directions.
    n_jobs : int or None
        Ignored.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    directions_ : ndarray of shape (n_features, n_directions)
        Directions.
    means_ : ndarray of shape (n_classes, n_directions)
        Projected class means.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Distance is Euclidean.

    References
    ----------
    None.

    Examples
    --------
    >>> GoodCentroid()
    GoodCentroid()
    """

    _parameter_constraints = {
        "n_directions": [Interval(Integral, 1, None, closed="left")],
        "scales": ["array-like"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(self, n_directions=6, scales=(1.0, 0.5), *, random_state=None, n_jobs=None):
        self.n_directions = n_directions
        self.scales = scales
        self.random_state = random_state
        self.n_jobs = n_jobs

    @restores_on_error
    def fit(self, X, y):
        self._validate_params()
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) == 1:
            raise ValueError("Cannot classify when there is only one class.")
        scales = np.resize(self.scales, self.n_directions)
        rng = check_random_state(self.random_state)
        self.directions_ = rng.normal(size=(X.shape[1], self.n_directions)) * scales
        Z = X @ self.directions_
        self.means_ = np.array([Z[codes == k].mean(axis=0) for k in range(len(self.classes_))])
        return self

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        Z = (X[:, :, None] * self.directions_).sum(axis=1)
        distances = ((Z[:, None, :] - self.means_) ** 2).sum(axis=-1)
        return self.classes_[distances.argmin(axis=1)]


class GoodShift(TransformerMixin, BaseEstimator):
    """Subtract the column means.

    Attributes
    ----------
    means_ : ndarray of shape (n_features,)
        Column means.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns.

    Notes
    -----
    The output is x - mean.

    References
    ----------
    None.

    Examples
    --------
    >>> GoodShift()
    GoodShift()
    """

    def fit(self, X, y=None):
        X = validate_data(self, X)
        self.means_ = X.mean(axis=0)
        return self

    def transform(self, X):
        check_is_fitted(self)
        return validate_data(self, X, reset=False) - self.means_

    def get_feature_names_out(self, input_features=None):
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        return np.asarray(names, dtype=object)


class GoodSequenceModel(BaseEstimator):
    """Score sequences by their mean, relative to the mean of all.

    Parameters
    ----------
    power : float
        Exponent of the deviation.

    Attributes
    ----------
    mean_ : float
        Mean of the training sequences.

    Notes
    -----
    The score is -|mean - mean_|^power.

    References
    ----------
    None.

    Examples
    --------
    >>> GoodSequenceModel()
    GoodSequenceModel()
    """

    _parameter_constraints = {"power": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, power=2.0):
        self.power = power

    def fit(self, X, y=None, *, lengths=None):
        self._validate_params()
        X = self._check_sequences(X)
        weights = np.ones(len(X)) if lengths is None else np.asarray(lengths, dtype=float)
        self.mean_ = np.average([np.mean(x) for x in X], weights=weights)
        return self

    def predict(self, X):
        check_is_fitted(self)
        return np.array(
            [-(abs(np.mean(x) - self.mean_) ** self.power) for x in self._check_sequences(X)]
        )

    def score(self, X, y=None, sample_weight=None):
        return float(np.mean(self.predict(X)))

    def _check_sequences(self, X):
        for number, x in enumerate(X):
            if np.ndim(x) != 1 or len(x) == 0:
                raise ValueError(f"X[{number}] must be a 1-D sequence, got shape {np.shape(x)}.")
        return X

    def __sklearn_tags__(self):
        return extend_tags(super().__sklearn_tags__(), input_kind="sequences")


@register_inputs(GoodSequenceModel)
def make_sequences(size):
    rng = np.random.default_rng(0)
    n_samples = 8 if size == "small" else 12
    X = [rng.normal(size=rng.integers(2, 6)) for _ in range(n_samples)]
    return ContractInputs(
        X=X,
        fit_params={"lengths": np.array([len(x) for x in X])},
        malformed=(
            Malformed({"X": [np.ones((2, 2))] * 8}, r"X\[0\] must be a 1-D sequence"),
            Malformed({"predict_X": [np.ones(2), np.ones(0)]}, r"X\[1\] must be a 1-D"),
        ),
        param_grid={"power": [1.0, 2.0]},
    )


class GoodPlanner(GoodSequenceModel):
    __doc__ = GoodSequenceModel.__doc__

    def fit(self, *, profile):
        self._validate_params()
        if np.ndim(profile) != 1:
            raise ValueError(f"profile must be 1-D, got shape {np.shape(profile)}.")
        self.mean_ = float(np.mean(profile))
        return self

    def plan(self):
        check_is_fitted(self)
        return {"bits": self.mean_ * self.power}

    def __sklearn_tags__(self):
        return extend_tags(super().__sklearn_tags__(), x_y_estimator=False, input_kind="profiles")


@register_inputs(GoodPlanner)
def make_profile(size):
    n_layers = {"small": 3, "large": 5}[size]
    return ContractInputs(
        fit_params={"profile": np.arange(n_layers)},
        methods=("plan",),
        malformed=(Malformed({"fit_params": {"profile": 3}}, "profile must be 1-D"),),
    )
