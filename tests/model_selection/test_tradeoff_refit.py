"""TradeoffRefit: every rule of the choice, and its use in searches."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from skml.datasets import make_contextual_missingness
from skml.metrics import missingness_reliance, missingness_reliance_scorer
from skml.model_selection import TradeoffRefit

NAN = np.nan


def choose(scores, rho, gamma=0.95):
    results = {"mean_test_auc": np.array(scores), "mean_test_rho": -np.array(rho, dtype=float)}
    return TradeoffRefit("auc", "rho", gamma)(results)


def test_lowest_reliance_among_the_good_wins():
    assert choose([0.80, 0.77, 0.75, 0.70], [0.9, 0.5, 0.1, 0.0]) == 1
    assert choose([0.80, 0.77, 0.76, 0.70], [0.9, 0.5, 0.1, 0.0]) == 2  # .76 = .95 * .80


def test_gamma_one_and_zero():
    scores, rho = [0.8, 0.5, 0.8, 0.6], [0.9, 0.2, 0.8, 0.2]
    assert choose(scores, rho, gamma=1) == 2
    assert choose(scores, rho, gamma=0) == 3  # lowest rho, the score breaks the tie


def test_gamma_zero_keeps_every_candidate_of_negative_scores():
    assert choose([-1.0, -50.0], [0.5, 0.1], gamma=0) == 1
    assert choose([0.4, -0.2], [0.5, 0.1], gamma=0) == 1


def test_negative_scores_have_a_threshold_below_the_best():
    scores, rho = [-1.0, -1.04, -1.06], [0.5, 0.2, 0.1]
    assert choose(scores, rho) == 1
    assert choose(scores, rho, gamma=0.9) == 2
    assert choose(scores, rho, gamma=1) == 0


def test_ties_in_reliance_go_to_the_higher_score_then_to_the_first():
    assert choose([0.78, 0.80, 0.79], [0.1, 0.1, 0.1]) == 1
    assert choose([0.80, 0.80, 0.80], [0.2, 0.1, 0.1]) == 1


def test_nan_candidates_are_skipped():
    assert choose([NAN, 0.80, 0.79], [0.0, 0.5, 0.4]) == 2
    assert choose([0.99, 0.80, 0.79], [NAN, 0.5, 0.4]) == 2
    assert choose([NAN, 0.5], [0.0, 0.5], gamma=0) == 1
    with pytest.raises(ValueError, match="no candidate with both scores: each of the 2"):
        choose([NAN, 0.8], [0.1, NAN])


@pytest.mark.parametrize("gamma", [-0.1, 1.1, NAN, "0.5", None])
def test_gamma_is_checked(gamma):
    with pytest.raises(ValueError, match=r"gamma must be a number in \[0, 1\], got"):
        TradeoffRefit("auc", "rho", gamma=gamma)


def test_unknown_keys_are_named():
    results = {"mean_test_auc": [0.5], "mean_test_rho": [-0.5]}
    with pytest.raises(
        ValueError, match=r"reliance must be a key of scoring, one of \['auc', 'rho'\]"
    ):
        TradeoffRefit("auc", "reliance")(results)
    with pytest.raises(ValueError, match=r"score must be a key .* got 'accuracy'"):
        TradeoffRefit("accuracy", "rho")(results)


def test_pickle_repr_and_equality():
    refit = TradeoffRefit("auc", "rho", gamma=0.9)
    restored = pickle.loads(pickle.dumps(refit))
    assert restored == refit
    assert hash(restored) == hash(refit)
    assert refit != TradeoffRefit("auc", "rho")
    assert repr(refit) == "TradeoffRefit('auc', 'rho', gamma=0.9)"


@pytest.mark.filterwarnings("ignore:The total space of parameters")
@pytest.mark.parametrize("kind", [GridSearchCV, RandomizedSearchCV])
def test_in_a_search(kind):
    X, y = make_contextual_missingness(600, random_state=0)
    pipeline = make_pipeline(SimpleImputer(), DecisionTreeClassifier(random_state=0))
    grid = {
        "decisiontreeclassifier__max_depth": [1, 3],
        "decisiontreeclassifier__max_features": [1, 2, 3],
    }
    scoring = {"auc": "roc_auc", "rho": missingness_reliance_scorer}
    search = kind(pipeline, grid, scoring=scoring, refit=TradeoffRefit("auc", "rho", 0.8), cv=3)
    search = clone(search).fit(X, y)
    auc, rho = (search.cv_results_[f"mean_test_{key}"] for key in ("auc", "rho"))
    good = np.flatnonzero(auc >= 0.8 * auc.max())
    assert len(good) > 1
    assert rho[search.best_index_] == rho[good].max()
    assert search.best_index_ in good
    restored = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(restored.predict(X), search.predict(X))
    assert restored.refit == search.refit
    assert missingness_reliance(search, X) == missingness_reliance(search.best_estimator_, X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_failed_candidates_do_not_win():
    X, y = make_contextual_missingness(300, random_state=0)
    tree = DecisionTreeClassifier(random_state=0)
    scoring = {"auc": "roc_auc", "rho": missingness_reliance_scorer}
    search = GridSearchCV(
        tree, {"max_depth": [-3, 2]}, scoring=scoring, refit=TradeoffRefit("auc", "rho"), cv=2
    )
    search.fit(X, y)
    assert search.best_params_ == {"max_depth": 2}
