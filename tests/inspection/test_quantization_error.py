"""QuantizationErrorDisplay: the points it draws are the measured ones."""

import numpy as np
import pytest

from skml.inspection import QuantizationErrorDisplay
from skml.quantization import GANQQuantizer, RTNQuantizer


@pytest.fixture(scope="module")
def layer():
    rng = np.random.default_rng(0)
    return rng.normal(size=(100, 12)), rng.normal(size=(8, 12)), rng.normal(size=(50, 12))


def test_points_are_the_layer_errors(layer):
    X, W, X_test = layer
    display = QuantizationErrorDisplay.from_estimator(GANQQuantizer(), X, W, bits=(3, 2))
    for bits, error in zip(display.bits, display.errors, strict=True):
        quantizer = GANQQuantizer(bits).fit(X)
        assert error == quantizer.error(W, quantizer.quantize(W))
    (line,) = display.lines_
    assert list(line.get_xdata()) == [2, 3]
    assert list(line.get_ydata()) == list(display.errors[::-1])
    assert display.ax_.get_yscale() == "log"
    held_out = QuantizationErrorDisplay.from_estimator(GANQQuantizer(), X, W, X_test=X_test)
    quantizer = GANQQuantizer(2).fit(X)
    R = (W - quantizer.transform(W)) @ X_test.T
    assert held_out.errors[0] == pytest.approx(np.sum(R**2) / np.sum((W @ X_test.T) ** 2), rel=1e-5)


def test_one_curve_for_each_quantizer(layer):
    X, W, _ = layer
    quantizers = {"GANQ": GANQQuantizer(), "rounding": RTNQuantizer()}
    display = QuantizationErrorDisplay.from_estimators(quantizers, X, W)
    assert [line.get_label() for line in display.lines_] == ["GANQ", "rounding"]
    assert (display.errors[:3] < display.errors[3:]).all()
    assert display.plot(color="k").lines_[0].get_color() == "k"
    again = QuantizationErrorDisplay(
        bits=display.bits, errors=display.errors, groups=display.groups
    ).plot(ax=display.ax_)
    assert again.figure_ is display.figure_


def test_messages(layer):
    X, W, _ = layer
    with pytest.raises(ValueError, match="errors must have one entry for each of the 2 bits"):
        QuantizationErrorDisplay(bits=[2, 3], errors=[0.1])
    with pytest.raises(ValueError, match="at least one quantizer"):
        QuantizationErrorDisplay.from_estimators({}, X, W)
