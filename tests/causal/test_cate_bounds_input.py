"""Bad and extreme input of the bound estimators, with the message that it must give."""

import pickle

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from skml.causal import CATEBounder, DiscreteCATEBounder
from skml.datasets import load_401ksubs, load_catholic, load_labsup, make_iv_cate

MODELS = {
    "propensity_estimator": LogisticRegression(),
    "outcome_estimator": LinearRegression(),
}
N = 60


def make(**params):
    start = CATEBounder(2, partitioner="kmeans", outcome_bounds=(-2, 2), random_state=0, **MODELS)
    return start.set_params(**params)


def good():
    data = make_iv_cate(1, N, random_state=0)
    return {
        "X": data.X,
        "y": data.y,
        "treatment": data.treatment,
        "instrument": data.instrument,
    }


def changed(**changes):
    return good() | changes


@pytest.mark.parametrize(
    ("params", "changes", "error", "message"),
    [
        ({}, {"treatment": None}, ValueError, r"fit needs the treatment of each row.*set_config"),
        ({}, {"instrument": None}, ValueError, r"needs the instrument .*set_fit_request"),
        ({}, {"treatment": np.ones(N)}, ValueError, r"two classes, got 1 class: \[1.0\].*fold"),
        ({}, {"treatment": np.arange(N)}, ValueError, r"got 60 classes: .*and more"),
        ({}, {"treatment": np.full(N, np.nan)}, ValueError, "treatment contains NaN"),
        ({}, {"treatment": np.arange(N - 1) % 2}, ValueError, r"X and treatment .* 60 and 59"),
        ({}, {"instrument": np.arange(N - 1.0)}, ValueError, r"X and instrument .* 60 and 59"),
        ({}, {"instrument": np.full((N, 1), np.inf)}, ValueError, r"instrument contains infinity"),
        ({}, {"y": np.full(N, np.nan)}, ValueError, r"y contains NaN"),
        ({"outcome_bounds": (0, 0.1)}, {}, ValueError, r"outcome_bounds=\(0, 0.1\); \d+ of 60"),
        ({"outcome_bounds": (1, 0)}, {}, ValueError, r"s1 < s2, got \(1, 0\)"),
        ({"outcome_bounds": (0, 1, 2)}, {}, ValueError, r"two finite numbers"),
        ({"n_cells": 1}, {}, ValueError, "n_cells.*range \\[2, inf\\).* Got 1"),
        ({"n_cells": 61}, {}, ValueError, r"n_cells=61 must not exceed .*n_samples=60"),
        ({"propensity_estimator": LogisticRegression}, {}, TypeError, r"write LogisticRegression"),
        ({"outcome_estimator": LinearRegression}, {}, TypeError, r"outcome_estimator must be an i"),
        ({"partitioner": KMeans}, {}, TypeError, r"partitioner must be an instance.*KMeans\(\)"),
        ({"outcome_estimator": LogisticRegression()}, {}, TypeError, r"must be a regressor"),
        ({"partitioner": "spectral"}, {}, ValueError, "partitioner"),
        ({"hidden_layer_sizes": ()}, {}, ValueError, "at least one positive integer, got"),
        ({"hidden_layer_sizes": (3, 0)}, {}, ValueError, "at least one positive integer, got"),
        ({"cv": 40}, {}, ValueError, r"cv=40 folds need at least 40 rows of each treatment"),
        ({}, {"sample_weight": np.zeros(N)}, ValueError, "all weights are zero|at least one"),
        ({}, {"sample_weight": -np.ones(N)}, ValueError, "[Nn]egative"),
        (
            {"propensity_estimator": KNeighborsClassifier()},
            {"sample_weight": np.arange(1.0, N + 1)},
            ValueError,
            r"fit of propensity_estimator=KNeighborsClassifier\(\) does not take it",
        ),
    ],
)
def test_fit_says_what_is_wrong(params, changes, error, message):
    with pytest.raises(error, match=message):
        make(**params).fit(**changed(**changes))


@pytest.mark.parametrize(
    ("params", "changes", "error", "message"),
    [
        ({}, {"instrument": np.arange(N)}, ValueError, r"has 60 levels in 60 rows.*CATEBounder"),
        ({}, {"instrument": np.full(N, np.nan)}, ValueError, "instrument contains NaN"),
        ({}, {"instrument": np.array([None] * N)}, ValueError, "instrument contains NaN or None"),
        (
            {},
            {"instrument": np.zeros((N, 1, 1))},
            ValueError,
            r"shape \(n,\) or .*got \(60, 1, 1\)",
        ),
        ({}, {"instrument": None}, ValueError, "DiscreteCATEBounder.fit needs the instrument"),
        ({"bounds": "balke-pearl"}, {}, ValueError, r"got 2 levels and 60 different outcomes"),
        ({"bounds": "sharp"}, {}, ValueError, "bounds"),
        ({"outcome_bounds": (0, 0.1)}, {}, ValueError, r"y must lie within outcome_bounds"),
        ({"propensity_estimator": LogisticRegression}, {}, TypeError, "must be an instance"),
    ],
)
def test_discrete_fit_says_what_is_wrong(params, changes, error, message):
    arrays = changed(instrument=np.arange(N) % 2) | changes
    with pytest.raises(error, match=message):
        DiscreteCATEBounder(outcome_bounds=(-2, 2)).set_params(**params).fit(**arrays)


def test_methods_say_what_is_wrong():
    arrays = good()
    estimator = make().fit(**arrays)
    with pytest.raises(ValueError, match="instrument has 2 features, but it had 1 in fit"):
        estimator.partition(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"treatment must hold the classes \[0, 1\].*got \[0, 2\]"):
        estimator.score(**(arrays | {"treatment": 2 * arrays["treatment"]}))
    with pytest.raises(ValueError, match="average_bounds needs the treatment and instrument"):
        estimator.average_bounds(arrays["X"], arrays["y"])
    with pytest.raises(ValueError, match="confidence_level must be a number .* 1, got 2"):
        estimator.average_bounds(**arrays, confidence_level=2)
    with pytest.raises(ValueError, match="n_resamples must be an integer of at least 2, got 1"):
        estimator.bootstrap_bounds(arrays["X"], 1)
    with pytest.raises(ValueError, match="X and instrument have inconsistent lengths: 60 and 59"):
        estimator.score(**(arrays | {"instrument": arrays["instrument"][:-1]}))
    discrete = DiscreteCATEBounder(outcome_bounds=(-2, 2))
    discrete.fit(**(arrays | {"instrument": np.arange(N) % 2}))
    with pytest.raises(ValueError, match=r"level \(3.0,\), which fit has not seen"):
        discrete.partition([0, 3])
    with pytest.raises(ValueError, match="instrument has 2 features, but it had 1 in fit"):
        discrete.partition([[0, 3]])


class Flat:
    """A partitioner whose labels have the wrong shape."""

    def fit(self, Z):
        return self

    def predict(self, Z):
        return np.zeros((len(Z), 2))


class One(Flat):
    def predict(self, Z):
        return np.zeros(len(Z), dtype=int)


def test_partitioner_must_label_rows():
    with pytest.raises(ValueError, match=r"one label for each row .*got shape \(60, 2\)"):
        make(partitioner=Flat()).fit(**good())


def test_warnings():
    arrays = good()
    with pytest.warns(UserWarning, match=r"outcome_bounds=None.* takes the range .*\(-0.44"):
        estimator = make(outcome_bounds=None).fit(**arrays)
    assert estimator.outcome_bounds_ == (arrays["y"].min(), arrays["y"].max())
    with pytest.warns(UserWarning, match="Every instrument falls in one cell"):
        make(partitioner=One()).fit(**arrays)
    with pytest.warns(UserWarning, match="single level, so it narrows nothing"):
        DiscreteCATEBounder(outcome_bounds=(-2, 2)).fit(**(arrays | {"instrument": np.zeros(N)}))


def test_crossing_bounds_warn_and_are_not_swapped():
    # Everybody has y = z mod 2, treated or not: z acts on y directly.
    z = np.repeat([0, 1, 2, 3], 100)
    a = np.where(np.arange(400) % 20 == 0, 1 - z // 2, z // 2)
    X, y = np.zeros((400, 1)), (z % 2).astype(float)
    estimator = DiscreteCATEBounder(
        outcome_bounds=(0, 1), propensity_estimator=DummyClassifier(),
        outcome_estimator=DummyRegressor(),
    )  # fmt: skip
    # E[Y(0)] is at most .05 by the first level, and at least .95 by the second.
    with pytest.warns(UserWarning, match=r"The bounds of 100.0% of the training rows cross"):
        estimator.fit(X, y, treatment=a, instrument=z)
    bounds = estimator.predict_bounds(X)
    assert estimator.crossing(X).all()
    assert (bounds[:, 0] > bounds[:, 1]).all()


@pytest.mark.parametrize("n", [4, 5, 7, 12])
def test_tiny_data(n):
    pytest.importorskip("skorch")
    rng = np.random.default_rng(n)
    X, y, Z = rng.normal(size=(n, 1)), rng.uniform(size=n), rng.normal(size=(n, 2))
    a = np.arange(n) % 2
    for params in ({}, {"cell_estimator": "refit"}, {"partitioner": "kmeans"}):
        estimator = CATEBounder(
            2, outcome_bounds=(0, 1), max_iter=3, max_epochs=2, random_state=0, **params
        )
        bounds = estimator.fit(X, y, treatment=a, instrument=Z).predict_bounds(X)
        assert bounds.shape == (n, 2)
        assert (np.abs(bounds) <= 1 + 1e-9).all()


def test_one_treated_row():
    arrays = good()
    arrays["treatment"] = (np.arange(N) == 5).astype(int)
    pytest.importorskip("skorch")
    for params in (
        {"partitioner": "neural", "propensity_estimator": None, "outcome_estimator": None},
        {"partitioner": "neural"},
        {"cell_estimator": "refit"},
    ):
        estimator = make(max_iter=3, max_epochs=2, **params).fit(**arrays)
        assert np.isfinite(estimator.predict_bounds(arrays["X"])).all()


def test_constant_columns_and_a_constant_outcome():
    arrays = good()
    arrays["X"] = np.column_stack([arrays["X"], np.ones(N)])
    arrays["instrument"] = np.column_stack([arrays["instrument"], np.zeros(N)])
    pytest.importorskip("skorch")
    estimator = CATEBounder(2, outcome_bounds=(-2, 2), max_iter=5, max_epochs=2, random_state=0)
    assert np.isfinite(estimator.fit(**arrays).predict_bounds(arrays["X"])).all()
    with pytest.warns(UserWarning, match="outcome_bounds=None"):
        make(outcome_bounds=None).fit(**(arrays | {"y": np.zeros(N)}))


@pytest.mark.parametrize("cell_estimator", ["average", "refit"])
def test_a_neural_model_survives_pickling(cell_estimator):
    pytest.importorskip("skorch")
    arrays = good()
    estimator = CATEBounder(
        2, outcome_bounds=(-2, 2), cell_estimator=cell_estimator, max_iter=5, max_epochs=2,
        random_state=0, cv=2,
    ).fit(**arrays)  # fmt: skip
    loaded = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(
        estimator.predict_bounds(arrays["X"]), loaded.predict_bounds(arrays["X"])
    )
    assert estimator.score(**arrays) == loaded.score(**arrays)


# Loaders


@pytest.mark.parametrize(
    ("load", "shape", "n_instruments"),
    [
        (load_labsup, (31857, 5), 2),
        (load_401ksubs, (9275, 5), 1),
        (load_catholic, (5970, 7), 1),
    ],
)
def test_loaders_of_instrument_data(load, shape, n_instruments):
    bunch = load(as_frame=True)
    plain = load()
    assert plain.data.shape == shape
    assert plain.instrument.shape == (shape[0], n_instruments)
    assert len(plain.instrument_names) == n_instruments
    for part in (plain.target, plain.treatment, plain.instrument):
        assert set(np.unique(part)) == {0, 1}
    np.testing.assert_array_equal(bunch.data.to_numpy(), plain.data)
    assert not {plain.treatment_name, *plain.instrument_names} & set(plain.feature_names)
    assert "leak" in plain.DESCR
    with pytest.raises(ValueError, match="columns must name some of"):
        load(columns=["nothing"])


def test_instruments_can_be_chosen():
    assert load_labsup(instruments="samesex").instrument_names == ["samesex"]
    with pytest.raises(ValueError, match=r"instruments must name some of .*got \['boys2'\]"):
        load_labsup(instruments=["boys2"])
