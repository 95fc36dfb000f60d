"""The comparison of two versions of Python sees what differs."""

import sys

import check_pythons
import numpy as np
import pytest

X = np.linspace(0, 1, 6).reshape(3, 2)


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (X.copy(), "identical"),
        (X + 1e-9, "equal to five digits"),
        (X + 1e-3, "different"),
        (X[:2], "different"),
        (np.where(X == 1, np.nan, X), "different"),
    ],
)
def test_outputs_are_compared(seen, verdict):
    assert check_pythons.compare({"transform": X}, {"transform": seen}) == verdict


def test_a_method_that_is_gone_is_a_difference():
    assert check_pythons.compare({"transform": X, "predict": X}, {"transform": X}) == "different"


def test_this_interpreter_is_nothing_to_compare_with():
    assert check_pythons.minor_version(sys.executable) == sys.version_info[:2]
    assert check_pythons.minor_version("no-such-python") is None
    with pytest.raises(SystemExit, match="as this one is"):
        check_pythons.find_interpreter(sys.executable)
