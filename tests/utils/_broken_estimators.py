"""For every contract check some estimators that break it by one change."""

import os
import random
import time
import warnings

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted

from tests.utils._good_estimators import GoodCentroid, GoodSequenceModel, GoodShift


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


class SharesBufferBetweenFits(GoodCentroid):
    """The class, not the instance, knows that a fit is going on; one beside it is reversed."""

    busy = False

    def fit(self, X, y):
        cls = type(self)
        was_busy, cls.busy = cls.busy, True
        try:
            time.sleep(0.02)
            super().fit(X, y)
        finally:
            cls.busy = False
        if was_busy:
            self.classes_ = self.classes_[::-1].copy()
        return self


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
    (SharesBufferBetweenFits(), "check_fits_in_threads"),
    (FailsInPipeline(), "check_pipeline"),
    (ScoreIsNaN(), "check_grid_search"),
]


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


class SequenceModelWithoutRouting(GoodSequenceModel):
    """Takes its weights by a name that nobody routes."""

    set_fit_request = None


class SequenceModelWithoutError(GoodSequenceModel):
    def _check_sequences(self, X):
        return [np.ravel(x) if np.size(x) else np.zeros(1) for x in X]


class SequenceModelWithoutScore(GoodSequenceModel):
    score = property(lambda self: (_ for _ in ()).throw(AttributeError("score")))


BROKEN_OTHERS = [
    (TooFewNames(), "check_transformer_dataframes"),
    (NoNames(), "check_transformer_dataframes"),
    (FixedNamesOut(), "check_transformer_dataframes"),
    (ForgetsNamesIn(), "check_transformer_dataframes"),
    (SequenceModelWithoutRouting(), "check_pipeline"),
    (SequenceModelWithoutError(), "check_malformed_input"),
    (SequenceModelWithoutScore(), "check_grid_search"),
]
