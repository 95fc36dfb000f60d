"""Every contract check passes a good estimator and catches the one that it is there for."""

import os
import random
import time
import warnings
from numbers import Integral, Real

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import NearestCentroid
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, InvalidParameterError
from sklearn.utils.estimator_checks import check_fit_score_takes_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from skml.utils import extend_tags, restores_on_error
from skml.utils._tags import follows_x_y, takes_two_d_array
from skml.utils.estimator_checks import (
    ContractInputs,
    Malformed,
    check_name,
    check_skml_estimator,
    checks_of,
    collect_inputs,
    contract_checks,
    make_instance,
    register_inputs,
    register_instance,
    with_extra_arrays,
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


class Positional(GoodCentroid):
    def __init__(self, n_directions=6, scales=(1.0, 0.5), random_state=None, n_jobs=None):
        super().__init__(n_directions, scales, random_state=random_state, n_jobs=n_jobs)


class CopiesParameter(GoodCentroid):
    def __init__(self, n_directions=6, scales=(1.0, 0.5), *, random_state=None, n_jobs=None):
        super().__init__(n_directions, list(scales), random_state=random_state, n_jobs=n_jobs)


class ExtraInitAttribute(GoodCentroid):
    def __init__(self, n_directions=6, scales=(1.0, 0.5), *, random_state=None, n_jobs=None):
        super().__init__(n_directions, scales, random_state=random_state, n_jobs=n_jobs)
        self.cache = {}


class CloneKeepsFit(GoodCentroid):
    def __sklearn_clone__(self):
        copy = type(self)(**self.get_params(deep=False))
        vars(copy).update(vars(self))
        return copy


class SetParamsDropsValue(GoodCentroid):
    def set_params(self, **params):
        params.pop("scales", None)
        return super().set_params(**params)


class AcceptsUnknownParameter(GoodCentroid):
    def set_params(self, **params):
        params.pop("no_such_parameter", None)
        return super().set_params(**params)


class LacksConstraint(GoodCentroid):
    _parameter_constraints = {
        k: v for k, v in GoodCentroid._parameter_constraints.items() if k != "scales"
    }


class DoesNotValidate(GoodCentroid):
    def _validate_params(self):
        pass


class LacksDocstringSection(GoodCentroid):
    """Classify by the nearest class mean along random directions."""


class UndocumentedAttribute(GoodCentroid):
    def fit(self, X, y):
        super().fit(X, y)
        self.secret_ = 0
        return self


class PositionalExtraArray(GoodCentroid):
    def fit(self, X, y, mask=None):
        return super().fit(X, y)


class FitReturnsNone(GoodCentroid):
    def fit(self, X, y):
        super().fit(X, y)


class ReplacesParameter(GoodCentroid):
    def fit(self, X, y):
        self.n_jobs = 1
        return super().fit(X, y)


class ChangesParameterInPlace(GoodCentroid):
    def __init__(self, n_directions=6, scales=None, *, random_state=None, n_jobs=None):
        super().__init__(n_directions, scales, random_state=random_state, n_jobs=n_jobs)

    def fit(self, X, y):
        self.scales.append(0.0)
        return super().fit(X, y)


class CentresInPlace(GoodCentroid):
    def fit(self, X, y):
        X -= X.mean(axis=0)
        return super().fit(X, y)


class CentresInPlaceAtPredict(GoodCentroid):
    def predict(self, X):
        labels = super().predict(X)
        X *= 0.5
        return labels


class WritesToAndRestoresInput(GoodCentroid):
    def fit(self, X, y):
        X += 1.0
        super().fit(X, y)
        X -= 1.0
        return self


class PublicAttributeWithoutUnderscore(GoodCentroid):
    def fit(self, X, y):
        super().fit(X, y)
        self.n_seen = len(X)
        return self


class PredictAddsAttribute(GoodCentroid):
    def predict(self, X):
        self.last_shape_ = np.shape(X)
        return super().predict(X)


class PredictsBeforeFit(GoodCentroid):
    def predict(self, X):
        return super().predict(X) if hasattr(self, "means_") else np.zeros(len(X))


class AttributeErrorBeforeFit(GoodCentroid):
    def predict(self, X):
        return self.classes_[np.zeros(len(X), dtype=int)]


class KeepsHalfFit(GoodCentroid):
    def fit(self, X, y):
        self.n_features_in_ = 1
        return GoodCentroid.fit.__wrapped__(self, X, y)


class FailedFitSpoilsEarlierModel(GoodCentroid):
    def fit(self, X, y):
        if hasattr(self, "means_"):
            self.means_ = self.means_[::-1]
        return super().fit(X, y)


class SeedsNumpy(GoodCentroid):
    def fit(self, X, y):
        np.random.seed(0)  # noqa: NPY002
        return super().fit(X, y)


class SeedsRandom(GoodCentroid):
    def predict(self, X):
        random.seed(0)
        return super().predict(X)


class SetsEnvironment(GoodCentroid):
    def fit(self, X, y):
        os.environ["SKML_TEST_LEAK"] = str(int(os.environ.get("SKML_TEST_LEAK", "0")) + 1)
        return super().fit(X, y)


class SilencesWarnings(GoodCentroid):
    def fit(self, X, y):
        warnings.filters.insert(0, ("ignore", None, ResourceWarning, None, len(warnings.filters)))
        return super().fit(X, y)


class SeedsTorch(GoodCentroid):
    def fit(self, X, y):
        import torch

        torch.manual_seed(0)
        return super().fit(X, y)


class SetsTorchThreads(GoodCentroid):
    def fit(self, X, y):
        import torch

        torch.set_num_threads(3)
        return super().fit(X, y)


class AcceptsAnything(GoodCentroid):
    def fit(self, X, y):
        X = np.asarray(X)
        X = X.reshape(len(X), -1) if len(X) else np.eye(2)
        y = np.resize(np.asarray(y) > 0.5, len(X)) if len(y) else np.arange(2)
        return super().fit(X, y)


class VagueMessage(GoodCentroid):
    def fit(self, X, y):
        try:
            return super().fit(X, y)
        except InvalidParameterError:
            raise
        except ValueError:
            raise ValueError("Something is wrong.") from None


class WarmByMistake(GoodCentroid):
    """Moves its means a step further with every fit."""

    def fit(self, X, y):
        before = getattr(self, "means_", None)
        super().fit(X, y)
        if before is not None and before.shape == self.means_.shape:
            self.means_ = before[::-1].copy()
        return self


class RemembersOtherData(GoodCentroid):
    def fit(self, X, y):
        self._largest = max(len(X), getattr(self, "_largest", 0))
        super().fit(X, y)
        if self._largest > len(X):
            self.means_ = self.means_[::-1].copy()
        return self


class UsesGlobalGenerator(GoodCentroid):
    def fit(self, X, y):
        super().fit(X, y)
        self.means_ += 100 * np.random.normal(size=self.means_.shape)  # noqa: NPY002
        return self


class DependsOnJobs(GoodCentroid):
    def fit(self, X, y):
        super().fit(X, y)
        if self.n_jobs == 2:
            self.means_ = self.means_[::-1].copy()
        return self


class LosesStateInPickle(GoodCentroid):
    def __getstate__(self):
        return {key: value for key, value in super().__getstate__().items() if key != "means_"}


class RoundsStateInPickle(GoodCentroid):
    def __getstate__(self):
        state = dict(super().__getstate__())
        if "means_" in state:
            state["means_"] = np.sign(state["means_"]) * 1e3
        return state


class SharesStateInCopy(GoodCentroid):
    def fit(self, X, y):
        state = vars(self).get("_shared", {})
        super().fit(X, y)
        state["means"] = self.means_
        self._shared = state
        return self

    def predict(self, X):
        check_is_fitted(self)
        self.means_ = self._shared["means"]
        return super().predict(X)

    def __deepcopy__(self, memo):
        copy = type(self)(**self.get_params(deep=False))
        vars(copy).update(vars(self))
        return copy


class SharesBufferBetweenThreads(GoodCentroid):
    """Every call predicts what the last caller asked for, reversed on every second call."""

    def predict(self, X):
        labels = super().predict(X)
        self._buffer = labels[::-1].copy() if getattr(self, "_busy", False) else labels
        self._busy = True
        time.sleep(0.01)
        self._busy = False
        return self._buffer


class FailsInPipeline(GoodCentroid):
    def predict(self, X, shift=0):
        import sys

        caller = sys._getframe(1).f_globals["__name__"]
        labels = super().predict(X)
        return labels[::-1] if caller == "sklearn.pipeline" else labels


class ScoreIsNaN(GoodCentroid):
    def score(self, X, y, sample_weight=None):
        return np.nan


BROKEN = [
    (Positional(), "check_constructor"),
    (CopiesParameter(), "check_constructor"),
    (ExtraInitAttribute(), "check_constructor"),
    (CloneKeepsFit(), "check_clone"),
    (SetParamsDropsValue(), "check_get_set_params"),
    (AcceptsUnknownParameter(), "check_get_set_params"),
    (LacksConstraint(), "check_parameter_validation"),
    (DoesNotValidate(), "check_parameter_validation"),
    (LacksDocstringSection(), "check_docstring"),
    (UndocumentedAttribute(), "check_docstring"),
    (PositionalExtraArray(), "check_extra_arrays_keyword_only"),
    (FitReturnsNone(), "check_fit_returns_self"),
    (ReplacesParameter(), "check_parameters_untouched"),
    (ChangesParameterInPlace(scales=[1.0]), "check_parameters_untouched"),
    (CentresInPlace(), "check_inputs_untouched"),
    (CentresInPlaceAtPredict(), "check_inputs_untouched"),
    (WritesToAndRestoresInput(), "check_read_only_inputs"),
    (PublicAttributeWithoutUnderscore(), "check_fitted_attribute_names"),
    (PredictAddsAttribute(), "check_fitted_attribute_names"),
    (PredictsBeforeFit(), "check_not_fitted_error"),
    (AttributeErrorBeforeFit(), "check_not_fitted_error"),
    (KeepsHalfFit(), "check_failed_fit_leaves_nothing"),
    (FailedFitSpoilsEarlierModel(), "check_failed_fit_leaves_nothing"),
    (SeedsNumpy(), "check_global_state"),
    (SeedsRandom(), "check_global_state"),
    (SetsEnvironment(), "check_global_state"),
    (SilencesWarnings(), "check_global_state"),
    (AcceptsAnything(), "check_malformed_input"),
    (VagueMessage(), "check_malformed_input"),
    (WarmByMistake(), "check_fit_repeated"),
    (RemembersOtherData(), "check_fit_forgets"),
    (UsesGlobalGenerator(), "check_determinism"),
    (DependsOnJobs(), "check_n_jobs"),
    (LosesStateInPickle(), "check_pickle"),
    (RoundsStateInPickle(), "check_pickle"),
    (SharesStateInCopy(), "check_deepcopy"),
    (SharesBufferBetweenThreads(), "check_threads"),
    (FailsInPipeline(), "check_pipeline"),
    (ScoreIsNaN(), "check_grid_search"),
]


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


class TooFewNames(GoodShift):
    def get_feature_names_out(self, input_features=None):
        return super().get_feature_names_out()[:-1]


class NoNames(GoodShift):
    get_feature_names_out = None


class FixedNamesOut(GoodShift):
    def transform(self, X):
        import pandas as pd

        return pd.DataFrame(super().transform(X)).to_numpy()[:, ::-1]

    def set_output(self, *, transform=None):
        return self


class ForgetsNamesIn(GoodShift):
    def fit(self, X, y=None):
        return super().fit(np.asarray(X))


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


class SequenceModelWithoutRouting(GoodSequenceModel):
    """Takes its weights by a name that nobody routes."""

    set_fit_request = None


class SequenceModelWithoutError(GoodSequenceModel):
    def _check_sequences(self, X):
        return [np.ravel(x) if np.size(x) else np.zeros(1) for x in X]


class SequenceModelWithoutScore(GoodSequenceModel):
    score = property(lambda self: (_ for _ in ()).throw(AttributeError("score")))


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


BROKEN_OTHERS = [
    (TooFewNames(), "check_transformer_dataframes"),
    (NoNames(), "check_transformer_dataframes"),
    (FixedNamesOut(), "check_transformer_dataframes"),
    (ForgetsNamesIn(), "check_transformer_dataframes"),
    (SequenceModelWithoutRouting(), "check_pipeline"),
    (SequenceModelWithoutError(), "check_malformed_input"),
    (SequenceModelWithoutScore(), "check_grid_search"),
]


def run_check(estimator, name):
    checks = [check for _, check in contract_checks(estimator) if check_name(check) == name]
    assert len(checks) == 1
    checks[0](estimator)


def identifier(value):
    return value if isinstance(value, str) else type(value).__name__


@pytest.mark.filterwarnings("ignore:One or more of the test scores", "ignore:X has feature names")
@pytest.mark.parametrize(("estimator", "name"), BROKEN + BROKEN_OTHERS, ids=identifier)
def test_check_catches_broken_estimator(estimator, name, monkeypatch):
    monkeypatch.setenv("SKML_TEST_LEAK", "0")
    # Some checks hand on the estimator's own error.
    errors = (AssertionError, AttributeError, TypeError, ValueError)
    with warnings.catch_warnings(), pytest.raises(errors):
        run_check(estimator, name)


@pytest.mark.parametrize("estimator", [SeedsTorch(), SetsTorchThreads()], ids=identifier)
def test_global_state_check_knows_torch(estimator):
    torch = pytest.importorskip("torch")
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.manual_seed(1)
    try:
        with pytest.raises(AssertionError, match="torch|thread"):
            run_check(estimator, "check_global_state")
    finally:
        torch.set_num_threads(n_threads)


GOOD = [GoodCentroid(), GoodShift(), GoodSequenceModel(), GoodPlanner()]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", GOOD, ids=identifier)
def test_good_estimator_passes_everything(estimator):
    results = check_skml_estimator(estimator)
    assert {result["status"] for result in results} <= {"passed", "skipped"}


def test_every_contract_check_has_a_broken_estimator():
    checks = {check_name(check) for good in GOOD for _, check in contract_checks(good)}
    assert checks == {name for _, name in BROKEN + BROKEN_OTHERS}


def test_scikit_learn_checks_run_where_x_is_two_dimensional():
    names = {check_name(check) for _, check in checks_of(GoodCentroid())}
    assert check_name(check_fit_score_takes_y) in names
    names = {check_name(check) for _, check in checks_of(GoodSequenceModel())}
    assert check_name(check_fit_score_takes_y) not in names


def test_not_x_y_estimator_is_kept_out_of_pipelines():
    names = {check_name(check) for _, check in contract_checks(GoodPlanner())}
    assert not names & {"check_pipeline", "check_grid_search"}
    assert "check_pickle" in names
    assert not follows_x_y(GoodPlanner())
    assert not takes_two_d_array(GoodPlanner())


def test_first_failure_is_raised():
    with pytest.raises(AssertionError, match="must be keyword-only"):
        check_skml_estimator(PositionalExtraArray())


def test_failures_are_collected():
    results = check_skml_estimator(PositionalExtraArray(), on_fail=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed == {"check_extra_arrays_keyword_only"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_excuse_is_accepted_when_needed():
    excuses = {"check_extra_arrays_keyword_only": "mask came first"}
    results = check_skml_estimator(PositionalExtraArray(), expected_failed_checks=excuses)
    assert [r["check_name"] for r in results if r["status"] == "xfail"] == list(excuses)


@pytest.mark.parametrize("excused", ["check_pickle", "check_that_does_not_exist"])
def test_unneeded_excuse_fails(excused):
    with pytest.raises(AssertionError, match=excused):
        check_skml_estimator(GoodSequenceModel(), expected_failed_checks={excused: "no reason"})


def test_skipped_check_warns():
    with pytest.warns(SkipTestWarning, match="GoodShift has no score method"):
        check_skml_estimator(GoodShift())


def test_class_instead_of_instance_is_refused():
    with pytest.raises(TypeError, match="must be an instance, got the class GoodShift"):
        check_skml_estimator(GoodShift)


def test_missing_inputs_are_named():
    class Unregistered(BaseEstimator):
        def fit(self, X):
            return self

        def __sklearn_tags__(self):
            return extend_tags(super().__sklearn_tags__(), input_kind="graphs")

    with pytest.raises(LookupError, match="Unregistered .*register_inputs"):
        check_skml_estimator(Unregistered())


class Meta(BaseEstimator):
    def __init__(self, estimator):
        self.estimator = estimator


def test_required_parameters_need_an_instance():
    with pytest.raises(TypeError, match="Meta .*register_instance"):
        make_instance(Meta)
    register_instance(Meta)(lambda: Meta(LinearRegression()))
    assert isinstance(make_instance(Meta).estimator, LinearRegression)


class NeedsGroups(NearestCentroid):
    """Drops the rows outside of group 1."""

    def fit(self, X, y, *, groups):
        assert len(groups) == _num_samples(X)
        return super().fit(X, y)

    def predict(self, X, *, groups):
        assert len(groups) == _num_samples(X)
        return super().predict(X)


NeedsGroupsWithArrays = with_extra_arrays(
    NeedsGroups, {"groups": lambda X, rng: (X @ rng.normal(size=X.shape[1]) > 0).astype(int)}
)


@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.SkipTestWarning")
def test_adapter_runs_through_scikit_learns_checks():
    instances = {type(estimator) for estimator, _ in checks_of(NeedsGroups())}
    assert instances == {NeedsGroupsWithArrays}
    for estimator, check in checks_of(NeedsGroups()):
        if check.func.__module__ == "sklearn.utils.estimator_checks":
            try:
                check(estimator)
            except BaseException as error:
                if type(error).__name__ != "SkipTest":
                    raise


class RoutesGroups(NeedsGroups):
    def score(self, X, y, sample_weight=None, *, groups):
        return float(np.mean(self.predict(X, groups=groups) == y))


class RoutesNothing(RoutesGroups):
    set_fit_request = None


@register_inputs(RoutesGroups)
def make_groups(size):
    X = np.random.default_rng(0).normal(size=(20, 3))
    groups = {"groups": np.arange(20) % 3}
    return ContractInputs(X=X, y=np.arange(20) % 2, fit_params=groups, predict_params=groups)


def test_class_with_adapter_and_inputs_has_its_own_routing_checked():
    with_extra_arrays(RoutesGroups, {"groups": lambda X, rng: X[:, 0]})
    kinds = {check_name(check): type(estimator) for estimator, check in checks_of(RoutesGroups())}
    assert kinds["check_pipeline"] is RoutesGroups
    assert kinds["check_fit_score_takes_y"].__name__ == "RoutesGroupsWithArrays"
    run_check(RoutesGroups(), "check_pipeline")
    run_check(RoutesGroups(), "check_grid_search")
    with pytest.raises(ValueError, match="groups"):
        run_check(RoutesNothing(), "check_pipeline")


def test_adapter_computes_rows_by_themselves():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    model = clone(NeedsGroupsWithArrays()).fit(X, y)
    np.testing.assert_array_equal(model.predict(X)[::-1], model.predict(X[::-1]))


def test_adapter_without_such_argument_is_refused():
    with pytest.raises(ValueError, match="No public method of LinearRegression takes any of"):
        with_extra_arrays(LinearRegression, {"treatment": lambda X, rng: X[:, 0]})


def test_collect_inputs_imports_by_file_name(tmp_path):
    folder = tmp_path / "checks_of_somebody" / "sub"
    folder.mkdir(parents=True)
    (folder / "_inputs_page.py").write_text("VALUE = 3\n")
    (folder / "_inputs_torchless.py").write_text("import a_package_that_nobody_has\n")
    (folder / "test_page.py").write_text("raise RuntimeError\n")
    modules = collect_inputs(tmp_path / "checks_of_somebody")
    assert [module.__name__ for module in modules] == ["checks_of_somebody.sub._inputs_page"]
    assert modules[0].VALUE == 3


def test_restores_on_error_keeps_the_earlier_model():
    X, y = np.arange(8.0).reshape(-1, 1), np.arange(8) % 2
    model = GoodCentroid(random_state=0)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.zeros(8))
    with pytest.raises(NotFittedError):
        model.predict(X)
    labels = model.fit(X, y).predict(X)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X[:, [0, 0]], np.zeros(8))
    np.testing.assert_array_equal(labels, model.predict(X))
