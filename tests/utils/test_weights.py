"""Weights of the rows are refused where no learner could use them."""

import numpy as np
import pytest
from scipy import sparse

from skml.utils._weights import validated_weight

X = np.arange(6.0).reshape(3, 2)


def test_no_weights_stay_none():
    assert validated_weight(None, X) is None


@pytest.mark.parametrize("rows", [X, sparse.csr_array(X)])
@pytest.mark.parametrize("given", [[1, 0, 2], np.float32([1, 0, 2])])
def test_weights_become_float64(rows, given):
    weight = validated_weight(given, rows)
    np.testing.assert_array_equal(weight, [1.0, 0.0, 2.0])
    assert weight.dtype == np.float64


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, -2, 1], "Negative values in data passed to `sample_weight`.* got -2.0"),
        ([0, 0, 0], "positive sum|non-zero"),
        ([1, np.nan, 1], "sample_weight contains NaN"),
        ([1, 1], r"sample_weight.shape == \(2,\), expected \(3,\)"),
    ],
)
def test_useless_weights_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        validated_weight(given, X)
