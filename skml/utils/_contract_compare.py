"""Equality of what estimators return, and the state of the process around them."""

import contextlib
import os
import random
import re
import sys
import warnings
from collections.abc import Mapping

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info


def assert_same(first, second, what):
    """Assert that two outputs are identical: type, shape, dtype and every bit but NaN's."""
    assert type(first) is type(second), f"{what}: {type(first)} became {type(second)}."
    if isinstance(first, Mapping):
        assert list(first) == list(second), f"{what}: keys {list(first)} became {list(second)}."
        for key in first:
            assert_same(first[key], second[key], f"{what}[{key!r}]")
    elif isinstance(first, (list, tuple)):
        assert len(first) == len(second), f"{what}: length {len(first)} became {len(second)}."
        for index, (one, other) in enumerate(zip(first, second, strict=True)):
            assert_same(one, other, f"{what}[{index}]")
    elif sp.issparse(first):
        assert_same(first.toarray(), second.toarray(), what)
    elif isinstance(first, (np.ndarray, np.generic)) or _is_tensor(first):
        _assert_same_array(_as_array(first), _as_array(second), what)
    elif hasattr(first, "to_numpy"):
        assert list(getattr(first, "columns", ())) == list(getattr(second, "columns", ())), what
        _assert_same_array(first.to_numpy(), second.to_numpy(), what)
    else:
        same = joblib.hash(first) == joblib.hash(second) or (first == second) is True
        assert same, f"{what}: {first!r} became {second!r}."


def _assert_same_array(first, second, what):
    assert first.shape == second.shape, f"{what}: shape {first.shape} became {second.shape}."
    assert first.dtype == second.dtype, f"{what}: dtype {first.dtype} became {second.dtype}."
    if first.dtype.kind == "O":
        assert_same(first.tolist(), second.tolist(), what)
    elif not np.array_equal(first, second, equal_nan=first.dtype.kind in "fcmM"):
        n_different = np.count_nonzero(first != second)
        raise AssertionError(f"{what}: {n_different} of {first.size} values differ.")


def _is_tensor(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _as_array(value):
    return value.detach().cpu().numpy() if _is_tensor(value) else np.asarray(value)


def digest(value):
    """Hash of a value's content, to see whether it was changed in place."""
    return joblib.hash(value)


@contextlib.contextmanager
def raises(errors, match, what):
    """Assert that the block raises one of `errors` with a message that contains `match`."""
    expected = " or ".join(kind.__name__ for kind in errors)
    try:
        yield
    except Exception as error:
        seen = error
    else:
        raise AssertionError(f"{what}: nothing was raised, expected {expected}.")
    if not isinstance(seen, errors):
        message = f"{what}: expected {expected}, got {type(seen).__name__}: {seen}"
        raise AssertionError(message) from seen
    if not re.search(match, str(seen), flags=re.IGNORECASE):
        message = f"{what}: the message {str(seen)!r} does not contain {match!r}."
        raise AssertionError(message) from seen


def outputs_or_none(inputs, estimator, what):
    """Outputs of an estimator, or None when each of its methods raises NotFittedError."""
    results, n_refusals = {}, 0
    names = inputs.method_names(estimator)
    for name in names:
        try:
            results[name] = inputs.call(estimator, name)
        except NotFittedError:
            n_refusals += 1
        except Exception as error:
            raise AssertionError(
                f"{what}: {name} raises {type(error).__name__} ({error}) instead of NotFittedError."
            ) from error
    assert n_refusals in {0, len(names)}, f"{what}: only {n_refusals} methods say not fitted."
    return None if n_refusals else results


def process_state():
    """What an estimator shares with the rest of the process, as comparable values by name."""
    numpy_name, numpy_keys, *numpy_rest = np.random.get_state()  # noqa: NPY002
    state = {
        "the random state of numpy": (numpy_name, numpy_keys.tolist(), *numpy_rest),
        "the random state of the random module": random.getstate(),
        "numpy's floating-point error handling": np.geterr(),
        "os.environ": dict(os.environ),
        "warnings.filters": list(warnings.filters),
        "thread counts": {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()},
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        state |= {
            "the random state of torch": torch.random.get_rng_state().tolist(),
            "torch.get_num_threads()": torch.get_num_threads(),
            "torch.is_grad_enabled()": torch.is_grad_enabled(),
            "torch.get_default_dtype()": torch.get_default_dtype(),
            "torch's deterministic mode": torch.are_deterministic_algorithms_enabled(),
        }
    return state


def assert_same_process_state(before, after, what):
    """Assert that nothing known before has changed; libraries loaded since then may be new."""
    for name, value in before.items():
        seen = after[name]
        if name == "thread counts":  # a library loaded during the call is no change
            seen = {path: seen.get(path, count) for path, count in value.items()}
        assert value == seen, f"{what} changed {name}."


def read_only(value):
    """Copy of nested containers whose numpy arrays cannot be written to."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.setflags(write=False)
        return value
    if type(value) in (list, tuple):
        return type(value)(read_only(item) for item in value)
    if type(value) is dict:
        return {key: read_only(item) for key, item in value.items()}
    return value
