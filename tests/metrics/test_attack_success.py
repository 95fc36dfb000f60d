"""The attack success rate."""

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning

from skml.metrics import attack_success_rate


def test_rows_of_the_target_do_not_count():
    y_true = np.array(["a", "b", "c", "a", "b"])
    y_pred = np.array(["a", "a", "c", "b", "a"])
    assert attack_success_rate(y_true, y_pred, "a") == pytest.approx(2 / 3)
    assert attack_success_rate(y_true, y_pred, "c") == 0


def test_weights():
    value = attack_success_rate([0, 1, 1], [0, 0, 1], 0, sample_weight=[5, 3, 1])
    assert value == pytest.approx(0.75)
    repeated = attack_success_rate([1, 1, 1, 1], [0, 0, 0, 1], 0)
    assert value == repeated


def test_nothing_to_count():
    with pytest.warns(UndefinedMetricWarning, match="every sample has the label 1"):
        assert attack_success_rate([1, 1], [0, 1], 1) == 0
    assert np.isnan(attack_success_rate([1], [1], 1, zero_division=np.nan))
    assert attack_success_rate([1], [1], 1, zero_division=1.0) == 1
    with pytest.raises(ValueError, match="zero_division must be"):
        attack_success_rate([1], [1], 1, zero_division="raise")


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        attack_success_rate([1, 2], [1], 1)
