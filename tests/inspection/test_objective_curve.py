"""The picture of a solver's objective shows what the solver recorded."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from skml.inspection import ObjectiveCurveDisplay
from skml.linear_model import ShufflingSGDClassifier, ShufflingSGDRegressor


def test_curve_of_a_regressor():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    model = ShufflingSGDRegressor(max_iter=7, random_state=0).fit(X, y)
    display = ObjectiveCurveDisplay.from_estimator(model, optimum=0.1, color="k")
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 8))
    np.testing.assert_allclose(line.get_ydata(), np.array(model.objective_curve_) - 0.1)
    assert display.ax_.get_yscale() == "log"
    assert line.get_color() == "k"


def test_one_curve_for_each_class():
    model = ShufflingSGDClassifier(max_iter=3, random_state=0).fit(*load_iris(return_X_y=True))
    display = ObjectiveCurveDisplay.from_estimator(model)
    assert [line.get_label() for line in display.lines_] == ["0", "1", "2"]
    assert display.ax_.get_ylabel() == "Objective"


def test_bad_arguments():
    with pytest.raises(TypeError, match="estimator must be fitted and have objective_curve_"):
        ObjectiveCurveDisplay.from_estimator(ShufflingSGDRegressor())
    with pytest.raises(ValueError, match="labels must have one entry for each of the 1 curves"):
        ObjectiveCurveDisplay(curves=[[1.0]], labels=["a", "b"])
