"""The picture of effect bounds shows what the estimator says."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skml.causal import CATEBounder
from skml.datasets import make_iv_cate
from skml.inspection import CATEBoundsDisplay


@pytest.fixture(scope="module")
def data():
    return make_iv_cate("polygenic", 200, random_state=0)


@pytest.fixture(scope="module")
def bounder(data):
    estimator = CATEBounder(
        3, partitioner="kmeans", outcome_bounds=(0, 1), random_state=0,
        propensity_estimator=LogisticRegression(), outcome_estimator=LinearRegression(),
    )  # fmt: skip
    return estimator.fit(data.X, data.y, treatment=data.treatment, instrument=data.instrument)


def test_bounds_are_those_of_the_estimator_in_order(data, bounder):
    display = CATEBoundsDisplay.from_estimator(bounder, data.X, feature=1, tau=data.tau)
    order = np.argsort(data.X[:, 1])
    np.testing.assert_array_equal(display.x, data.X[order, 1])
    np.testing.assert_array_equal(display.bounds, bounder.predict_bounds(data.X)[order])
    np.testing.assert_array_equal(display.artists_[1].get_ydata(), data.tau[order])
    assert display.ax_.get_xlabel() == "x1"


def test_dataframes_name_the_axis_and_pipelines_are_followed(data):
    frame = pd.DataFrame(data.X, columns=["age", "income"])
    pipeline = make_pipeline(
        StandardScaler(),
        CATEBounder(
            partitioner="kmeans", outcome_bounds=(0, 1), random_state=0,
            propensity_estimator=LogisticRegression(), outcome_estimator=LinearRegression(),
        ),
    )  # fmt: skip
    pipeline.fit(
        frame, data.y, catebounder__treatment=data.treatment,
        catebounder__instrument=data.instrument,
    )  # fmt: skip
    display = CATEBoundsDisplay.from_estimator(pipeline, frame, feature="income")
    assert display.ax_.get_xlabel() == "income"
    np.testing.assert_allclose(display.bounds.mean(axis=1).mean(), pipeline.predict(frame).mean())


@pytest.mark.parametrize(("features", "n_columns"), [(None, 2), (4, 1), ((3, 7), 2)])
def test_cells_are_those_of_the_estimator(data, bounder, features, n_columns):
    display = CATEBoundsDisplay.from_cells(bounder, data.instrument, features=features)
    np.testing.assert_array_equal(display.cells, bounder.partition(data.instrument))
    assert display.instrument.shape == (200, n_columns)
    assert len(display.artists_) == 3
    if n_columns == 2:
        sizes = [len(artist.get_offsets()) for artist in display.artists_]
        np.testing.assert_array_equal(sizes, np.bincount(display.cells))


def test_one_instrument_may_be_a_vector():
    class Halves:
        def partition(self, Z):
            return (Z[:, 0] > 0).astype(int)

    display = CATEBoundsDisplay.from_cells(Halves(), np.array([-1.0, 1.0, 2.0]))
    assert display.ax_.get_ylabel() == "Rows"
    assert CATEBoundsDisplay(instrument=[[1.0]], cells=[0]).plot(ax=display.ax_) is not None


def test_bad_arguments_are_named(data, bounder):
    with pytest.raises(ValueError, match="feature must be one of the columns 0 to 1, got 2"):
        CATEBoundsDisplay.from_estimator(bounder, data.X, feature=2)
    with pytest.raises(TypeError, match="method predict_bounds, got LinearRegression"):
        CATEBoundsDisplay.from_estimator(LinearRegression(), data.X)
    with pytest.raises(ValueError, match="columns 0 to 49, got 50"):
        CATEBoundsDisplay.from_cells(bounder, data.instrument, features=50)
    with pytest.raises(ValueError, match="x and bounds belong together"):
        CATEBoundsDisplay(x=[0])
    with pytest.raises(ValueError, match="either x and bounds or instrument and cells"):
        CATEBoundsDisplay()
    with pytest.raises(ValueError, match=r"bounds must have the shape \(1, 2\), got \(1, 3\)"):
        CATEBoundsDisplay(x=[0], bounds=[[0, 1, 2]])
    with pytest.raises(ValueError, match=r"tau must have the shape \(1,\), got \(2,\)"):
        CATEBoundsDisplay(x=[0], bounds=[[0, 1]], tau=[1, 2])
    with pytest.raises(ValueError, match=r"instrument must have the shape \(1, 1\)"):
        CATEBoundsDisplay(instrument=[[1, 2, 3]], cells=[0])
