"""Pickle, joblib and skops bring every fitted public estimator back bit for bit."""

import io
import pickle
from unittest import SkipTest

import joblib
import pytest

from skml.utils._contract_compare import assert_same
from skml.utils._contract_inputs import fitted, inputs_for
from skml.utils.estimator_checks import make_instance
from tests._estimators import CLASSES, tiny_estimator

# skops calls a type trusted when it knows it; these packages are the ones whose types may be
# left to be confirmed by the user. `tests` holds the adapters that derive extra arrays.
MAY_BE_CONFIRMED = ("skml.", "sklearn.", "numpy.", "tests.")


def pickle_round_trip(estimator):
    return pickle.loads(pickle.dumps(estimator))


def joblib_round_trip(estimator):
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


def skops_round_trip(estimator):
    skops_io = pytest.importorskip("skops.io")
    data = skops_io.dumps(estimator)
    untrusted = skops_io.get_untrusted_types(data=data)
    foreign = [name for name in untrusted if not name.startswith(MAY_BE_CONFIRMED)]
    assert not foreign, f"{type(estimator).__name__} holds {foreign}."
    return skops_io.loads(data, trusted=untrusted)


@pytest.fixture(scope="module")
def fitted_estimators():
    """Fits a class on first request, and keeps estimator, inputs and outputs for the others."""
    known = {}

    def get(name):
        if name not in known:
            estimator = tiny_estimator(name)
            estimator, inputs = fitted(estimator, inputs_for(estimator))
            known[name] = estimator, inputs, inputs.outputs(estimator)
        return known[name]

    return get


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("round_trip", [pickle_round_trip, joblib_round_trip, skops_round_trip])
@pytest.mark.parametrize("name", CLASSES)
def test_round_trip_keeps_outputs(name, round_trip, fitted_estimators):
    try:
        estimator, inputs, expected = fitted_estimators(name)
    except SkipTest as error:
        pytest.skip(str(error))
    loaded = round_trip(estimator)
    assert type(loaded) is type(estimator)
    assert_same(expected, inputs.outputs(loaded), f"{name} through {round_trip.__name__}")
    assert_same(expected, inputs.outputs(estimator), f"{name} after {round_trip.__name__}")
    before, after = estimator.get_params(deep=False), loaded.get_params(deep=False)
    assert before.keys() == after.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_unfitted_estimator_round_trips(name):
    estimator = make_instance(CLASSES[name])
    for round_trip in (pickle_round_trip, joblib_round_trip, skops_round_trip):
        loaded = round_trip(estimator)
        assert type(loaded) is type(estimator)
        assert loaded.get_params(deep=False).keys() == estimator.get_params(deep=False).keys()
