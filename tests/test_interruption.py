"""A fit that is interrupted half-way leaves the estimator as it was.

The interrupt comes where a function of skml is entered, at moments that are spread over the fit:
in validation, in the middle of training, in the last lines.
"""

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import skml
from skml.utils._contract_compare import (
    assert_same,
    assert_same_process_state,
    outputs_or_none,
    process_state,
)
from skml.utils._contract_inputs import fitted, fresh, inputs_for
from tests._estimators import CLASSES, tiny_estimator

SOURCES = (str(Path(skml.__file__).parent), __file__)
N_MOMENTS = 6
pytestmark = pytest.mark.filterwarnings("ignore")


class Interrupt:
    """Counts the functions of skml that are entered in a block, and interrupts one of them.

    What cleans up is left alone: no program can promise anything when that is interrupted too.
    """

    def __init__(self, at=None):
        self.at, self.n_entered = at, 0

    def __enter__(self):
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *exception):
        sys.setprofile(None)

    def _on_event(self, frame, event, argument):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCES):
            return
        if code.co_name == "__exit__" or code.co_flags & inspect.CO_GENERATOR:
            return
        self.n_entered += 1
        if self.n_entered == self.at:
            raise KeyboardInterrupt


def moments(n_entered):
    """Numbers from 1 to `n_entered`, the last among them."""
    return sorted({1 + round(k * (n_entered - 1) / (N_MOMENTS - 1)) for k in range(N_MOMENTS)})


def interrupt_fit(inputs, estimator, moment):
    """The interrupt comes through, and the process is as it was before."""
    before = process_state()
    with pytest.raises(KeyboardInterrupt), Interrupt(moment):
        inputs.fit(estimator)
    assert_same_process_state(before, process_state(), "The interrupted fit")


def check_interruption(name, estimator, make_inputs):
    inputs = make_inputs("small")
    reference, _ = fitted(estimator, make_inputs)
    expected = inputs.outputs(reference)
    with Interrupt() as count:  # of the second fit: the first one fills caches
        inputs.fit(reference)
    model, earlier_inputs = fitted(estimator, make_inputs, size="large")
    earlier = earlier_inputs.outputs(model)
    for moment in moments(count.n_entered):
        what = f"{name} interrupted at {moment} of {count.n_entered}"
        new = fresh(estimator)
        interrupt_fit(inputs, new, moment)
        assert not outputs_or_none(inputs, new, what), f"{what} takes itself for fitted."
        interrupt_fit(inputs, model, moment)
        assert_same(earlier, earlier_inputs.outputs(model), what)
    inputs.fit(model)
    assert_same(expected, inputs.outputs(model), f"{name} fitted after interrupts")


@pytest.mark.parametrize("name", CLASSES)
def test_interrupted_fit_leaves_no_trace(name):
    estimator = tiny_estimator(name)
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=0)
    check_interruption(name, estimator, inputs_for(estimator))


class HalfFitted(ClassifierMixin, BaseEstimator):
    """Sets a fitted attribute before the last step of its fit."""

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        self.classes_ = np.unique(y)
        self._finish(y)
        return self

    def _finish(self, y):
        self.label_ = y[0]

    def predict(self, X):
        check_is_fitted(self)
        return np.full(len(X), self.classes_[0])


class HalfReplaced(HalfFitted):
    """Is not fitted before the last step, but has lost its earlier model."""

    def predict(self, X):
        check_is_fitted(self, "label_")
        return np.full(len(X), self.n_features_in_)


@pytest.mark.parametrize(
    ("faulty", "match"),
    [
        (HalfFitted(), "takes itself for fitted"),
        (HalfReplaced(), r"interrupted at . of 3.* differ"),
    ],
)
def test_a_fit_that_leaves_a_trace_is_caught(faulty, match):
    with pytest.raises(AssertionError, match=match):
        check_interruption("Faulty", faulty, inputs_for(faulty))
