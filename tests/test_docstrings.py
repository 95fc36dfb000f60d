"""The docstring checker must catch what it is there to catch."""

import importlib
import sys

import check_docstrings as checker
import pytest
from public_api import PublicName

GOOD = '''
"""A module."""

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions


class Good(BaseEstimator):
    """Fit nothing.

    Parameters
    ----------
    alpha : float, default=1.0
        The price.
    cap : int or None, default=None
        Largest number of rows.
    device : {"auto", "cpu"}, default="cpu"
        Where to train: "cpu", "auto" or a torch device string.

    Attributes
    ----------
    n_seen_ : int
        Rows seen.

    References
    ----------
    A paper.

    Examples
    --------
    >>> Good().alpha
    1.0
    """

    _parameter_constraints = {
        "alpha": [float],
        "cap": [int, None],
        "device": [StrOptions({"auto", "cpu"})],
    }

    def __init__(self, alpha=1.0, cap=None, device="cpu"):
        self.alpha = alpha
        self.cap = cap
        self.device = device

    def fit(self, X, y=None):
        """Count the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        Good
            The fitted estimator.
        """
        self.n_seen_ = len(X)
        return self
'''


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that imports the text of a module and gives its class Good."""
    monkeypatch.syspath_prepend(tmp_path)
    loaded = []

    def load(text, name):
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        loaded.append(name)
        return importlib.import_module(name).Good

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


def problems(cls, name):
    checks = checker.selected_checks()
    entry = PublicName(name, "Good", cls)
    found = {code for code, _ in checker.numpydoc_problems(entry.path, checks)}
    found |= {code for _, code, _ in checker.class_problems(entry, checks, set())}
    return found | {code for code, _ in checker.estimator_problems(cls)}


def test_a_complete_docstring_passes(load):
    assert problems(load(GOOD, "skml_good"), "skml_good") == set()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('device="cpu"):', 'device="cpu", beta=2):', "PR01"),
        ("alpha : float, default=1.0", "gamma : float, default=1.0", "PR02"),
        ("        The price.\n", "", "PR07"),
        ("Fit nothing.", "Fit nothing", "SS03"),
        (
            "        Returns\n        -------\n        Good\n            The fitted estimator.\n",
            "",
            "RT01",
        ),
        ("        y : None\n            Ignored.\n", "", "PR01"),
        ("n_seen_ : int\n        Rows seen.", "other_ : int\n        Rows seen.", "SK01"),
        ("Rows seen.", "Rows seen, see seen_rows_.", "SK04"),
        ("float, default=1.0", "float, default=2.0", "SK05"),
        ("float, default=1.0", "float", "SK05"),
        ("int or None, default=None", "int, default=None", "SK06"),
        ('default="cpu"\n', "default='cpu'\n", "SK06"),
        ("n_seen_ : int", "n_seen_ : ndarray of int of shape (1,)", "SK06"),
        ("n_seen_ : int", "n_seen_ : int, default=0", "SK06"),
        ("Where to train:", "Where training happens:", "SK07"),
        ('"cap": [int, None]', '"cap": [int]', "SK08"),
        ('"alpha": [float]', '"alpha": [float, None]', "SK08"),
        ('{"auto", "cpu"}, default', '{"auto", "cpu", "tpu"}, default', "SK08"),
        ("    References\n    ----------\n    A paper.\n", "", "SK02"),
        ("    Examples\n    --------\n    >>> Good().alpha\n    1.0\n", "", "SK02"),
    ],
)
def test_an_incomplete_docstring_is_caught(load, old, new, code):
    assert GOOD.count(old) == 1
    name = f"skml_broken_{code.lower()}"
    assert code in problems(load(GOOD.replace(old, new), name), name)


def test_parameters_and_returns_are_among_the_selected_checks():
    assert {"PR01", "PR02", "PR07", "RT01", "GL08"} <= checker.selected_checks()
