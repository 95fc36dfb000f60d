"""What trees, forests and boosting must all do inside scikit-learn's own tools."""

import pickle

import numpy as np
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skml.metrics import missingness_reliance, missingness_reliance_scorer
from skml.model_selection import TradeoffRefit


def assert_search_picks_the_least_reliant_good_price(learner, X, y, alphas):
    """A search picks the least reliant of the near-best prices; its model can be copied.

    The first of `alphas` is the one that must rely most. A classifier needs two classes in y.
    """
    score = "roc_auc" if is_classifier(learner) else "neg_mean_squared_error"
    search = GridSearchCV(
        make_pipeline(StandardScaler(), learner),
        {f"{type(learner).__name__.lower()}__alpha": alphas},
        scoring={"score": score, "reliance": missingness_reliance_scorer},
        refit=TradeoffRefit("score", "reliance", gamma=0.9),
        cv=3,
    ).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    rhos = -search.cv_results_["mean_test_reliance"]
    kept = np.flatnonzero(scores >= scores.max() - 0.1 * abs(scores.max()))
    assert rhos[search.best_index_] == rhos[kept].min()
    assert rhos[0] > rhos[-1]
    copy = pickle.loads(pickle.dumps(search))
    assert_array_equal(copy.predict(X), search.predict(X))
    again = clone(search.best_estimator_).fit(X, y)
    assert_array_equal(again.predict(X), search.predict(X))
    assert missingness_reliance(again, X) == missingness_reliance(search.best_estimator_, X)


def fit_with_routed_mask(learner, X, mask, y):
    """Fit behind an imputer in a pipeline, the mask being routed; compare with NaN in X.

    Returns
    -------
    routed : Pipeline
        The fitted pipeline, whose last step is a clone of the learner.
    by_nan : estimator
        A clone that saw the NaN.
    """
    by_nan = clone(learner).fit(X, y)
    with config_context(enable_metadata_routing=True):
        last = clone(learner)
        last.set_fit_request(missing_mask=True).set_score_request(missing_mask=True)
        routed = Pipeline([("impute", SimpleImputer()), ("learner", last)])
        routed.fit(X, y, missing_mask=mask)
        assert routed.score(X, y, missing_mask=mask) == by_nan.score(X, y)
    assert_array_equal(routed.predict(X), by_nan.predict(X))
    assert routed[-1].missingness_reliance_ == by_nan.missingness_reliance_ > 0
    return routed, by_nan


def assert_same_nodes(tree, other):
    """Two fitted ``tree_`` have the same splits and values."""
    for name in ("feature", "threshold", "value", "n_node_samples"):
        assert_array_equal(getattr(tree, name), getattr(other, name))
