"""Missingness-avoiding ensembles on two worker processes under joblib's dask backend."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV

from skml.datasets import make_contextual_missingness
from skml.ensemble import (
    MAGradientBoostingClassifier,
    MARandomForestClassifier,
    MARandomForestRegressor,
)
from skml.metrics import missingness_reliance_scorer
from skml.model_selection import TradeoffRefit

pytest.importorskip("distributed")
pytestmark = pytest.mark.distributed


@pytest.fixture(scope="module")
def data():
    return make_contextual_missingness(1500, random_state=0)


@pytest.mark.parametrize("Forest", [MARandomForestClassifier, MARandomForestRegressor])
def test_forest_on_two_processes_is_the_same_forest(on_workers, Forest):
    X, y = make_contextual_missingness(10_000, random_state=0)
    params = {"n_estimators": 30, "alpha": 0.1, "oob_score": True, "random_state": 0}
    here = Forest(n_jobs=2, **params).fit(X, y)
    with on_workers():
        there = Forest(**params).fit(X, y)
    for one, other in zip(here.estimators_, there.estimators_, strict=True):
        for name in ("feature", "threshold", "value", "weighted_n_node_samples"):
            assert_array_equal(getattr(one.tree_, name), getattr(other.tree_, name))
        assert_array_equal(one.node_missingness_reliance_, other.node_missingness_reliance_)
        assert other.imputer_ is there.imputer_
    assert there.missingness_reliance_ == here.missingness_reliance_ > 0
    assert there.oob_score_ == here.oob_score_
    assert_array_equal(there.predict(X), here.predict(X))
    assert_array_equal(there.missingness_reliance(X), here.missingness_reliance(X))


def test_search_over_boosting_on_two_processes_finds_the_same_model(on_workers, data):
    X, y = data
    search = GridSearchCV(
        MAGradientBoostingClassifier(n_estimators=15, max_depth=2, random_state=0),
        {"alpha": [0.0, 0.1, 1.0]},
        scoring={"auc": "roc_auc", "reliance": missingness_reliance_scorer},
        refit=TradeoffRefit("auc", "reliance", gamma=0.9),
        cv=4,
    )
    here = search.fit(X, y)
    expected = {name: here.cv_results_[name] for name in here.cv_results_ if "test_" in name}
    best, proba = here.best_params_, here.predict_proba(X)
    with on_workers():
        there = search.fit(X, y)
    for name, values in expected.items():
        assert_array_equal(there.cv_results_[name], values)
    assert there.best_params_ == best
    assert_array_equal(there.predict_proba(X), proba)
    assert np.ptp(expected["mean_test_reliance"]) > 0.1
