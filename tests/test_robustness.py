"""Every estimator over a 2-D array survives odd but legal input.

The data are small, and unlike what anybody would choose: single rows, constant and repeated
columns, ties, missing cells in odd places, numbers of any size, arrays that are views of others. A
fit may refuse them with a ValueError that says why; no other error may come out, and what is fitted
must answer with as many finite rows as it is asked for.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import get_tags

from skml.utils._contract_inputs import _DefaultInputs, fresh
from skml.utils._tags import takes_two_d_array
from skml.utils.estimator_checks import make_instance
from tests._estimators import CLASSES, quick_estimator, tiny_estimator

NAMES = [name for name, cls in CLASSES.items() if takes_two_d_array(make_instance(cls))]

# A teacher, a generator and a student are trained in one fit: fewer examples.
SLOW = {"ATEscDistiller", "DataFreeDistiller"}

pytestmark = pytest.mark.filterwarnings("ignore")


def strided(X):
    """The same values as every second row and column of a larger array."""
    larger = np.full((2 * X.shape[0], 2 * X.shape[1]), np.nan)
    larger[::2, ::2] = X
    return larger[::2, ::2]


def unaligned(X):
    """The same values in memory that begins one byte after an aligned address."""
    view = np.zeros(X.nbytes + 1, dtype=np.uint8)[1:].view(X.dtype).reshape(X.shape)
    view[...] = X
    return view


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "strided": strided,
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "unaligned": unaligned,
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
}


@pytest.mark.parametrize("name", NAMES)
def test_memory_layout_does_not_matter(name):
    estimator = tiny_estimator(name)
    inputs = _DefaultInputs(estimator)("small")
    inputs.fit(estimator)
    expected = inputs.outputs(estimator)
    for layout, change in LAYOUTS.items():
        changed = dataclasses.replace(inputs, X=change(inputs.X))
        other = fresh(estimator)
        changed.fit(other)
        for method, values in changed.outputs(other).items():
            np.testing.assert_allclose(
                values, expected[method], rtol=1e-6, atol=1e-8, err_msg=f"{layout}: {method}"
            )


@st.composite
def hostile_arrays(draw, allow_nan):
    """A small array with ties, repeated and constant columns, of any scale, missing cells."""
    n_samples, n_features = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    kind = draw(st.sampled_from(["ties", "normal", "constant", "repeated", "zeros"]))
    X = rng.normal(size=(n_samples, n_features))
    if kind == "ties":
        X = np.round(X)
    elif kind == "constant":
        X[:, 0] = 3.0
    elif kind == "repeated":
        X[:] = X[:, :1]
    elif kind == "zeros":
        X[:] = 0.0
    X *= 10.0 ** draw(st.sampled_from([0, 0, 0, -300, -30, 12, 30, 150]))
    dtype = draw(st.sampled_from([np.float64, np.float64, np.float32, np.int64]))
    if dtype != np.float64:
        X = np.clip(X, -1e9, 1e9).astype(dtype)
    if allow_nan and dtype != np.int64:
        missing = draw(st.sampled_from(["none", "cells", "column", "row", "corners", "all"]))
        X[_missing_cells(missing, X.shape, rng)] = np.nan
    return X


def _missing_cells(pattern, shape, rng):
    mask = np.zeros(shape, dtype=bool)
    if pattern == "cells":
        mask = rng.random(shape) < 0.4
    elif pattern == "column":
        mask[:, 0] = True
    elif pattern == "row":
        mask[-1] = True
    elif pattern == "corners":  # each row lacks a part, in blocks as where tables were joined
        mask[: shape[0] // 2, : shape[1] // 2] = mask[shape[0] // 2 :, shape[1] // 2 :] = True
    elif pattern == "all":
        mask[:] = True
    return mask


def target_for(estimator, X, seed):
    rng = np.random.default_rng(seed)
    if is_classifier(estimator):
        return rng.integers(0, 3, len(X))
    tags = get_tags(estimator).target_tags
    if not (is_regressor(estimator) or tags.required):
        return None
    y = rng.normal(size=len(X))
    y = np.abs(y) + 0.1 if tags.positive_only else y
    return y if tags.single_output else np.column_stack([y, y[::-1]])


@pytest.mark.parametrize("name", NAMES)
def test_hostile_arrays_are_fitted_or_refused(name):
    allow_nan = get_tags(quick_estimator(name)).input_tags.allow_nan

    @settings(max_examples=4 if name in SLOW else 20, suppress_health_check=list(HealthCheck))
    @given(X=hostile_arrays(allow_nan), seed=st.integers(0, 9))
    def check(X, seed):
        estimator = quick_estimator(name)
        if get_tags(estimator).input_tags.positive_only:
            X = np.abs(X)
        inputs = dataclasses.replace(
            _DefaultInputs(estimator)("small"), X=X, y=target_for(estimator, X, seed), malformed=()
        )
        try:
            inputs.fit(estimator)
        except ValueError:
            return
        except RuntimeError as error:
            # A loss may overflow on data of any scale; it has to say so.
            assert "loss became" in str(error) or "samples became" in str(error)  # noqa: PT017
            return
        for method, values in inputs.outputs(estimator).items():
            values = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
            assert len(values) == len(X), method
            if method == "transform":  # may hand on what is missing, but to no other row
                values = values[~np.isnan(X).any(axis=1)]
            assert values.dtype.kind not in "fc" or np.isfinite(values).all(), method

    check()
