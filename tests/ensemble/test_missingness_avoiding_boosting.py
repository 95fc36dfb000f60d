"""What a sceptic would ask of missingness-avoiding boosting."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import KNNImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, mean_pinball_loss
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor, export_text
from sklearn.utils._param_validation import InvalidParameterError
from threadpoolctl import threadpool_limits

from skml.datasets import make_contextual_missingness
from skml.ensemble import MAGradientBoostingClassifier, MAGradientBoostingRegressor
from skml.ensemble._binning import bin_edges
from skml.ensemble._binning_kernels import bin_columns, pack_bits, release_bits
from skml.ensemble._boosting_losses import _quantiles
from skml.ensemble._hist_builder import grow_binned
from skml.tree._builder import NODE_FIELDS
from tests.ensemble._boosting_problems import BOOSTERS, ENGINES, SCOPES, random_problem
from tests.tree._reference_tree import children_impurity, price_of

both_engines = pytest.mark.parametrize("max_bins", ENGINES, ids=["exact", "histogram"])
both_tasks = pytest.mark.parametrize("Booster", BOOSTERS)


# ----- the two engines ---------------------------------------------------------------------


@pytest.mark.parametrize("imputer", ["zero", "native"])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("alpha", [0.0, 0.05, 1.0])
@pytest.mark.parametrize(
    ("Booster", "n_classes"), [(BOOSTERS[0], 2), (BOOSTERS[0], 3), (BOOSTERS[1], 0)]
)
def test_engines_agree_where_every_value_has_its_bin(Booster, n_classes, alpha, scope, imputer):
    X, _, y, w = random_problem(1, Booster, 500, 6, 0.5, n_classes, grid=6)
    params = {"n_estimators": 10, "alpha": alpha, "penalty_scope": scope, "imputer": imputer}
    params["random_state"] = 0
    exact = Booster(**params).fit(X, y, w)
    binned = Booster(max_bins=255, **params).fit(X, y, w)
    assert_allclose(binned.train_score_, exact.train_score_, rtol=1e-6)
    assert binned.missingness_reliance_ == pytest.approx(exact.missingness_reliance_)
    # Two features that part the rows alike tie exactly; in float32 sums they tie nearly.
    differ = binned.missingness_reliance(X) != exact.missingness_reliance(X)
    assert differ.mean() < 0.002


@both_tasks
def test_limits_mean_the_same_in_both_engines(Booster):
    X, _, y, w = random_problem(2, Booster, 400, grid=6)
    settings_of_trees = [
        {"max_depth": None, "max_leaf_nodes": 6},
        {"min_samples_leaf": 25},
        {"min_samples_split": 0.4, "max_depth": None},
        {"min_weight_fraction_leaf": 0.2},
        {"min_impurity_decrease": 0.004},
        {"ccp_alpha": 0.004, "max_depth": 6},
        {"max_features": 2},
        {"stop_on_net_loss": True, "alpha": 0.15},
    ]
    seen = []
    for params in settings_of_trees:
        params = {"n_estimators": 5, "imputer": "zero", "random_state": 0, "alpha": 0.02, **params}
        exact = Booster(**params).fit(X, y, w)
        binned = Booster(max_bins=255, **params).fit(X, y, w)
        assert_allclose(binned.train_score_, exact.train_score_, rtol=1e-6)
        seen.append(exact.train_score_[-1])
        for estimator in binned.estimators_.ravel():
            tree = estimator.tree_
            leaf = tree.children_left == -1
            assert tree.n_node_samples[leaf].min() >= params.get("min_samples_leaf", 1)
            assert leaf.sum() <= (params.get("max_leaf_nodes") or 1000)
    assert len(np.unique(np.round(seen, 9))) == len(seen)


def test_few_bins_cost_little_and_are_kept_to():
    X, y = load_diabetes(return_X_y=True)
    for max_bins in (2, 7, 32):
        model = MAGradientBoostingRegressor(max_bins=max_bins, n_estimators=20).fit(X, y)
        thresholds = [set() for _ in range(X.shape[1])]
        for estimator in model.estimators_.ravel():
            tree = estimator.tree_
            for j, threshold in zip(tree.feature, tree.threshold, strict=True):
                if j >= 0:
                    thresholds[j].add(threshold)
        assert max(len(cuts) for cuts in thresholds) <= max_bins - 1
    exact = MAGradientBoostingRegressor(n_estimators=20).fit(X, y)
    assert model.score(X, y) > exact.score(X, y) - 0.03


@both_engines
@both_tasks
def test_threads_do_not_change_the_model(Booster, max_bins):
    X, _, y, w = random_problem(3, Booster, 40_000, 9, 0.4, n_classes=3)
    fitted = []
    for n_threads in (1, 2, 3):
        with threadpool_limits(n_threads):
            model = Booster(n_estimators=3, max_bins=max_bins, subsample=0.9, random_state=0)
            fitted.append(model.fit(X, y, w))
            predicted = model.predict(X)
        assert_array_equal(predicted, fitted[0].predict(X))
        assert_array_equal(model.train_score_, fitted[0].train_score_)
        assert_array_equal(model.apply(X[:1000]), fitted[0].apply(X[:1000]))
        assert model.missingness_reliance_ == fitted[0].missingness_reliance_


@both_engines
@both_tasks
def test_training_predictions_are_those_of_predict(Booster, max_bins):
    """Leaves told by the growing and leaves told by thresholds are the same ones."""
    X, _, y, w = random_problem(4, Booster, 700)
    X[:, 0] *= 1e-3
    X[:, 1] = 1e8 + X[:, 1] * 100
    for imputer in ("mean", "median", "native", KNNImputer()):
        model = Booster(n_estimators=10, max_bins=max_bins, imputer=imputer).fit(X, y, w)
        if Booster is MAGradientBoostingRegressor:
            loss = np.average((y - model.predict(X)) ** 2, weights=w)
        else:
            loss = 2 * log_loss(y, model.predict_proba(X), sample_weight=w)
        assert model.train_score_[-1] == pytest.approx(loss)


@pytest.mark.parametrize("n", [1, 2, 3, 17, 255, 256, 16384, 16385, 50_021])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_binned_tree_against_numpy(n, weighted):
    """Root split and its children from histograms, on adversarial sizes."""
    rng = np.random.default_rng(n)
    codes = rng.integers(0, 7, size=(9, n)).astype(np.uint8)
    mask = rng.random((n, 9)) < np.linspace(0, 0.8, 9)
    columns = np.arange(1, 9, dtype=np.int32)
    bits = pack_bits(mask.view(np.uint8), columns, 2)
    mask_row = np.array([-1, *range(8)], dtype=np.int32)
    mask[:, 0] = False
    g = rng.normal(size=n).astype(np.float32)
    w = rng.integers(1, 5, size=n).astype(float) if weighted else None
    edges = np.tile(np.append(np.arange(6) + 0.5, [np.inf, np.inf]), (9, 1))
    nodes, leaf, depth = grow_binned(
        codes, np.full(9, 7, np.int32), np.zeros(9, np.uint8), edges, bits, mask_row, g, w, None,
        alpha=0.01, stop_on_net_loss=False, max_depth=2, min_samples_split=2, min_samples_leaf=1,
        min_weight_leaf=0.0, min_impurity_decrease=0.0, max_features=9, max_leaf_nodes=-1,
        max_nodes=99, seed=0, n_threads=2,
    )  # fmt: skip
    nodes = nodes.view(NODE_FIELDS)
    w = np.ones(n) if w is None else w
    inside = [np.arange(n)]
    assert nodes["n_node_samples"][0] == n
    for node in range(len(nodes)):
        rows = inside[node]
        assert nodes["value"][node] == pytest.approx(np.average(g[rows], weights=w[rows]), abs=1e-6)
        variance = np.average(
            (g[rows] - np.average(g[rows], weights=w[rows])) ** 2, weights=w[rows]
        )
        assert nodes["impurity"][node] == pytest.approx(variance, abs=1e-6)
        if nodes["left_child"][node] < 0:
            assert_array_equal(leaf[rows], node)
            inside += []
            continue
        costs = {}
        for j in range(9):
            for b in range(6):
                left = codes[j, rows] <= b
                if 0 < left.sum() < len(rows):
                    costs[j, b] = children_impurity(
                        "squared_error", g[rows].astype(float), w[rows], left
                    ) + price_of(rows, j, w, mask, 0.01)
        j, b = nodes["feature"][node], int(nodes["threshold"][node] - 0.5)
        assert costs[j, b] == pytest.approx(min(costs.values()), abs=1e-6)
        left = codes[j, rows] <= b
        place = {nodes["left_child"][node]: rows[left], nodes["right_child"][node]: rows[~left]}
        while len(inside) <= max(place):
            inside.append(None)
        for child, its_rows in place.items():
            inside[child] = its_rows
    assert depth <= 2
    assert leaf.min() >= 0


def test_histograms_given_up_to_save_memory_are_made_again():
    """So many leaves wait that their histograms would not fit; the tree is the same."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(3000, 300)), 1)
    y = X @ rng.normal(size=300)
    params = {"n_estimators": 1, "max_depth": None, "learning_rate": 1.0, "alpha": 0}
    many = MAGradientBoostingRegressor(max_bins=255, max_leaf_nodes=900, **params).fit(X, y)
    exact = MAGradientBoostingRegressor(max_leaf_nodes=900, **params).fit(X, y)
    assert_allclose(many.train_score_, exact.train_score_, rtol=1e-5)


# ----- bins --------------------------------------------------------------------------------


def test_edges_come_from_observed_values_only():
    x = np.array([1.0, 2.0, 2.0, 4.0, np.nan, 100.0])
    mask = np.array([0, 0, 0, 0, 1, 1], dtype=bool)
    (cuts,) = bin_edges(x[:, None], mask[:, None], None, 255, seed=0)
    assert_array_equal(cuts, [1.5, 3.0])
    (none,) = bin_edges(x[:, None], np.ones((6, 1), bool), None, 255, seed=0)
    assert len(none) == 0


@pytest.mark.parametrize("max_bins", [3, 7, 11, 49, 255])
def test_shares_that_end_at_a_row_are_not_rounded_past_it(max_bins):
    # k / max_bins times the rows is whole for every k, but not in floating point.
    for m in range(2, 12):
        x = np.arange(float(max_bins * m))
        expected = np.arange(1, max_bins) * m - 0.5
        for weight in (None, np.full(len(x), 0.1)):
            (cuts,) = bin_edges(x[:, None], None, weight, max_bins, seed=0)
            assert_array_equal(cuts, expected)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_bins_are_about_equal_and_weights_are_repeated_values(data):
    n = data.draw(st.integers(1, 200))
    max_bins = data.draw(st.integers(2, 40))
    kind = st.integers(-5, 5) if data.draw(st.booleans()) else st.floats(-1e3, 1e3, width=32)
    x = np.array(data.draw(st.lists(kind, min_size=n, max_size=n)), dtype=float)
    times = np.array(data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n)))
    (cuts,) = bin_edges(x[:, None], None, times.astype(float), max_bins, seed=0)
    (repeated,) = bin_edges(np.repeat(x, times)[:, None], None, None, max_bins, seed=0)
    assert_array_equal(cuts, repeated)
    assert len(cuts) < max_bins
    assert np.all(np.diff(cuts) > 0)
    edges = np.full((1, 256), np.inf)
    edges[0, : len(cuts)] = cuts
    codes, finite = bin_columns(x[:, None], edges, np.zeros(1, np.int32), 1)
    assert finite
    assert_array_equal(codes[0], np.searchsorted(cuts, x.astype(np.float32)))
    # No bin of several values holds much more than its share.
    for code in np.unique(codes):
        inside = codes[0] == code
        distinct = np.unique(x[inside].astype(np.float32))
        heaviest = max(times[x.astype(np.float32) == v].sum() for v in distinct)
        if len(distinct) > 1 and np.diff(distinct).min() > 2e-7:
            assert times[inside].sum() <= times.sum() / max_bins + heaviest + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_binning_takes_any_layout(dtype, order):
    X = np.random.default_rng(0).normal(size=(1000, 3)).astype(dtype, order=order)
    cuts = bin_edges(X, None, None, 16, seed=0)
    edges = np.full((3, 16), np.inf)
    edges[:, :15] = cuts
    codes, _ = bin_columns(X, edges, np.zeros(3, np.int32), 2)
    for j in range(3):
        assert_array_equal(codes[j], np.searchsorted(cuts[j], X[:, j].astype(np.float32)))
        assert np.bincount(codes[j]).max() <= 1000 / 16 + 1


@pytest.mark.parametrize("m", [1, 7, 8, 9, 20])
def test_bits_of_the_mask(m):
    rng = np.random.default_rng(m)
    mask = rng.random((777, m)) < 0.4
    bits = pack_bits(mask.view(np.uint8), np.arange(m, dtype=np.int32), 2)
    assert_array_equal(np.unpackbits(bits, axis=0, bitorder="little")[:m].T == 1, mask)
    # A stump on the last column.
    leaf = rng.integers(1, 3, size=777).astype(np.int32)
    links = np.array([-1, 0, 0]), np.array([m - 1, -2, -2])
    for whole_row in (False, True):
        priced, relied = bits.copy(), np.zeros(777, np.uint8)
        release_bits(leaf, *links, np.arange(m, dtype=np.int32), bits, priced, relied, True,
                     whole_row, 2)  # fmt: skip
        expected = mask.copy()
        expected[
            mask[:, m - 1] if whole_row else slice(None), slice(None) if whole_row else m - 1
        ] = False
        assert_array_equal(np.unpackbits(priced, axis=0, bitorder="little")[:m].T == 1, expected)
        assert_array_equal(relied == 1, mask[:, m - 1])


# ----- the penalty -------------------------------------------------------------------------


@both_engines
@both_tasks
def test_reliance_falls_with_alpha_and_scopes_differ(Booster, max_bins):
    X, _, y, _ = random_problem(5, Booster, 600, 5, 0.5)
    rhos, scores = {}, {}
    for scope in SCOPES:
        params = {"n_estimators": 20, "penalty_scope": scope, "max_bins": max_bins}
        params["random_state"] = 0
        models = [Booster(alpha=a, **params).fit(X, y) for a in (0.0, 0.03, 0.1, 30.0)]
        rhos[scope] = [model.missingness_reliance_ for model in models]
        scores[scope] = [model.train_score_[-1] for model in models]
        assert rhos[scope][0] > 0.9
        assert np.all(np.diff(rhos[scope]) <= 0.02)
        assert rhos[scope][-1] < 0.6
    assert scores["node"][0] == scores["feature"][0] == scores["row"][0]
    assert len({scores[scope][1] for scope in SCOPES}) == 3
    assert scores["node"][2] != scores["feature"][2]


@both_engines
def test_contextual_missingness(max_bins):
    """A path that asks for a test only where it was taken: no weight per column finds it."""
    X, y = make_contextual_missingness(4000, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    model = MAGradientBoostingClassifier(n_estimators=40, alpha=1, max_bins=max_bins)
    complete = ~np.isnan(X).any(axis=0)
    dropped = clone(model).fit(X[:, complete], y)
    model.fit(X, y)
    assert model.missingness_reliance(X_test, reduce=True).mean() <= 0.005
    assert model.score(X_test, y_test) > dropped.score(X_test[:, complete], y_test) + 0.04


@both_engines
def test_every_loss_lowers_reliance(max_bins):
    X, _, y, _ = random_problem(6, MAGradientBoostingRegressor, 500, missing=0.5)
    for loss in ("squared_error", "absolute_error", "quantile"):
        free, dear = (
            MAGradientBoostingRegressor(
                loss=loss, alpha=alpha, n_estimators=30, max_bins=max_bins, random_state=0
            ).fit(X, y)
            for alpha in (0, 0.3)
        )
        assert dear.missingness_reliance_ < free.missingness_reliance_ - 0.3
        assert free.train_score_[-1] < dear.train_score_[-1] < dear.train_score_[0]


def test_alpha_of_sign_gradients_is_in_units_of_their_variance():
    """A binary target: signs are +1 and -1, and their variance is four times that of y."""
    y = np.array([0.0, 0, 0, 0, 1, 1, 1, 1])
    X = np.column_stack([y, [0, 0, 0, 0, 0, 1, 1, 1]])
    mask = np.zeros(X.shape, dtype=bool)
    mask[[0, 1, 4, 5], 0] = True
    for alpha, feature in [(0.79, 0), (0.81, 1)]:
        model = MAGradientBoostingRegressor(
            loss="absolute_error", n_estimators=1, max_depth=1, alpha=alpha, alpha_scale="absolute"
        ).fit(X, y, missing_mask=mask)
        assert model.estimators_[0, 0].tree_.feature[0] == feature


# ----- losses ------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_weighted_quantile_is_that_of_repeated_rows(data):
    n = data.draw(st.integers(1, 30))
    values = np.array(data.draw(st.lists(st.integers(-4, 4), min_size=n, max_size=n)), float)
    times = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    times[0] += 1
    q = data.draw(st.sampled_from([0.1, 0.25, 0.5, 0.9]))
    group = np.zeros(n, dtype=np.int32)
    (ours,) = _quantiles(values, group, 1, q, times.astype(float))
    repeated = np.repeat(values, times)
    assert ours == np.quantile(repeated, q, method="averaged_inverted_cdf")
    assert ours == _quantiles(repeated, np.zeros(len(repeated), np.int32), 1, q, None)[0]


@pytest.mark.parametrize("loss", ["absolute_error", "quantile"])
def test_leaves_of_sign_gradients_hold_quantiles_of_residuals(loss):
    X, _, y, w = random_problem(7, MAGradientBoostingRegressor)
    q = 0.5 if loss == "absolute_error" else 0.8
    model = MAGradientBoostingRegressor(
        loss=loss, quantile=0.8, n_estimators=3, alpha=0.01, learning_rate=0.5
    ).fit(X, y, w)
    raw = np.full(len(y), model.baseline_[0])
    assert np.average(y <= raw, weights=w) == pytest.approx(q, abs=0.02)
    for t, leaves in enumerate(model.apply(X).T):
        tree = model.estimators_[t, 0].tree_
        for leaf in np.unique(leaves):
            rows = leaves == leaf
            residuals = (y - raw)[rows]
            grid = np.concatenate([residuals, [tree.value[leaf, 0, 0]]])
            losses = [
                mean_pinball_loss(residuals, np.full(rows.sum(), v), sample_weight=w[rows], alpha=q)
                for v in grid
            ]
            assert losses[-1] == pytest.approx(min(losses))
        raw += 0.5 * tree.value[leaves, 0, 0]
    expected = mean_pinball_loss(y, raw, sample_weight=w, alpha=q)
    assert model.train_score_[-1] == pytest.approx(expected * (2 if q == 0.5 else 1))


def test_quantiles_cover_their_share():
    X, _, y, _ = random_problem(8, MAGradientBoostingRegressor, 1000)
    for q in (0.1, 0.5, 0.9):
        model = MAGradientBoostingRegressor(loss="quantile", quantile=q, alpha=0.05).fit(X, y)
        assert np.mean(y <= model.predict(X)) == pytest.approx(q, abs=0.03)


@both_engines
@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1.0, 1e20, 1e120])
def test_targets_of_any_unit(scale, max_bins):
    X, _, y, _ = random_problem(9, MAGradientBoostingRegressor)
    params = {"n_estimators": 5, "max_bins": max_bins, "random_state": 0}
    unit = MAGradientBoostingRegressor(**params).fit(X, y)
    scaled = MAGradientBoostingRegressor(**params).fit(X, y * scale)
    assert_allclose(scaled.predict(X) / scale, unit.predict(X), rtol=1e-5, atol=1e-7)


@both_engines
def test_a_far_away_target_keeps_its_digits(max_bins):
    """The histogram engine works in float32, relative to the mean of the gradient."""
    X, _, y, _ = random_problem(10, MAGradientBoostingRegressor)
    params = {"n_estimators": 30, "init": "zero", "learning_rate": 1.0, "max_bins": max_bins}
    model = MAGradientBoostingRegressor(alpha=0, **params).fit(X, y + 1e7)
    assert np.mean((model.predict(X) - y - 1e7) ** 2) < 0.1 * y.var()


# ----- stages ------------------------------------------------------------------------------


@both_tasks
def test_staged_outputs_end_at_the_final_ones(Booster):
    X, _, y, _ = random_problem(11, Booster, n_classes=3)
    model = Booster(n_estimators=7).fit(X, y)
    stages = list(model.staged_predict(X))
    assert len(stages) == 7
    assert_array_equal(stages[-1], model.predict(X))
    assert_array_equal(stages[2], clone(model).set_params(n_estimators=3).fit(X, y).predict(X))
    if Booster is MAGradientBoostingClassifier:
        assert_array_equal(list(model.staged_predict_proba(X))[-1], model.predict_proba(X))
        decisions = list(model.staged_decision_function(X))
        assert_array_equal(decisions[-1], model.decision_function(X))
        assert not np.array_equal(decisions[0], decisions[1])
        assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


@both_engines
@both_tasks
def test_early_stopping_holds_rows_out_once(Booster, max_bins):
    """The same rows of X, y, the mask and the weights; they take no part in anything else."""
    X, mask, y, w = random_problem(12, Booster, 500)
    filled = np.where(mask, 0.0, X)
    params = {"n_estimators": 60, "n_iter_no_change": 4, "learning_rate": 0.4}
    params.update(random_state=3, max_bins=max_bins, validation_fraction=0.25)
    model = Booster(**params).fit(filled, y, w, missing_mask=mask)
    # The seed of the split is the first number that random_state gives.
    seed = np.random.RandomState(3).randint(2**31 - 1)
    strata = y if Booster is MAGradientBoostingClassifier else None
    train, held_out = train_test_split(
        np.arange(500), test_size=0.25, random_state=seed, stratify=strata
    )
    train.sort()
    assert_allclose(model.feature_missing_rate_, np.average(mask[train], axis=0, weights=w[train]))
    same = Booster(**params).set_params(n_iter_no_change=None, n_estimators=model.n_estimators_)
    same.fit(filled[train], y[train], w[train], missing_mask=mask[train])
    assert_array_equal(same.predict(filled), model.predict(filled))
    expected = [
        np.average((y[held_out] - p[held_out]) ** 2, weights=w[held_out])
        if strata is None
        else 2 * log_loss(y[held_out], p[held_out], sample_weight=w[held_out])
        for p in getattr(model, "staged_predict" if strata is None else "staged_predict_proba")(
            filled
        )
    ]
    assert_allclose(model.validation_score_, expected)


@both_tasks
def test_warm_start_with_early_stopping_goes_on_where_it_was(Booster):
    X, _, y, _ = random_problem(13, Booster, 500)
    params = {"n_iter_no_change": 5, "learning_rate": 0.3, "random_state": 0, "tol": 0.0}
    at_once = Booster(n_estimators=200, **params).fit(X, y)
    assert 8 < at_once.n_estimators_ < 200
    model = Booster(n_estimators=6, warm_start=True, **params).fit(X, y)
    model.set_params(n_estimators=200).fit(X, y)
    assert model.n_estimators_ == at_once.n_estimators_
    assert_array_equal(model.validation_score_, at_once.validation_score_)


@both_engines
def test_warm_start_on_other_rows_recomputes_sigma(max_bins):
    X, mask, y, _ = random_problem(14, MAGradientBoostingRegressor, 600, missing=0.6)
    params = {"alpha": 0.05, "max_bins": max_bins, "random_state": 0, "warm_start": True}
    model = MAGradientBoostingRegressor(n_estimators=5, **params).fit(X[:300], y[:300])
    engines = []
    make = model._make_engine
    model._make_engine = lambda rows: engines.append(make(rows)) or engines[0]
    model.set_params(n_estimators=6).fit(X[300:], y[300:])
    del model._make_engine
    relied = model.missingness_reliance(X[300:])
    assert relied.any()
    charged = engines[0].priced
    if max_bins is not None:
        charged = np.unpackbits(charged, axis=0, bitorder="little")[: len(mask.any(axis=0))]
    assert_array_equal(charged[: mask.any(axis=0).sum()].T == 1, mask[300:] & ~relied)
    assert model.missingness_reliance_ == relied.any(axis=1).mean()


def test_subsample_draws_rows_and_helps_reproducibly():
    X, _, y, _ = random_problem(15, MAGradientBoostingRegressor)
    fits = [
        MAGradientBoostingRegressor(subsample=s, n_estimators=10, random_state=r).fit(X, y)
        for s, r in [(0.5, 0), (0.5, 0), (0.5, 1), (1.0, 0), (1e-9, 0)]
    ]
    assert_array_equal(fits[0].predict(X), fits[1].predict(X))
    assert not np.array_equal(fits[0].predict(X), fits[2].predict(X))
    assert not np.array_equal(fits[0].predict(X), fits[3].predict(X))
    sizes = {e.tree_.n_node_samples[0] for e in fits[0].estimators_.ravel()}
    assert sizes == {150}
    assert {e.tree_.n_node_samples[0] for e in fits[4].estimators_.ravel()} == {1}


@both_engines
@both_tasks
def test_scores_outside_the_bag(Booster, max_bins):
    X, _, y, w = random_problem(23, Booster)
    model = Booster(n_estimators=6, subsample=0.6, max_bins=max_bins, random_state=0).fit(X, y, w)
    bags = []
    for t in range(6):
        drawn = np.random.default_rng([model._seed, t]).choice(300, 180, replace=False)
        bags.append(np.isin(np.arange(300), drawn))
    stages = model.staged_predict(X)
    start = np.full(len(y), model.baseline_[0])
    if Booster is MAGradientBoostingClassifier:
        stages = (np.log(p[:, 1] / p[:, 0]) for p in model.staged_predict_proba(X))
    raw = [start, *stages]

    def loss(raw, part):
        if Booster is MAGradientBoostingRegressor:
            return np.average((y - raw)[part] ** 2, weights=w[part])
        p = 1 / (1 + np.exp(-raw[part]))
        return 2 * log_loss(y[part], p, sample_weight=w[part])

    inside = [loss(raw[t + 1], bags[t]) for t in range(6)]
    outside = [loss(raw[t + 1], ~bags[t]) for t in range(6)]
    before = [loss(raw[t], ~bags[t]) for t in range(6)]
    assert_allclose(model.train_score_, inside)
    assert_allclose(model.oob_scores_, outside)
    assert_allclose(model.oob_improvement_, np.subtract(before, outside), atol=1e-12)


@both_engines
@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_weights_of_any_unit(unit, max_bins):
    X, _, y, w = random_problem(24, MAGradientBoostingRegressor)
    model = MAGradientBoostingRegressor(n_estimators=4, max_bins=max_bins, random_state=0)
    model.set_params(min_weight_fraction_leaf=0.1)
    scaled = clone(model).fit(X, y, w * unit)
    model.fit(X, y, w)
    assert_allclose(scaled.predict(X), model.predict(X), rtol=1e-6)
    weights = scaled.estimators_[0, 0].tree_.weighted_n_node_samples
    assert_allclose(weights / unit, model.estimators_[0, 0].tree_.weighted_n_node_samples)


# ----- the initial estimator ---------------------------------------------------------------


@both_engines
def test_what_the_initial_estimator_reads_counts(max_bins):
    X, mask, y, _ = random_problem(16, MAGradientBoostingRegressor, missing=0.4)
    params = {"n_estimators": 3, "alpha": 100.0, "max_bins": max_bins}
    first_only = DecisionTreeRegressor(max_depth=1, max_features=None)
    model = MAGradientBoostingRegressor(init=first_only, **params).fit(X, y)
    asked = model.init_.tree_.feature[0]
    cells = model.missingness_reliance(X)
    assert_array_equal(cells[:, asked], mask[:, asked])
    assert model.missingness_reliance_ == cells.any(axis=1).mean()
    linear = MAGradientBoostingRegressor(init=LinearRegression(), **params).fit(X, y)
    assert linear.missingness_reliance_ == mask.any(axis=1).mean()
    # Of this one nothing is known, so it counts as reading everything.
    neighbours = MAGradientBoostingRegressor(init=KNeighborsRegressor(), **params)
    with pytest.warns(UserWarning, match="cannot tell which features KNeighborsRegressor reads"):
        neighbours.fit(X, y)
    assert neighbours.missingness_reliance_ == mask.any(axis=1).mean()
    constant = MAGradientBoostingRegressor(init=DummyRegressor(), **params).fit(X, y)
    assert constant.missingness_reliance_ < mask.any(axis=1).mean()
    plain = MAGradientBoostingRegressor(**params).fit(X, y)
    assert plain.missingness_reliance_ < mask.any(axis=1).mean()
    # What was read before the first tree is free for it.
    assert_array_equal(linear.predict(X), clone(linear).set_params(alpha=0.0).fit(X, y).predict(X))


def test_initial_estimators():
    X, y = load_iris(return_X_y=True)
    zero = MAGradientBoostingClassifier(init="zero", n_estimators=3).fit(X, y)
    assert_array_equal(zero.baseline_, 0)
    prior = MAGradientBoostingClassifier(n_estimators=3).fit(X, y)
    dummy = MAGradientBoostingClassifier(init=DummyClassifier(), n_estimators=3).fit(X, y)
    assert_allclose(dummy.predict_proba(X), prior.predict_proba(X))
    assert dummy.missingness_reliance_ == 0.0
    better = MAGradientBoostingClassifier(
        init=LogisticRegression(max_iter=1000), n_estimators=3
    ).fit(X, y)
    assert better.train_score_[0] < prior.train_score_[0]
    w = np.ones(150)
    w[0] = 2.0
    with pytest.raises(ValueError, match="init=KNeighborsRegressor must take sample_weight"):
        MAGradientBoostingRegressor(init=KNeighborsRegressor()).fit(X, y, w)


# ----- weights and classes -----------------------------------------------------------------


def test_class_weight_multiplies_sample_weight():
    X, mask, y, w = random_problem(17, MAGradientBoostingClassifier, n_classes=3)
    # As in the trees, the imputed statistic goes by sample_weight alone.
    filled = np.where(mask, 0.1, X)
    by_class = MAGradientBoostingClassifier(n_estimators=5, class_weight={0: 2, 1: 1, 2: 0.5})
    by_class.fit(filled, y, w, missing_mask=mask)
    by_row = MAGradientBoostingClassifier(n_estimators=5)
    by_row.fit(filled, y, w * np.array([2, 1, 0.5])[y], missing_mask=mask)
    assert_allclose(by_class.predict_proba(filled), by_row.predict_proba(filled))
    balanced = MAGradientBoostingClassifier(n_estimators=5, class_weight="balanced").fit(
        X[y != 1], y[y != 1]
    )
    assert balanced.baseline_[0] == pytest.approx(0)


@both_engines
def test_a_class_without_weight_stops_nothing(max_bins):
    X, _, y, _ = random_problem(18, MAGradientBoostingClassifier, n_classes=3)
    X = np.nan_to_num(X)
    names = np.array(["a", "b", "c"])[y]
    for weights, class_weight in (
        (np.where(y == 1, 0.0, 1.0), None),
        (None, {"a": 1, "b": 0, "c": 1}),
    ):
        for more in ({"n_iter_no_change": 3}, {"init": LogisticRegression()}):
            model = MAGradientBoostingClassifier(
                n_estimators=5, max_bins=max_bins, class_weight=class_weight, random_state=0, **more
            ).fit(X, names, weights)
            assert_array_equal(model.classes_, ["a", "b", "c"])
            assert model.predict_proba(X)[:, 1].max() < 1e-6
            assert model.score(X[y != 1], names[y != 1]) > 0.7


@pytest.mark.parametrize("seed", range(5))
def test_weights_that_vanish_beside_others_decide_no_split(seed):
    X, _, y, _ = random_problem(seed, MAGradientBoostingRegressor, n=100, d=2, grid=8)
    X = np.nan_to_num(X)
    # 1e-60 is 0 as a float32; the rows must still be routed and leave finite values.
    w = np.where(np.random.default_rng(seed).random(100) < 0.5, 1e-60, 1.0)
    params = {"n_estimators": 5, "alpha": 0.0, "max_bins": 255}
    with_them = MAGradientBoostingRegressor(**params).fit(X, y, w)
    without = MAGradientBoostingRegressor(**params).fit(X[w == 1], y[w == 1])
    assert_allclose(with_them.train_score_, without.train_score_, rtol=1e-6)
    assert np.isfinite(with_them.predict(X)).all()


@both_engines
def test_labels_of_any_kind(max_bins):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = MAGradientBoostingClassifier(n_estimators=10, max_bins=max_bins)
    assert_array_equal(model.fit(X, names).predict(X) == names, model.fit(X, y).predict(X) == y)
    assert model.score(X, y) > 0.95
    two = MAGradientBoostingClassifier(n_estimators=5).fit(X[y < 2], y[y < 2] * -3.0)
    assert_array_equal(two.classes_, [-3, 0])
    assert two.score(X[y < 2], y[y < 2] * -3.0) == 1.0


def test_as_good_as_hist_gradient_boosting():
    X, y = make_contextual_missingness(3000, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    params = {"max_leaf_nodes": 31, "min_samples_leaf": 20, "random_state": 0}
    ours = MAGradientBoostingClassifier(
        alpha=0, imputer="native", max_bins=255, max_depth=None, n_estimators=50, **params
    ).fit(X, y)
    theirs = HistGradientBoostingClassifier(max_iter=50, early_stopping=False, **params).fit(X, y)
    ours, theirs = (log_loss(y_test, m.predict_proba(X_test)) for m in (ours, theirs))
    assert ours == pytest.approx(theirs, rel=0.05)


# ----- hostile input -----------------------------------------------------------------------


@both_engines
@both_tasks
def test_tiny_inputs(Booster, max_bins):
    for X in ([[1.0], [2.0]], [[np.nan], [2.0]], [[np.nan], [np.nan]], [[3.0], [3.0]]):
        for imputer in ("mean", "native"):
            model = Booster(n_estimators=2, max_bins=max_bins, imputer=imputer).fit(X, [0, 1])
            assert len(model.predict(X)) == 2
            assert 0.0 <= model.missingness_reliance_ <= 1.0
    if Booster is MAGradientBoostingRegressor:
        one = Booster(max_bins=max_bins).fit([[1.0]], [5.0])
        assert one.predict([[np.nan]]) == 5.0
        assert one.score([[1.0], [1.0]], [5.0, 5.0]) == 1.0
    wide = Booster(n_estimators=2, max_bins=max_bins).fit(np.eye(4, 300), [0, 1, 0, 1])
    assert wide.estimators_.shape == (2, 1)


@both_engines
@both_tasks
def test_bad_data(Booster, max_bins):
    X, mask, y, w = random_problem(18, Booster)
    model = Booster(n_estimators=2, max_bins=max_bins)
    cases = [
        ({"X": np.where(mask, np.inf, X)}, "infinity"),
        ({"X": np.where(mask, 1e300, X)}, "infinity or a value too large for dtype"),
        ({"missing_mask": mask[:, :2]}, "missing_mask must have the shape of X"),
        ({"missing_mask": mask * 2}, "missing_mask must hold booleans, or 0 and 1"),
        ({"sample_weight": -w}, "weights must be >= 0"),
        ({"sample_weight": 0 * w}, "at least one non-zero"),
        ({"y": np.where(mask[:, 0], np.nan, 1.0)}, "NaN"),
    ]
    for change, message in cases:
        arguments = {"X": X, "y": y, "sample_weight": None, **change}
        with pytest.raises(ValueError, match=message):
            clone(model).fit(**arguments)
    model.fit(X, y)
    with pytest.raises(ValueError, match="missing_mask must have the shape of X"):
        model.missingness_reliance(X, missing_mask=mask[:2])
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])


@both_tasks
def test_bad_parameters(Booster):
    X, _, y, _ = random_problem(19, Booster)
    for name, value in [
        ("alpha", -1), ("max_bins", 1), ("max_bins", 256), ("n_estimators", 0),
        ("subsample", 0.0), ("learning_rate", -0.1), ("penalty_scope", "cell"),
        ("alpha_scale", "log"), ("loss", "exponential"), ("imputer", "mode"), ("init", "one"),
        ("validation_fraction", 1.0), ("n_iter_no_change", 0),
    ]:  # fmt: skip
        with pytest.raises(InvalidParameterError, match=name):
            Booster(**{name: value}).fit(X, y)
    with pytest.raises(ValueError, match="missing_policy='stop' is not supported by boosting"):
        Booster(missing_policy="stop").fit(X, y)
    model = Booster(n_estimators=3, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="n_estimators=2 must be at least 3"):
        model.set_params(n_estimators=2).fit(X, y)
    assert len(model.estimators_) == 3


def test_bad_classes():
    X, _, y, w = random_problem(20, MAGradientBoostingClassifier)
    model = MAGradientBoostingClassifier(n_estimators=2)
    with pytest.raises(ValueError, match="1 class"):
        model.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="1 class among the rows of positive weight"):
        model.fit(X, y, sample_weight=w * (y == 0))
    with pytest.raises(ValueError, match="classes of the first fit"):
        model.set_params(warm_start=True).fit(X, y).fit(X, y + 1)


@both_tasks
def test_trees_are_scikit_learns(Booster):
    X, _, y, _ = random_problem(21, Booster)
    model = Booster(n_estimators=2, random_state=0).fit(X, y)
    tree = model.estimators_[0, 0]
    assert isinstance(tree, DecisionTreeRegressor)
    assert "feature_" in export_text(tree)
    filled = np.where(np.isnan(X), model.imputer_.statistics_, X).astype(np.float32)
    raw = model.baseline_[0] + 0.1 * sum(e.predict(filled) for e in model.estimators_[:, 0])
    ours = model.predict(X) if Booster is BOOSTERS[1] else model.decision_function(X)
    assert_allclose(ours, raw)
    leaves = model.apply(X).reshape(len(X), -1)
    assert_array_equal(leaves[:, 0], tree.apply(filled))


@both_tasks
def test_signature_names_are_scikit_learns(Booster):
    parameters = inspect.signature(Booster.__init__).parameters
    assert all(p.kind is p.KEYWORD_ONLY for name, p in parameters.items() if name != "self")


@both_engines
@both_tasks
def test_input_is_left_alone_and_order_of_memory_does_not_matter(Booster, max_bins):
    X, mask, y, w = random_problem(22, Booster)
    copies = X.copy(), mask.copy(), y.copy(), w.copy()
    model = Booster(n_estimators=3, max_bins=max_bins, random_state=0)
    model.fit(X, y, w, missing_mask=mask)
    for array, copy in zip((X, mask, y, w), copies, strict=True):
        assert_array_equal(array, copy)
    other = clone(model).fit(np.asfortranarray(X), y, w, missing_mask=np.asfortranarray(mask))
    assert_array_equal(other.predict(X), model.predict(np.asfortranarray(X)))
    assert_array_equal(
        clone(model).fit(X.astype(np.float32), y, w).predict(X.astype(np.float32)),
        clone(model).fit(X.astype(np.float32).astype(float), y, w).predict(X),
    )
