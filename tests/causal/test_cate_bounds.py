"""What a sceptic would try on the bound estimators: brute force, options, composition, weights."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import RegressorMixin, clone, is_regressor
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skml.causal import CATEBounder, DiscreteCATEBounder, balke_pearl_bounds, manski_iv_bounds
from skml.causal._balke_pearl import law_of_cells
from skml.causal._honest import Rows, balke_pearl_terms, manski_terms
from skml.datasets import make_iv_cate
from skml.metrics import bounds_coverage, mean_bounds_width
from tests.causal._bounds_references import bounds_over_pairs, cells_of

MODELS = {
    "propensity_estimator": LogisticRegression(),
    "outcome_estimator": LinearRegression(),
}
QUICK = {"max_iter": 30, "max_epochs": 4, "hidden_layer_sizes": (8,), "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return make_iv_cate("polygenic", 600, random_state=0)


def arrays_of(data, rows=slice(None)):
    return {"treatment": data.treatment[rows], "instrument": data.instrument[rows]}


def fit(estimator, data, rows=slice(None), **params):
    return estimator.fit(data.X[rows], data.y[rows], **arrays_of(data, rows), **params)


def clustered(**params):
    return CATEBounder(
        partitioner="kmeans", outcome_bounds=(0, 1), random_state=0, **MODELS
    ).set_params(**params)


# Closed forms


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(np.float64, (3, 4), elements=st.floats(0, 1)),
    st.floats(-3, 3),
    st.floats(0.1, 5),
)
def test_manski_bounds_equal_the_loop_over_pairs_and_hold_the_truth(cube, s1, width):
    s2 = s1 + width
    pi, share1, share0 = cube
    m1 = pi * (s1 + width * share1)
    m0 = (1 - pi) * (s1 + width * share0)
    bounds = manski_iv_bounds(pi, m1, m0, (s1, s2))
    assert_allclose(bounds, bounds_over_pairs(pi, m1, m0, s1, s2), atol=1e-9)
    # With one confounder-free law in all cells the truth lies inside.
    effect = s1 + width * share1[0] - (s1 + width * share0[0])
    m1, m0 = pi * (s1 + width * share1[0]), (1 - pi) * (s1 + width * share0[0])
    lower, upper = manski_iv_bounds(pi, m1, m0, (s1, s2))
    assert lower - 1e-9 <= effect <= upper + 1e-9


def test_empty_cells_bound_nothing():
    pi, m1, m0 = [0.2, np.nan, 0.8], [0.15, np.nan, 0.5], [0.3, np.nan, 0.1]
    assert_allclose(manski_iv_bounds(pi, m1, m0, (0, 1)), [0, 0.4], atol=1e-12)
    assert np.isnan(manski_iv_bounds([np.nan], [np.nan], [np.nan], (0, 1))).all()


def test_closed_forms_take_stacks():
    rng = np.random.default_rng(0)
    pi = rng.uniform(size=(2, 3, 4))
    m1, m0 = pi * 0.4, (1 - pi) * 0.3
    bounds = manski_iv_bounds(pi, m1, m0, (0, 1))
    assert bounds.shape == (2, 3, 2)
    assert_array_equal(bounds[1, 2], manski_iv_bounds(pi[1, 2], m1[1, 2], m0[1, 2], (0, 1)))
    law = rng.dirichlet(np.ones(4), size=(5, 3, 2)).reshape(5, 3, 2, 2, 2)
    assert balke_pearl_bounds(law).shape == (5, 3, 2)
    assert_allclose(balke_pearl_bounds(law)[4, 1], balke_pearl_bounds(law[4, 1]))
    pi, m1, m0 = law[..., 1].sum(-1), law[..., 1, 1], law[..., 1, 0]
    assert_allclose(law_of_cells(pi, m1, m0), law)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: manski_iv_bounds([0.5], [0.1], [0.1], (1, 1)), r"s1 < s2, got \(1, 1\)"),
        (lambda: manski_iv_bounds([0.5], [0.1], [0.1], (2, 1)), r"s1 < s2"),
        (lambda: manski_iv_bounds([0.5], [0.1], [0.1], (0, np.inf)), r"finite"),
        (lambda: manski_iv_bounds([0.5], [0.1, 0.2], [0.1], (0, 1)), r"common shape .*\(2,\)"),
        (lambda: manski_iv_bounds(0.5, 0.1, 0.1, (0, 1)), r"common shape"),
        (lambda: balke_pearl_bounds(np.ones((2, 2))), r"shape \(..., 2, 2, 2\).*\(2, 2\)"),
        (lambda: balke_pearl_bounds(np.ones((2, 2, 2))), r"sums from 4 to 4"),
        (lambda: balke_pearl_bounds([[[1.5, 0], [0, -0.5]]] * 2), r"entries from -0.5 to 1.5"),
    ],
)
def test_closed_forms_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Metrics


def test_metrics_weigh_rows_and_refuse_other_shapes():
    bounds = [[0, 1], [0, 2], [1, 0]]
    assert bounds_coverage([1, 3, 0.5], bounds) == pytest.approx(1 / 3)
    assert bounds_coverage([1, 3, 0.5], bounds, sample_weight=[2, 1, 1]) == 0.5
    assert mean_bounds_width(bounds) == pytest.approx(2 / 3)
    assert mean_bounds_width(bounds, sample_weight=[0, 1, 0]) == 2
    with pytest.raises(ValueError, match=r"two columns lower and upper, got shape \(1, 3\)"):
        mean_bounds_width([[0, 1, 2]])
    with pytest.raises(ValueError, match="inconsistent"):
        bounds_coverage([1, 2], bounds)


# Generators


@pytest.mark.parametrize("dataset", [1, 2, 3, "polygenic"])
def test_exact_nuisances_are_the_means_of_draws(dataset):
    data = make_iv_cate(dataset, 5_000, random_state=0)
    a, y = data.treatment, data.y
    rng = np.random.default_rng(0)
    rows = rng.choice(len(y), 2000, replace=False)
    # Blocks of rows, of which the diagonal is wanted.
    blocks = rows.reshape(40, 50)
    tables = np.concatenate(
        [
            np.diagonal(data.nuisances.tables(data.X[b], data.instrument[b]), axis1=1, axis2=2)
            for b in blocks
        ],
        axis=1,
    ).T
    for k, drawn in enumerate((a, a * y, (1 - a) * y)):
        for half in (data.X[rows, 0] > 0, data.X[rows, 0] <= 0):
            difference = drawn[rows][half] - tables[half, k]
            assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(half.sum())
            # A constant in place of the table would explain nothing.
            assert np.var(difference) < np.var(drawn[rows][half])
    effect = data.nuisances.effect(data.X)
    assert_array_equal(effect, data.tau)


def test_generator_repeats_and_says_what_is_wrong():
    first, again = (make_iv_cate(3, 50, random_state=1) for _ in range(2))
    assert_array_equal(first.y, again.y)
    zeros = make_iv_cate(3, 50, noise_columns=False, random_state=1)
    assert_array_equal(zeros.y, first.y)
    assert not zeros.instrument[:, 5:].any()
    assert first.instrument[:, 5:].any()
    with pytest.raises(ValueError, match=r"dataset must be one of \(1, 2, 3.*got 4"):
        make_iv_cate(4)
    with pytest.raises(ValueError, match="n_samples must be a positive integer, got 0"):
        make_iv_cate(1, 0)


# Estimators


def test_cells_are_plain_averages_over_the_reference(data):
    estimator = fit(clustered(n_cells=3), data, slice(400))
    X, Z = data.X[400:420], data.instrument[:400]
    labels = estimator.partition(Z)
    pairs = np.hstack([np.repeat(X, 400, axis=0), np.tile(Z, (20, 1))])
    pi = estimator.propensity_estimator_.predict_proba(pairs)[:, 1].reshape(20, 400)
    mu0, mu1 = (
        np.clip(model.predict(pairs), 0, 1).reshape(20, 400)
        for model in estimator.outcome_estimator_
    )
    expected = cells_of(np.stack([pi, pi * mu1, (1 - pi) * mu0]), labels, 3)
    cells = estimator.predict_cells(X)
    for name, table in zip(("pi", "m1", "m0"), expected, strict=True):
        assert_allclose(cells[name], table, atol=1e-12)
    assert_allclose(estimator.predict_bounds(X), manski_iv_bounds(*expected, (0, 1)))
    assert_allclose(estimator.predict(X), estimator.predict_bounds(X).mean(axis=1))
    assert_allclose(estimator.cell_probabilities_, np.bincount(labels) / 400)


def test_bounds_depend_on_x_and_are_valid(data):
    estimator = fit(clustered(n_cells=2), data)
    bounds = estimator.predict_bounds(data.X)
    assert bounds_coverage(data.tau, bounds) == 1
    assert bounds.std(axis=0).min() > 0.01
    assert not estimator.crossing(data.X).any()


def test_a_flat_propensity_gives_wide_and_valid_bounds():
    rng = np.random.default_rng(0)
    n = 800
    X, Z, u = rng.normal(size=(n, 1)), rng.normal(size=(n, 3)), rng.uniform(size=n)
    a = (u < 0.5).astype(int)  # the instrument does nothing
    y = np.clip(0.2 + 0.3 * a + 0.5 * (u < 0.3) + 0.1 * rng.normal(size=n), 0, 1)
    estimators = [
        (clustered(max_reference=200), Z),
        (CATEBounder(2, outcome_bounds=(0, 1), **QUICK), Z),
        (DiscreteCATEBounder(outcome_bounds=(0, 1)), (Z[:, 0] > 0).astype(int)),
    ]
    for estimator, instrument in estimators:
        bounds = estimator.fit(X, y, treatment=a, instrument=instrument).predict_bounds(X[:200])
        assert bounds_coverage(np.full(200, 0.3), bounds) == 1
        assert 0.85 < mean_bounds_width(bounds) <= 1.0 + 1e-9


@pytest.mark.parametrize(
    "params",
    [
        {"balance_weight": 0.0},
        {"guidance_weight": 0.0},
        {"temperature": 0.2},
        {"learning_rate": 0.001},
        {"hidden_layer_sizes": (4, 4)},
        {"batch_size": 32},
        {"max_reference": 60},
        {"n_iter_no_change": 1},
        {"n_init": 3},
        {"cv": 2},
        {"validation_fraction": 0.1},
        {"cell_estimator": "refit"},
        {"max_epochs": 1},
        MODELS,
    ],
    ids=lambda params: next(iter(params)),
)
def test_every_option_of_the_neural_fit_takes_effect(data, params):
    pytest.importorskip("skorch")
    plain = fit(CATEBounder(3, outcome_bounds=(0, 1), **QUICK), data, slice(300))
    other = fit(
        CATEBounder(3, outcome_bounds=(0, 1), **QUICK).set_params(**params), data, slice(300)
    )
    X = data.X[300:330]
    bounds = other.predict_bounds(X)
    assert np.isfinite(bounds).all()
    # The first start may win; the others are there all the same.
    assert "n_init" in params or not np.array_equal(plain.predict_bounds(X), bounds)
    assert len(other.loss_curve_) == other.n_iter_ <= 30
    if "n_iter_no_change" in params:
        assert other.n_iter_ < plain.n_iter_
    if "n_init" in params:
        widths = other.partitioner_.honest_widths_
        assert len(widths) == 3
        assert np.isfinite(widths).all()
    if "cv" in params:
        assert len(other.propensity_estimator_) == len(other.outcome_estimator_) == 2
    if "max_reference" in params:
        assert other.reference_instrument_.shape == (60, 50)


def test_nuisances_do_not_depend_on_the_partitioner(data):
    pytest.importorskip("skorch")
    neural = fit(CATEBounder(2, outcome_bounds=(0, 1), **QUICK), data)
    kmeans = fit(CATEBounder(2, partitioner="kmeans", outcome_bounds=(0, 1), **QUICK), data)
    pairs = np.hstack([data.X, data.instrument])
    for name in ("propensity_estimator_", "outcome_estimator_"):
        assert_array_equal(
            getattr(neural, name).predict_proba(pairs), getattr(kmeans, name).predict_proba(pairs)
        )


def test_grid_of_a_network_is_its_prediction_of_pairs(data):
    pytest.importorskip("skorch")
    net = fit(
        CATEBounder(2, partitioner="kmeans", outcome_bounds=(0, 1), **QUICK), data
    ).propensity_estimator_
    X, Z = data.X[:5], data.instrument[:7]
    pairs = np.hstack([np.repeat(X, 7, axis=0), np.tile(Z, (5, 1))])
    assert_allclose(net.predict_grid(X, Z).reshape(35, 2), net.predict_proba(pairs), atol=1e-12)
    assert net.predict_grid(X, Z, dtype=np.float32).dtype == np.float32


def test_loss_of_the_partition_has_the_right_value_and_gradient():
    torch = pytest.importorskip("torch")
    from skml.causal._neural_partition import mean_width, straight_through_cells

    rng = np.random.default_rng(0)
    pi = rng.uniform(size=(6, 9))
    tables = np.stack([pi, pi * rng.uniform(size=pi.shape), (1 - pi) * rng.uniform(size=pi.shape)])
    labels = np.array([0, 0, 2, 2, 0, 2, 0, 2, 2])  # cell 1 is empty
    x_weight, z_weight = rng.uniform(1, 2, 6), rng.uniform(1, 2, 9)
    onehot = torch.eye(3, dtype=torch.float64)[torch.as_tensor(labels)]
    arguments = [torch.as_tensor(part) for part in (x_weight, z_weight)]
    width = mean_width(torch.as_tensor(tables), onehot, *arguments)
    averages = np.stack(
        [
            np.average(tables[:, :, labels == k], axis=2, weights=z_weight[labels == k])
            for k in (0, 2)
        ],
        axis=-1,
    )
    expected = np.diff(manski_iv_bounds(*averages, (0, 1)), axis=1)[:, 0]
    assert_allclose(width, np.average(expected, weights=x_weight))
    soft = torch.rand(9, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda cells: mean_width(torch.as_tensor(tables), cells, *arguments), (soft,)
    )
    logits = torch.zeros(4000, 3, requires_grad=True)
    cells = straight_through_cells(logits, 1.0, torch.Generator().manual_seed(0))
    assert_array_equal(np.sort(cells.detach().numpy(), axis=1)[:, :2], 0)
    assert_allclose(cells.detach().mean(dim=0), 1 / 3, atol=0.03)
    (cells[:, 0] * torch.arange(4000)).sum().backward()
    assert logits.grad.abs().sum() > 0


@pytest.mark.parametrize("partitioner", [KMeans(3, n_init=2, random_state=0), MiniBatchKMeans(3)])
def test_partitioner_of_the_user_is_cloned_and_used(data, partitioner):
    estimator = fit(clustered(partitioner=partitioner), data)
    assert not hasattr(partitioner, "cluster_centers_")
    labels = estimator.partition(data.instrument)
    assert_array_equal(labels, estimator.partitioner_.predict(data.instrument))
    assert estimator.predict_cells(data.X[:2])["pi"].shape == (2, 3)


class Sides:
    """A partition with labels that are neither numbers from 0 nor all seen in training."""

    def fit(self, Z):
        return self

    def predict(self, Z):
        return np.where(Z[:, 0] > 10, "far", np.where(Z[:, 0] > 0, "some", "none"))


def test_labels_of_the_user_may_be_anything_that_was_seen(data):
    estimator = fit(clustered(partitioner=Sides()), data)
    assert estimator.n_cells_ == 2
    far = data.instrument.copy()
    far[3, 0] = 99
    with pytest.raises(ValueError, match=r"label 'far', which it gave to no training row"):
        estimator.partition(far)


def test_cross_fitting_averages_the_folds(data):
    estimator = fit(clustered(cv=3), data)
    pairs = np.hstack([data.X, data.instrument])
    assert len({model.coef_[0, 0] for model in estimator.propensity_estimator_}) == 3
    X, Z = data.X[:4], estimator.reference_instrument_
    tables = [member.tables(X, Z) for member in estimator._nuisances.members]
    cells = cells_of(np.mean(tables, axis=0), estimator.partition(Z), 4)
    assert_allclose(estimator.predict_cells(X)["pi"], cells[0])
    # Each model has left its fold out.
    k = 1
    rest = estimator._fold != k
    again = LogisticRegression().fit(pairs[rest], data.treatment[rest])
    assert_allclose(again.coef_, estimator.propensity_estimator_[k].coef_, rtol=1e-4)


def test_refit_equals_the_discrete_estimator_on_its_own_cells(data):
    refitted = fit(clustered(n_cells=3, cell_estimator="refit"), data)
    assert refitted.propensity_estimator_ is None
    labels = refitted.partition(data.instrument)
    discrete = DiscreteCATEBounder(outcome_bounds=(0, 1), **MODELS)
    discrete.fit(data.X, data.y, treatment=data.treatment, instrument=labels)
    assert_allclose(refitted.predict_bounds(data.X), discrete.predict_bounds(data.X))
    held_out = make_iv_cate("polygenic", 400, random_state=1)
    score = discrete.score(
        held_out.X, held_out.y, treatment=held_out.treatment,
        instrument=refitted.partition(held_out.instrument),
    )  # fmt: skip
    assert refitted.score(held_out.X, held_out.y, **arrays_of(held_out)) == pytest.approx(score)


@pytest.mark.parametrize("make", [clustered, lambda **p: clustered(cell_estimator="refit", **p)])
def test_weights_of_two_are_repeated_rows(data, make):
    rows = slice(200)
    weight = np.where(np.arange(200) < 80, 2.0, 1.0)
    weight[190:] = 0
    repeated = np.repeat(np.arange(200), weight.astype(int))
    partitioner = KMeans(2, n_init=1, init=data.instrument[:2])
    weighted = fit(make(partitioner=partitioner), data, rows, sample_weight=weight)
    plain = fit(make(partitioner=partitioner), data, repeated)
    assert_allclose(
        weighted.predict_bounds(data.X), plain.predict_bounds(data.X), rtol=1e-4, atol=1e-5
    )
    assert_allclose(weighted.cell_probabilities_, plain.cell_probabilities_)
    kept = slice(200, 260)
    double = np.repeat(np.arange(200, 260), 2)
    assert plain.score(data.X[double], data.y[double], **arrays_of(data, double)) == pytest.approx(
        plain.score(data.X[kept], data.y[kept], **arrays_of(data, kept))
    )


# Honest width and averages


def test_honest_terms_equal_the_formula_written_out():
    rng = np.random.default_rng(0)
    n, k = 300, 3
    cell, a, y = rng.integers(k, size=n), rng.integers(2, size=n), rng.uniform(size=n)
    pi = rng.uniform(size=(n, k))
    cells = pi, pi * rng.uniform(size=(n, k)), (1 - pi) * rng.uniform(size=(n, k))
    pi, m1, m0 = cells
    p = np.bincount(cell) / n

    def g(chosen, values):
        return np.mean((cell == chosen) / p[cell] * values)

    upper = g((m1 + 1 - pi).argmin(1), a * y + 1 - a) - g(m0.argmax(1), (1 - a) * y)
    lower = g(m1.argmax(1), a * y) - g((m0 + pi).argmin(1), (1 - a) * y + a)
    low, high, low_res, high_res = manski_terms(cells, Rows(cell, a, y, np.ones(n)))
    assert_allclose([low.mean(), high.mean()], [lower, upper])
    assert_allclose([low_res.mean(), high_res.mean()], 0, atol=1e-12)


def test_score_does_not_reward_bounds_that_over_fit():
    train, test = (make_iv_cate(1, 400, random_state=seed) for seed in (0, 1))
    deep = CATEBounder(
        4, partitioner="kmeans", outcome_bounds=(-1.5, 1.5), random_state=0,
        propensity_estimator=DecisionTreeClassifier(random_state=0),
        outcome_estimator=DecisionTreeRegressor(random_state=0),
    )  # fmt: skip
    shallow = clone(deep).set_params(
        propensity_estimator__max_depth=4, outcome_estimator__max_depth=2
    )
    widths, scores = [], []
    for estimator in (deep, shallow):
        fit(estimator, train)
        widths.append(mean_bounds_width(estimator.predict_bounds(test.X)))
        scores.append(estimator.score(test.X, test.y, **arrays_of(test)))
    assert widths[0] < widths[1]  # the plug-in width prefers the over-fitted nuisances
    assert scores[0] < scores[1]


def test_average_bounds_cover_and_their_errors_are_those_of_repetitions(data):
    estimator = fit(clustered(n_cells=2, max_reference=50), data)
    results = [
        estimator.average_bounds(d.X, d.y, **arrays_of(d))
        for d in (make_iv_cate("polygenic", 300, random_state=s) for s in range(100, 180))
    ]
    bounds = np.array([result.bounds for result in results])
    errors = np.array([result.standard_error for result in results]).mean(axis=0)
    assert_allclose(bounds.std(axis=0), errors, rtol=0.25)
    truth = make_iv_cate("polygenic", 20_000, random_state=0).tau.mean()
    covered = [r.confidence_interval[0] <= truth <= r.confidence_interval[1] for r in results]
    assert np.mean(covered) > 0.95
    first = results[0]
    wider = first.bounds + first.critical_value * first.standard_error * [-1, 1]
    assert_allclose(first.confidence_interval, wider)
    assert 1.64 < first.critical_value < 1.97


def test_average_bounds_scale_with_the_outcome(data):
    plain = fit(clustered(max_reference=50), data).average_bounds(data.X, data.y, **arrays_of(data))
    scaled = clustered(max_reference=50, outcome_bounds=(5, 9)).fit(
        data.X, 4 * data.y + 5, **arrays_of(data)
    )
    scaled = scaled.average_bounds(data.X, 4 * data.y + 5, **arrays_of(data))
    assert_allclose(scaled.confidence_interval, 4 * plain.confidence_interval)


def test_balke_pearl_is_inside_manski_and_its_score_is_its_width():
    rng = np.random.default_rng(0)
    n = 6000
    x, z, u = rng.integers(2, size=n), rng.integers(2, size=n), rng.uniform(size=n)
    a = ((u < 0.3) | ((u > 0.8) & (z == 1)) | ((u > 0.6) & (u < 0.7) & (z == 0))).astype(int)
    y = ((u < 0.35) | ((a + x) % 2 == 1)).astype(float)
    X, arrays = x[:, None], {"treatment": a, "instrument": z}
    sharp = DiscreteCATEBounder(bounds="balke-pearl", outcome_bounds=(0, 1), **MODELS)
    wide = DiscreteCATEBounder(outcome_bounds=(0, 1), **MODELS).fit(X, y, **arrays)
    inside, outside = sharp.fit(X, y, **arrays).predict_bounds(X), wide.predict_bounds(X)
    assert (inside[:, 0] >= outside[:, 0] - 1e-9).all()
    assert (inside[:, 1] <= outside[:, 1] + 1e-9).all()
    for value in (0, 1):
        p = [
            [
                [np.mean((y[r] == i) & (a[r] == j)) for j in (0, 1)]
                for i in (0, 1)
            ]
            for r in ((x == value) & (z == k) for k in (0, 1))
        ]  # fmt: skip
        assert_allclose(inside[x == value][0], balke_pearl_bounds(p), atol=5e-3)
    assert -sharp.score(X, y, **arrays) == pytest.approx(mean_bounds_width(inside), abs=0.02)
    cells = sharp._unit_cells(X.astype(float))
    rows = Rows(z, a, y, np.ones(n), np.full(n, 0.5))
    low, high, *_ = balke_pearl_terms(cells, rows)
    assert_allclose([low.mean(), high.mean()], inside.mean(axis=0), atol=0.02)
    scaled = clone(sharp).set_params(outcome_bounds=(2, 6)).fit(X, 2 + 4 * y, **arrays)
    assert_allclose(scaled.predict_bounds(X), 4 * inside, atol=1e-6)


def test_bootstrap_keeps_the_cells_and_widens_the_bounds(data):
    estimator = fit(clustered(n_cells=2, max_reference=60), data, slice(200))
    X = data.X[200:205]
    before = estimator.predict_bounds(X)
    intervals = estimator.bootstrap_bounds(X, n_resamples=40)
    assert_array_equal(before, estimator.predict_bounds(X))
    assert (intervals[:, 0] < before[:, 0]).all()
    assert (intervals[:, 1] > before[:, 1]).all()
    assert_array_equal(intervals, estimator.bootstrap_bounds(X, n_resamples=40, n_jobs=2))
    narrow = estimator.bootstrap_bounds(X, n_resamples=40, confidence_level=0.5)
    assert (narrow[:, 0] >= intervals[:, 0]).all()
    discrete = DiscreteCATEBounder(outcome_bounds=(0, 1), random_state=0)
    few = (data.instrument[:, 0] > 0).astype(int)
    discrete.fit(data.X, data.y, treatment=data.treatment, instrument=few)
    assert discrete.bootstrap_bounds(X, 10).shape == (5, 2)


def test_warm_start_keeps_the_nuisances_of_the_same_rows(data):
    cold = fit(clustered(n_cells=3), data)
    warm = fit(clustered(n_cells=2, warm_start=True), data)
    model = warm.propensity_estimator_
    fit(warm.set_params(n_cells=3), data)
    assert warm.propensity_estimator_ is model
    assert_array_equal(warm.predict_bounds(data.X[:9]), cold.predict_bounds(data.X[:9]))
    fit(warm, data, slice(500))
    assert warm.propensity_estimator_ is not model
    assert_array_equal(
        warm.predict_bounds(data.X[:9]),
        fit(clustered(n_cells=3), data, slice(500)).predict_bounds(data.X[:9]),
    )
    model = warm.propensity_estimator_
    fit(warm.set_params(propensity_estimator=LogisticRegression(C=0.1)), data, slice(500))
    assert warm.propensity_estimator_ is not model
    assert fit(warm.set_params(cv=2), data, slice(500)).propensity_estimator_[0] is not model


# Composition


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "pipeline"])
def test_grid_search_routes_both_arrays(data, scaled):
    with config_context(enable_metadata_routing=True):
        step = (
            clustered(max_reference=100)
            .set_fit_request(treatment=True, instrument=True)
            .set_score_request(treatment=True, instrument=True)
        )
        model = make_pipeline(StandardScaler(), step) if scaled else step
        prefix = "catebounder__" if scaled else ""
        grid = {f"{prefix}n_cells": [2, 4], f"{prefix}balance_weight": [0.1, 1.0]}
        search = GridSearchCV(model, grid, cv=2, error_score="raise")
        search.fit(data.X, data.y, **arrays_of(data))
        scores = cross_val_score(model, data.X, data.y, cv=2, params=arrays_of(data))
    assert search.predict(data.X).shape == (600,)
    means = search.cv_results_["mean_test_score"]
    # The grid runs over the balance first, which k-means does not know.
    by_cells = {
        p[f"{prefix}n_cells"]: m for p, m in zip(search.cv_results_["params"], means, strict=True)
    }
    assert_allclose(scores.mean(), by_cells[4])
    assert len(set(means)) == 2


def test_grid_search_over_the_neural_settings(data):
    pytest.importorskip("skorch")
    with config_context(enable_metadata_routing=True):
        step = (
            CATEBounder(outcome_bounds=(0, 1), **QUICK)
            .set_fit_request(treatment=True, instrument=True, sample_weight=True)
            .set_score_request(treatment=True, instrument=True, sample_weight=True)
        )
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        model = make_pipeline(scaler, step)
        grid = {"catebounder__n_cells": [2, 3], "catebounder__balance_weight": [0.1, 1.0]}
        search = GridSearchCV(model, grid, cv=2, error_score="raise")
        weight = np.random.default_rng(0).uniform(0.5, 2, 600)
        search.fit(data.X, data.y, **arrays_of(data), sample_weight=weight)
    means = search.cv_results_["mean_test_score"]
    assert np.isfinite(means).all()
    assert len(set(means)) == 4


def test_without_routing_the_message_says_how(data):
    pipeline = make_pipeline(StandardScaler(), clustered())
    pipeline.fit(
        data.X,
        data.y,
        catebounder__treatment=data.treatment,
        catebounder__instrument=data.instrument,
    )
    with pytest.raises(ValueError, match=r"score needs the treatment and instrument.*set_config"):
        pipeline.score(data.X, data.y)
    with pytest.raises(ValueError, match=r"set_score_request\(treatment=True, instrument=True\)"):
        pipeline[-1].score(data.X, data.y, treatment=data.treatment)


def test_it_is_no_regressor():
    for estimator in (CATEBounder(), DiscreteCATEBounder()):
        assert not isinstance(estimator, RegressorMixin)
        assert not is_regressor(estimator)
        assert estimator.__sklearn_tags__().target_tags.required


def test_boosting_serves_as_nuisances(data):
    estimator = fit(
        clustered(
            cv=2,
            max_reference=50,
            propensity_estimator=HistGradientBoostingClassifier(max_iter=5),
            outcome_estimator=HistGradientBoostingRegressor(max_iter=5),
        ),
        data,
    )
    bounds = estimator.predict_bounds(data.X[:100])
    assert bounds_coverage(data.tau[:100], bounds) > 0.99


def test_labels_of_the_treatment_are_sorted(data):
    names = np.array(["no", "yes"])[data.treatment]
    arrays = {"treatment": names, "instrument": data.instrument}
    estimator = clustered(max_reference=50).fit(data.X, data.y, **arrays)
    assert estimator.treatment_classes_.tolist() == ["no", "yes"]
    plain = fit(clustered(max_reference=50), data)
    assert_array_equal(estimator.predict_bounds(data.X), plain.predict_bounds(data.X))
    assert estimator.score(data.X, data.y, **arrays) == plain.score(
        data.X, data.y, **arrays_of(data)
    )


def test_discrete_levels_may_be_strings_and_combinations(data):
    z = (data.instrument[:, :2] > 0).astype(int)
    names = np.array([["lo", "hi"], ["off", "on"]], dtype=object)
    text = np.column_stack([names[0][z[:, 0]], names[1][z[:, 1]]])
    bounder = DiscreteCATEBounder(outcome_bounds=(0, 1))
    numbers = clone(bounder).fit(data.X, data.y, treatment=data.treatment, instrument=z)
    words = clone(bounder).fit(data.X, data.y, treatment=data.treatment, instrument=text)
    assert_allclose(numbers.predict_bounds(data.X), words.predict_bounds(data.X))
    assert ("hi", "on") in words.instrument_levels_
    assert_array_equal(numbers.partition([[0, 0], [1, 1]]), [0, 3])


def test_clusters_and_discrete_instruments_need_no_torch():
    code = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "skorch", "safetensors"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
from sklearn.linear_model import LinearRegression, LogisticRegression
from skml.causal import CATEBounder, DiscreteCATEBounder
from skml.datasets import make_iv_cate
d = make_iv_cate(3, 200, random_state=0)
arrays = dict(treatment=d.treatment, instrument=d.instrument)
models = dict(
    propensity_estimator=LogisticRegression(),
    outcome_estimator=LinearRegression(),
    outcome_bounds=d.outcome_bounds,
)
bounder = CATEBounder(partitioner="kmeans", **models).fit(d.X, d.y, **arrays)
print(bounder.predict_bounds(d.X).shape)
one = dict(arrays, instrument=d.instrument[:, 0])
print(DiscreteCATEBounder(**models).fit(d.X, d.y, **one).predict(d.X).shape)
CATEBounder(**models).fit(d.X, d.y, **arrays)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["(200,", "2)", "(200,)"]
    assert "ImportError: CATEBounder (a neural partition" in result.stderr
    assert "pip install 'skml[torch]'" in result.stderr
