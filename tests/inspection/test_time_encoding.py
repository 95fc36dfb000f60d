"""TimeEncodingDisplay: what it draws is what the encoder has learnt."""

import warnings

import numpy as np
import pandas as pd
import pytest

from skml.inspection import TimeEncodingDisplay
from skml.preprocessing import FunctionalTimeEncoder, LeTETimeEncoder


@pytest.fixture(scope="module")
def encoder():
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 10, size=(50, 2))
    X = pd.DataFrame({"sent": t[:, 0], "seen": 1e9 + t[:, 1]})
    return LeTETimeEncoder(6, max_iter=10, random_state=0).fit(X, np.sin(t[:, 0]))


@pytest.mark.parametrize("column", [0, 1])
def test_functions_are_those_of_the_encoder(encoder, column):
    display = TimeEncodingDisplay.from_estimator(encoder, column=column, components=[0, 5])
    assert [line.get_label() for line in display.lines_] == ["Fourier 0", "spline 5"]
    for j, line in zip([0, 5], display.lines_, strict=True):
        x = line.get_xdata()
        assert (x[0], x[-1]) == (-3, 3)
        np.testing.assert_array_equal(
            line.get_ydata(), encoder.transformation(j, j, x, column=column)
        )
    assert display.figure_ is display.ax_.figure
    display = TimeEncodingDisplay.from_estimator(encoder)
    assert display.function_names == ["Fourier 0", "Fourier 1", "spline 3", "spline 4"]


@pytest.mark.parametrize("column", [0, 1])
def test_frequencies_and_encoding_are_those_of_the_encoder(encoder, column):
    display = TimeEncodingDisplay.from_estimator(encoder, column=column, kind="frequencies")
    (points,) = display.lines_
    np.testing.assert_array_equal(points.get_xdata(), encoder.omega_init_[column])
    np.testing.assert_array_equal(points.get_ydata(), np.abs(encoder.omega_[column]))
    display.plot(kind="encoding")
    times = display.lines_[0].get_xdata()
    np.testing.assert_array_equal(times[[0, -1]], encoder.time_range_[column])
    X = pd.DataFrame({"sent": times, "seen": times})
    with warnings.catch_warnings(action="ignore"):  # the other column is out of its range
        encoded = encoder.transform(X)[:, 6 * column : 6 * column + 6]
    for line, values in zip(display.lines_, encoded.T, strict=True):
        np.testing.assert_allclose(line.get_ydata(), values, atol=1e-6)
    assert display.ax_.get_xlabel() == ["sent", "seen"][column]


def test_encoder_without_learnt_functions_shows_frequencies():
    t = np.linspace(0, 1, 20).reshape(-1, 1)
    encoder = FunctionalTimeEncoder(4, max_iter=5, random_state=0).fit(t, t.ravel())
    display = TimeEncodingDisplay.from_estimator(encoder)
    assert display.ax_.get_ylabel() == "Learnt frequency"
    assert display.column == "x0"
    with pytest.raises(ValueError, match="kind='functions' needs an encoder with learnt"):
        display.plot(kind="functions")


def test_plot_draws_on_given_axes_and_passes_line_parameters(encoder):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    display = TimeEncodingDisplay.from_estimator(encoder, ax=ax, color="red")
    assert display.ax_ is ax
    assert display.lines_[0].get_color() == "red"


def test_bad_arguments_are_named(encoder):
    with pytest.raises(ValueError, match="column must be from 0 to 1, got 2"):
        TimeEncodingDisplay.from_estimator(encoder, column=2)
    with pytest.raises(ValueError, match=r"kind must be one of \('functions', .*, got 'all'"):
        TimeEncodingDisplay.from_estimator(encoder, kind="all")
    with pytest.raises(ValueError, match=r"encoding must have the shape .* = \(2, 1\) .*\(2, 2\)"):
        TimeEncodingDisplay(times=[0, 1], encoding=np.zeros((2, 2)), omega=[1], omega_init=[1])
