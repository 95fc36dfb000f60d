"""The numbered oracles of missingness-avoiding learning that concern forests."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.impute import SimpleImputer

from skml.metrics import missingness_reliance
from tests.ensemble._forest_problems import (
    FORESTS,
    PLAIN,
    is_classifier,
    outputs,
    random_problem,
)
from tests.tree._reference_tree import walk
from tests.tree._workflows import (
    assert_same_nodes,
    assert_search_picks_the_least_reliant_good_price,
    fit_with_routed_mask,
)


@pytest.mark.parametrize("scope", ["node", "feature", "row"])
@pytest.mark.parametrize("Forest", FORESTS)
def test_oracle_03_alpha_zero_is_the_plain_forest(Forest, scope):
    """Even the samples agree: both draw them from the seed of the tree."""
    X, _, y = random_problem(0, Forest, n=1500)
    imputed = SimpleImputer().fit_transform(X)
    # Jitter unties the imputed values, large leaves the gains: those of few rows, which are
    # ratios of small integers in a classifier, do tie.
    imputed += 1e-4 * np.random.default_rng(0).normal(size=imputed.shape)
    limits = {"n_estimators": 10, "max_depth": 4, "min_samples_leaf": 40, "random_state": 0}
    plain = PLAIN[Forest](max_features=None, **limits).fit(imputed, y)
    zero = Forest(alpha=0, penalty_scope=scope, **limits)
    zero.fit(imputed, y, missing_mask=np.isnan(X))
    assert_allclose(outputs(zero, imputed), outputs(plain, imputed), rtol=1e-10)
    assert_allclose(zero.feature_importances_, plain.feature_importances_, rtol=1e-6)
    for alpha in (0.1, 3.0):
        observed = Forest(alpha=alpha, penalty_scope=scope, **limits).fit(imputed, y)
        assert_array_equal(outputs(observed, imputed), outputs(zero, imputed))
        assert observed.missingness_reliance_ == 0.0


@pytest.mark.parametrize("Forest", FORESTS)
def test_oracle_03_all_cells_missing_makes_every_feature_equally_dear(Forest):
    X, _, y = random_problem(1, Forest, missing=0)
    limits = {"n_estimators": 5, "max_depth": 4, "min_samples_leaf": 10, "random_state": 0}
    zero = Forest(alpha=0, **limits).fit(X, y)
    dear = Forest(alpha=2, **limits).fit(X, y, missing_mask=np.ones(X.shape, dtype=bool))
    assert_array_equal(outputs(dear, X), outputs(zero, X))
    assert dear.missingness_reliance_ == 1.0


@pytest.mark.parametrize("imputer", ["mean", "median", "native"])
@pytest.mark.parametrize("Forest", FORESTS)
def test_oracle_05_integer_weights_are_repeated_rows(Forest, imputer):
    """Exactly so without a bootstrap; the draws are at random otherwise."""
    X, _, y = random_problem(5, Forest, n=200)
    times = np.random.default_rng(5).integers(0, 4, size=200)
    params = {
        "n_estimators": 3,
        "bootstrap": False,
        "max_depth": 3,
        "imputer": imputer,
        "random_state": 0,
    }
    weighted = Forest(**params).fit(X, y, sample_weight=times)
    repeated = Forest(**params).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(outputs(weighted, X), outputs(repeated, X), atol=1e-12)
    assert weighted.missingness_reliance_ == pytest.approx(repeated.missingness_reliance_)
    assert_allclose(weighted.feature_missing_rate_, repeated.feature_missing_rate_, atol=1e-12)


@pytest.mark.parametrize("Forest", FORESTS)
def test_oracle_05_weights_equal_repeated_rows_in_the_mean(Forest):
    """With a bootstrap: how often a row is drawn, over many trees, follows its weight."""
    X, _, y = random_problem(6, Forest, n=40)
    times = np.random.default_rng(6).integers(0, 5, size=40)
    forest = Forest(400, max_depth=1, random_state=0).fit(X, y, sample_weight=times)
    drawn = np.bincount(np.concatenate(forest.estimators_samples_), minlength=40)
    expected = drawn.sum() * times / times.sum()
    assert not drawn[times == 0].any()
    # The counts are Poisson to a good approximation: five standard deviations.
    assert np.all(np.abs(drawn - expected) <= 5 * np.sqrt(expected))


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("Forest", FORESTS)
def test_oracle_06_reliance_is_the_union_of_the_paths(Forest, alpha):
    X, mask, y = random_problem(7, Forest, n=150)
    imputed = SimpleImputer().fit_transform(X)
    forest = Forest(6, max_depth=4, alpha=alpha, random_state=0).fit(X, y)
    per_tree = np.zeros((6, *X.shape), dtype=bool)
    for t, member in enumerate(forest.estimators_):
        for i, row in enumerate(imputed):
            read = member.tree_.feature[walk(member.tree_, row)[:-1]]
            per_tree[t, i, read] = mask[i, read]
    cells = per_tree.any(axis=0)
    assert_array_equal(forest.missingness_reliance(X), cells)
    assert_array_equal(forest.missingness_reliance(X, reduce=True), cells.any(axis=1))
    rho = cells.any(axis=1).mean()
    assert forest.missingness_reliance_ == pytest.approx(rho)
    assert missingness_reliance(forest, X) == pytest.approx(rho)

    by_tree = [missingness_reliance(member, X) for member in forest.estimators_]
    assert_allclose(by_tree, per_tree.any(axis=2).mean(axis=1))
    assert max(by_tree) <= rho + 1e-12
    assert rho <= min(sum(by_tree), mask.any(axis=1).mean()) + 1e-12

    indicator, start = forest.decision_path(X)
    tested = np.zeros(X.shape, dtype=bool)
    for t, member in enumerate(forest.estimators_):
        visited = indicator[:, start[t] : start[t + 1]].toarray().astype(bool)
        for node in np.flatnonzero(member.tree_.feature >= 0):
            tested[visited[:, node], member.tree_.feature[node]] = True
    assert_array_equal(tested & mask, cells)

    pruned = clone(forest).set_params(ccp_alpha=0.02).fit(X, y)
    assert sum(pruned.estimators_[t].get_n_leaves() for t in range(6)) < sum(
        forest.estimators_[t].get_n_leaves() for t in range(6)
    )
    assert not (pruned.missingness_reliance(X) & ~cells).any()


@pytest.mark.parametrize("Forest", FORESTS)
def test_oracle_07_stop_on_net_loss(Forest):
    X, _, y = random_problem(8, Forest, missing=0)
    everything = np.ones(X.shape, dtype=bool)
    params = {"n_estimators": 4, "max_depth": 3, "alpha": 5, "random_state": 0}
    stopped = Forest(stop_on_net_loss=True, **params).fit(X, y, missing_mask=everything)
    assert all(member.tree_.node_count == 1 for member in stopped.estimators_)
    assert stopped.missingness_reliance_ == 0.0
    assert_array_equal(stopped.feature_importances_, 0.0)
    grown = Forest(**params).fit(X, y, missing_mask=everything)
    plain = Forest(**{**params, "alpha": 0}).fit(X, y)
    assert_array_equal(outputs(grown, X), outputs(plain, X))


@pytest.mark.parametrize("Forest", FORESTS)
def test_oracle_12_pipeline_search_clone_and_pickle(Forest):
    X, _, y = random_problem(13, Forest, n=300)
    y = (y > 0).astype(int) if is_classifier(Forest) else y
    forest = Forest(10, max_depth=4, random_state=0)
    assert_search_picks_the_least_reliant_good_price(forest, X, y, [0.0, 0.05, 1.0])


@pytest.mark.parametrize("Forest", FORESTS)
def test_oracle_12_routed_mask_equals_nan_in_X(Forest):
    X, mask, y = random_problem(14, Forest)
    forest = Forest(5, max_depth=4, alpha=0.1, random_state=0)
    routed, by_nan = fit_with_routed_mask(forest, X, mask, y)
    for one, other in zip(routed[-1].estimators_, by_nan.estimators_, strict=True):
        assert_same_nodes(one.tree_, other.tree_)
