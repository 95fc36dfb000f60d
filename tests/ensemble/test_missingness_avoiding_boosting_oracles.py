"""The numbered oracles of missingness-avoiding learning, for gradient boosting."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.impute import SimpleImputer

from skml.ensemble import MAGradientBoostingClassifier, MAGradientBoostingRegressor
from skml.metrics import missingness_reliance
from tests.ensemble._boosting_problems import (
    BOOSTERS,
    ENGINES,
    assert_every_stage_follows_the_definition,
    imputed,
    random_problem,
)
from tests.tree._reference_tree import cells_read_by
from tests.tree._workflows import (
    assert_search_picks_the_least_reliant_good_price,
    fit_with_routed_mask,
)

both_engines = pytest.mark.parametrize("max_bins", ENGINES, ids=["exact", "histogram"])
both_tasks = pytest.mark.parametrize("Booster", BOOSTERS)


@both_engines
@pytest.mark.parametrize(
    ("Booster", "params", "flip"),
    [
        # The gradient of the first stage is y - 1/2, with variance 1/4; x1 leaves .1 of it.
        (MAGradientBoostingClassifier, {}, 0.2),
        (MAGradientBoostingRegressor, {"alpha_scale": "absolute"}, 0.2),
        (MAGradientBoostingRegressor, {}, 0.8),
    ],
)
def test_oracle_01_flip_point(Booster, params, flip, max_bins):
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    X = np.column_stack([y, [0, 0, 0, 0, 0, 1, 1, 1]]).astype(float)
    mask = np.zeros((8, 2), dtype=bool)
    mask[[0, 1, 4, 5], 0] = True
    # Edges come from observed values; here both values of x0 are observed as well.
    for alpha, feature, rho in [(flip - 0.01, 0, 0.5), (flip + 0.01, 1, 0.0)]:
        model = Booster(n_estimators=1, max_depth=1, alpha=alpha, max_bins=max_bins, **params)
        model.fit(X, y, missing_mask=mask)
        assert model.estimators_[0, 0].tree_.feature[0] == feature
        assert model.missingness_reliance_ == pytest.approx(rho)
        assert missingness_reliance(model, X, missing_mask=mask) == pytest.approx(rho)


@both_engines
@pytest.mark.parametrize(
    ("Booster", "flip"),
    # The first gradient has variance 3/16, all of which b gains and a third of which a gains;
    # half the rows miss b.
    [(MAGradientBoostingClassifier, 1 / 4), (MAGradientBoostingRegressor, 4 / 3)],
)
def test_oracle_02_context(Booster, flip, max_bins):
    a = np.repeat([0.0, 1.0], 200)
    b = np.tile([0.0, 1.0], 200)
    y = (a * b).astype(int)
    X = np.column_stack([a, np.where(a == 0, np.nan, b)])
    params = {"n_estimators": 30, "max_depth": 2, "learning_rate": 0.5, "max_bins": max_bins}
    cheap = Booster(alpha=flip - 0.01, **params).fit(X, y)
    assert cheap.estimators_[0, 0].tree_.feature[0] == 1
    assert cheap.missingness_reliance_ == missingness_reliance(cheap, X) == 0.5
    dear = Booster(alpha=flip + 0.01, **params).fit(X, y)
    assert all(e.tree_.feature[0] == 0 for e in dear.estimators_.ravel())
    assert dear.missingness_reliance_ == missingness_reliance(dear, X) == 0.0
    for model in (cheap, dear):
        assert_array_equal(model.predict(X) > 0.5, y == 1)


@both_engines
@both_tasks
def test_oracle_03_nothing_missing_or_everything(Booster, max_bins):
    X, _, y, w = random_problem(3, Booster, missing=0)
    params = {"n_estimators": 10, "max_bins": max_bins, "random_state": 0}
    zero = Booster(alpha=0, **params).fit(X, y, w)
    for mask in (None, np.ones(X.shape, dtype=bool)):
        dear = Booster(alpha=0.7, penalty_scope="node", **params)
        if max_bins is None or mask is None:
            dear.fit(X, y, w, missing_mask=mask)
            assert_array_equal(dear.predict(X), zero.predict(X))


@both_engines
@pytest.mark.parametrize("scope", ["node", "feature", "row"])
@pytest.mark.parametrize(
    ("Booster", "n_classes"),
    [
        (MAGradientBoostingClassifier, 2),
        (MAGradientBoostingClassifier, 3),
        (MAGradientBoostingRegressor, 0),
    ],
)
def test_oracle_04_brute_force(Booster, n_classes, scope, max_bins):
    for seed in range(3):
        # Without an imputed value among them the grid's cuts are those of the bins.
        X, mask, y, w = random_problem(seed, Booster, 40, 4, 0.6, n_classes, grid=4)
        filled = np.where(mask, 0.0, X)
        params = {} if n_classes else {"alpha_scale": "absolute"}
        model = Booster(
            n_estimators=4,
            max_depth=2,
            learning_rate=0.3,
            alpha=0.05,
            penalty_scope=scope,
            max_bins=max_bins,
            imputer="zero",
            random_state=seed,
            **params,
        ).fit(X, y, w)
        assert_every_stage_follows_the_definition(
            model, filled.astype(np.float32), mask, y, w, alpha=0.05
        )


@both_engines
@both_tasks
def test_oracle_05_weights_are_repeated_rows(Booster, max_bins):
    for seed, loss in enumerate(["squared_error", "absolute_error", "quantile"]):
        params = {} if Booster is MAGradientBoostingClassifier else {"loss": loss}
        X, _, y, _ = random_problem(seed, Booster, grid=8)
        times = np.random.default_rng(seed).integers(0, 4, size=len(X))
        model = Booster(n_estimators=15, max_bins=max_bins, random_state=0, **params)
        weighted = clone(model).fit(X, y, sample_weight=times)
        repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)
        assert_allclose(weighted.train_score_, repeated.train_score_, atol=1e-6)
        assert weighted.missingness_reliance_ == pytest.approx(repeated.missingness_reliance_)
        assert_allclose(weighted.feature_missing_rate_, repeated.feature_missing_rate_)


@both_engines
@both_tasks
def test_oracle_06_reliance_is_the_union_over_trees(Booster, max_bins):
    X, mask, y, w = random_problem(6, Booster, n_classes=3)
    model = Booster(n_estimators=8, alpha=0.02, max_bins=max_bins).fit(X, y, w)
    cells = [cells_read_by(e.tree_, imputed_by(model, X), mask) for e in model.estimators_.ravel()]
    union = np.any(cells, axis=0)
    assert_array_equal(model.missingness_reliance(X), union)
    assert_array_equal(model.missingness_reliance(X, reduce=True), union.any(axis=1))
    rho = np.average(union.any(axis=1), weights=w)
    assert model.missingness_reliance_ == pytest.approx(rho)
    assert missingness_reliance(model, X, sample_weight=w) == pytest.approx(rho)
    per_tree = [np.average(c.any(axis=1), weights=w) for c in cells]
    assert max(per_tree) < rho < sum(per_tree)
    assert rho <= np.average(mask.any(axis=1), weights=w)


@both_engines
@both_tasks
def test_oracle_06_pruning_does_not_raise_reliance(Booster, max_bins):
    X, mask, y, _ = random_problem(16, Booster)
    # One stage: later ones would see other gradients.
    params = {"n_estimators": 1, "max_depth": 6, "alpha": 0.01, "max_bins": max_bins}
    params["random_state"] = 0
    last, sizes = 1.0, []
    for ccp_alpha in (0.0, 0.003, 0.01, 0.03, 10.0):
        model = Booster(ccp_alpha=ccp_alpha, **params).fit(X, y)
        assert model.missingness_reliance_ <= last
        tree = model.estimators_[0, 0].tree_
        read = cells_read_by(tree, imputed_by(model, X), mask)
        assert model.missingness_reliance_ == pytest.approx(read.any(axis=1).mean())
        last = model.missingness_reliance_
        sizes.append(tree.node_count)
    assert sizes[-1] == 1
    assert sizes[0] > sizes[2]
    assert last == 0.0


def imputed_by(model, X):
    return np.where(np.isnan(X), model.imputer_.statistics_, X).astype(np.float32)


@both_engines
@both_tasks
def test_oracle_07_stop_on_net_loss(Booster, max_bins):
    X, _, y, _ = random_problem(7, Booster, missing=0, grid=8)
    everything = np.ones(X.shape, dtype=bool)
    everything[:30] = False
    params = {"n_estimators": 5, "max_bins": max_bins, "random_state": 0}
    stopped = Booster(alpha=5, stop_on_net_loss=True, **params)
    stopped.fit(X, y, missing_mask=everything)
    assert all(e.tree_.node_count == 1 for e in stopped.estimators_.ravel())
    assert stopped.missingness_reliance_ == 0.0
    assert len(np.unique(stopped.predict(X))) == 1
    grown = Booster(alpha=5, **params).fit(X, y, missing_mask=everything)
    assert all(e.tree_.node_count > 1 for e in grown.estimators_.ravel())


@both_engines
def test_oracle_09_what_was_read_is_free_for_later_trees(max_bins):
    """Two stumps: the second asks for the same missing feature, unless it has to pay again."""
    rng = np.random.default_rng(0)
    x0 = np.repeat([0.0, 1.0], 100)
    x1 = np.where(rng.random(200) < 0.25, 1 - x0, x0)
    X, y = np.column_stack([x0, x1]), x0
    mask = np.zeros(X.shape, dtype=bool)
    mask[::2, 0] = True
    params = {
        "n_estimators": 2,
        "max_depth": 1,
        "alpha": 0.3,
        "alpha_scale": "absolute",
        "learning_rate": 0.5,
        "max_bins": max_bins,
    }
    # The first gradient has variance 1/4: x0 gains all of it for .5 alpha, x1 a quarter; the
    # second has 1/16, which is less than .15.
    asked = {}
    for scope in ("node", "feature", "row"):
        model = MAGradientBoostingRegressor(penalty_scope=scope, **params)
        model.fit(X, y, missing_mask=mask)
        asked[scope] = [e.tree_.feature[0] for e in model.estimators_[:, 0]]
    assert asked == {"node": [0, 1], "feature": [0, 0], "row": [0, 0]}


@both_engines
@pytest.mark.parametrize("subsample", [1.0, 0.4])
def test_oracle_09_sigma_falls_after_every_tree_and_on_every_row(subsample, max_bins):
    """Also between the trees of one stage, and for rows outside the subsample."""
    X, mask, y, w = random_problem(9, MAGradientBoostingClassifier, 400, 5, 0.5, n_classes=3)
    model = MAGradientBoostingClassifier(
        n_estimators=6, alpha=0.01, subsample=subsample, max_bins=max_bins, random_state=0
    )
    engines = []
    make = model._make_engine
    model._make_engine = lambda rows: engines.append(make(rows)) or engines[0]
    model.fit(X, y, w)
    engine = engines[0]
    read = np.zeros(mask.shape, dtype=bool)
    for estimator in model.estimators_.ravel():
        read |= cells_read_by(estimator.tree_, imputed_by(model, X), mask)
    charged = engine.priced
    if max_bins is not None:
        charged = np.unpackbits(charged, axis=0, bitorder="little")[: (engine.mask_row >= 0).sum()]
    assert_array_equal(charged.T.astype(bool), (mask & ~read)[:, mask.any(axis=0)])
    assert_array_equal(engine.relied == 1, read.any(axis=1))


@both_engines
@both_tasks
@pytest.mark.parametrize("scope", ["node", "feature", "row"])
def test_oracle_09_warm_start_goes_on_as_if_fitted_at_once(Booster, scope, max_bins):
    X, _, y, w = random_problem(19, Booster, n_classes=3)
    params = {"penalty_scope": scope, "alpha": 0.05, "max_bins": max_bins, "subsample": 0.7}
    params["random_state"] = 0
    at_once = Booster(n_estimators=20, **params).fit(X, y, w)
    twice = Booster(n_estimators=10, warm_start=True, **params).fit(X, y, w)
    first = twice.estimators_
    twice.set_params(n_estimators=20).fit(X, y, w)
    assert_array_equal(twice.predict(X), at_once.predict(X))
    assert_array_equal(twice.train_score_, at_once.train_score_)
    assert twice.missingness_reliance_ == at_once.missingness_reliance_
    assert all(a is b for a, b in zip(first.ravel(), twice.estimators_.ravel(), strict=False))


@both_engines
@both_tasks
def test_oracle_09_early_stopping_without_a_seed(Booster, max_bins):
    X, _, y, w = random_problem(29, Booster, 400)
    model = Booster(n_estimators=300, n_iter_no_change=3, learning_rate=0.5, max_bins=max_bins).fit(
        X, y, w
    )
    assert model.n_estimators_ < 300
    assert model.n_estimators_ == len(model.estimators_) == len(model.train_score_)
    # The last three losses are no better than the best before them.
    scores = model.validation_score_
    assert len(scores) == model.n_estimators_
    assert scores[-1] + model.tol >= scores[:-1].min()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("Ours", "Theirs", "n_classes"),
    [
        (MAGradientBoostingClassifier, GradientBoostingClassifier, 2),
        (MAGradientBoostingClassifier, GradientBoostingClassifier, 4),
        (MAGradientBoostingRegressor, GradientBoostingRegressor, 0),
    ],
)
def test_oracle_10_alpha_zero_is_gradient_boosting(Ours, Theirs, n_classes, weighted):
    X, _, y, w = random_problem(10, Ours, 1000, 6, 0.3, n_classes)
    filled = SimpleImputer().fit_transform(X)
    filled += 1e-3 * np.random.default_rng(0).normal(size=X.shape)
    filled = filled.astype(np.float32).astype(np.float64)
    w = w if weighted else None
    params = {"n_estimators": 20, "max_depth": 3, "min_samples_leaf": 5, "random_state": 0}
    ours = Ours(alpha=0, **params).fit(filled, y, w, missing_mask=np.isnan(X))
    theirs = Theirs(**params).fit(filled, y, w)
    assert_allclose(ours.train_score_, theirs.train_score_, atol=1e-6)
    if w is None:
        # Weighted, scikit-learn splits pure nodes whose impurity comes out as 5e-16.
        assert_array_equal(ours.apply(filled).ravel(), theirs.apply(filled).ravel())
    assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-6)
    if n_classes == 0:
        assert_allclose(ours.predict(filled), theirs.predict(filled), atol=1e-6)
        return
    assert_allclose(ours.decision_function(filled), theirs.decision_function(filled), atol=1e-6)
    assert_allclose(ours.predict_proba(filled), theirs.predict_proba(filled), atol=1e-6)


@both_engines
@pytest.mark.parametrize("c", [4.0, 3.0, 1e-3])
def test_oracle_11_scale_of_the_target(c, max_bins):
    X, _, y, _ = random_problem(11, MAGradientBoostingRegressor)
    params = {"n_estimators": 5, "max_bins": max_bins, "random_state": 0}
    absolute = {"alpha_scale": "absolute", **params}
    pairs = [
        (
            MAGradientBoostingRegressor(alpha=0.2, **params).fit(X, y),
            MAGradientBoostingRegressor(alpha=0.2, **params).fit(X, c * y),
        ),
        (
            MAGradientBoostingRegressor(alpha=0.2, **absolute).fit(X, y),
            MAGradientBoostingRegressor(alpha=0.2 * c**2, **absolute).fit(X, c * y),
        ),
    ]
    for one, other in pairs:
        assert_array_equal(one.apply(X), other.apply(X))
        assert_allclose(c * one.predict(X), other.predict(X), rtol=1e-6, atol=1e-9)
    fixed = MAGradientBoostingRegressor(alpha=0.2, **absolute).fit(X, c * y)
    assert not np.array_equal(fixed.apply(X), pairs[1][0].apply(X))


@both_engines
@both_tasks
def test_oracle_11_column_order_does_not_matter(Booster, max_bins):
    X, _, y, w = random_problem(12, Booster, 600)
    order = np.array([3, 0, 4, 2, 1])
    params = {"n_estimators": 10, "min_samples_leaf": 10, "alpha": 0.05, "random_state": 0}
    straight = Booster(max_bins=max_bins, **params).fit(X, y, w)
    permuted = Booster(max_bins=max_bins, **params).fit(X[:, order], y, w)
    assert permuted.missingness_reliance_ == pytest.approx(straight.missingness_reliance_)
    cells = straight.missingness_reliance(X)
    assert cells.any()
    assert_array_equal(permuted.missingness_reliance(X[:, order]), cells[:, order])


@both_tasks
def test_oracle_12_pipeline_search_clone_and_pickle(Booster):
    X, _, y, _ = random_problem(13, Booster, 400)
    booster = Booster(n_estimators=10, random_state=0)
    assert_search_picks_the_least_reliant_good_price(booster, X, y, [0.0, 0.02, 0.1, 1.0])


@both_engines
@both_tasks
def test_oracle_12_routed_mask_equals_nan_in_X(Booster, max_bins):
    X, mask, y, _ = random_problem(14, Booster)
    booster = Booster(n_estimators=8, alpha=0.1, max_bins=max_bins, random_state=0)
    routed, by_nan = fit_with_routed_mask(booster, X, mask, y)
    assert_array_equal(routed[-1].apply(imputed(X)), by_nan.apply(X))
