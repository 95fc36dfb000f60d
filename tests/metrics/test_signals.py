"""Peak signal-to-noise ratio and overlap of shapes."""

import math

import numpy as np
import pytest
from sklearn.metrics import jaccard_score

from skml.metrics import intersection_over_union, peak_signal_noise_ratio


def test_psnr_by_hand():
    assert peak_signal_noise_ratio(np.zeros(4), np.full(4, 0.1)) == pytest.approx(20)
    assert peak_signal_noise_ratio(np.zeros(4), np.full(4, 0.1), data_range=10) == pytest.approx(40)
    assert peak_signal_noise_ratio([[1.0]], [[1.0]]) == math.inf


@pytest.mark.parametrize(
    "y_true",
    [
        np.random.default_rng(0).integers(0, 256, size=(5, 6, 3)).astype(np.uint8),
        np.random.default_rng(0).random((5, 6)),
        np.random.default_rng(0).random((5, 6)) * 2 - 1,
    ],
)
def test_psnr_is_that_of_scikit_image(y_true):
    metrics = pytest.importorskip("skimage.metrics")
    y_pred = y_true[::-1].copy()
    expected = metrics.peak_signal_noise_ratio(y_true, y_pred)
    assert peak_signal_noise_ratio(y_true, y_pred) == pytest.approx(expected)


def test_psnr_of_integers_takes_the_range_of_the_type():
    black, white = np.zeros(3, dtype=np.uint8), np.full(3, 255, dtype=np.uint8)
    assert peak_signal_noise_ratio(black, white) == pytest.approx(0)
    # Differences do not wrap around.
    assert peak_signal_noise_ratio(black, np.ones(3, dtype=np.uint8)) == pytest.approx(
        20 * math.log10(255)
    )


def test_overlap_is_the_jaccard_score_of_labels():
    rng = np.random.default_rng(0)
    a, b = rng.random(200), rng.random(200)
    expected = jaccard_score(a >= 0.3, b >= 0.3)
    shape = (5, 4, 10)
    assert intersection_over_union(
        a.reshape(shape), b.reshape(shape), threshold=0.3
    ) == pytest.approx(expected)
    assert intersection_over_union(a >= 0.3, b >= 0.3) == pytest.approx(expected)
    assert intersection_over_union(np.zeros(3), np.zeros(3)) == 1.0
    assert intersection_over_union(np.zeros(3), np.ones(3)) == 0.0


@pytest.mark.parametrize("metric", [peak_signal_noise_ratio, intersection_over_union])
def test_bad_input_is_refused(metric):
    with pytest.raises(ValueError, match=r"got the shapes \(2,\) and \(3,\)"):
        metric(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="y_pred must be finite"):
        metric(np.zeros(2), [0.0, np.nan])
    with pytest.raises(ValueError, match="y_true must hold numbers"):
        metric(np.array(["a", "b"]), np.zeros(2))


def test_psnr_needs_a_range_for_large_values():
    with pytest.raises(ValueError, match="data_range must be given for values from 0 to 255"):
        peak_signal_noise_ratio(np.array([0.0, 255.0]), np.zeros(2))
    with pytest.raises(ValueError, match="data_range must be positive, got -1"):
        peak_signal_noise_ratio(np.zeros(2), np.zeros(2), data_range=-1)
