"""SpectrumDisplay: what it draws is what the regressor has balanced."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from skml.implicit import INRRegressor
from skml.inspection import SpectrumDisplay


@pytest.fixture(scope="module")
def model():
    model = INRRegressor(hidden_width=8, max_iter=3, n_balanced=4, random_state=0)
    return model.fit_image(np.random.default_rng(0).random((6, 6)))


def test_spectra_are_those_of_the_regressor(model):
    display = SpectrumDisplay.from_estimator(model)
    before, after = display.lines_
    shown = model.eigenvalues_ > 0
    largest = model.eigenvalues_[0]
    np.testing.assert_array_equal(before.get_xdata(), np.arange(1, 37)[shown])
    np.testing.assert_array_equal(before.get_ydata(), model.eigenvalues_[shown] / largest)
    np.testing.assert_array_equal(after.get_ydata(), model.balanced_eigenvalues_[shown] / largest)
    assert np.ptp(after.get_ydata()[:5]) == 0
    assert np.ptp(before.get_ydata()[:5]) > 0
    assert display.figure_ is display.ax_.figure
    assert {before.get_label(), after.get_label()} == {"before balancing", "after balancing"}


def test_given_axes_and_line_parameters_are_used(model):
    _, ax = mpl.pyplot.subplots()
    display = SpectrumDisplay.from_estimator(model, ax=ax, color="red")
    assert display.ax_ is ax
    assert {line.get_color() for line in display.lines_} == {"red"}


def test_a_regressor_without_a_spectrum_is_refused(model):
    standard = INRRegressor(hidden_width=8, max_iter=1, training="standard")
    with pytest.raises(NotFittedError):
        SpectrumDisplay.from_estimator(standard)
    standard.fit_image(np.eye(4))
    with pytest.raises(ValueError, match="balanced no kernel.*training='standard'"):
        SpectrumDisplay.from_estimator(standard)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match=r"got shapes \(2,\) and \(1,\)"):
        SpectrumDisplay(eigenvalues=[2.0, 1.0], balanced_eigenvalues=[1.0])
