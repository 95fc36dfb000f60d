"""Contract checks of use: Pipeline, GridSearchCV, threads, dataframes out.

Each check is called as ``check(name, estimator, make_inputs=...)`` and raises AssertionError.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import SkipTest

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from ._contract_compare import assert_same
from ._contract_inputs import accepted, fitted, fresh
from ._tags import takes_two_d_array

_N_THREADS = 8
_N_FITS = 3


class _Identity(TransformerMixin, BaseEstimator):
    """Hands on whatever it gets."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


def _requesting(estimator, inputs):
    """The estimator, which now asks for its extra arrays in each method that takes them."""
    for method in ("fit", "score", "predict", "transform", "decision_function", "predict_proba"):
        names = {**inputs.fit_params, **(inputs.predict_params if method != "fit" else {})}
        names = accepted(getattr(estimator, method), names) if hasattr(estimator, method) else {}
        request = getattr(estimator, f"set_{method}_request", None)
        if names and request is not None:
            request(**dict.fromkeys(names, True))
    return estimator


def check_pipeline(name, estimator_orig, *, make_inputs):
    """As the last step of a Pipeline, with routed arrays, the outputs are the same."""
    estimator, inputs = fitted(estimator_orig, make_inputs)
    with config_context(enable_metadata_routing=True):
        step = _requesting(fresh(estimator_orig), inputs)
        pipeline = Pipeline([("identity", _Identity()), ("step", step)])
        inputs.fit(pipeline)
        X = inputs.X if inputs.predict_X is None else inputs.predict_X
        for method in inputs.method_names(estimator):
            if hasattr(Pipeline, method):
                params = accepted(getattr(step, method), inputs.predict_params)
                result = getattr(pipeline, method)(X, **params)
                assert_same(inputs.call(estimator, method), result, f"Pipeline.{method} of {name}")


def check_grid_search(name, estimator_orig, *, make_inputs):
    """GridSearchCV over a Pipeline that ends in the estimator gives finite scores."""
    inputs = make_inputs("small")
    if inputs.scoring is None and not hasattr(estimator_orig, "score"):
        assert takes_two_d_array(estimator_orig) or hasattr(estimator_orig, "transform"), (
            f"{name} has no score method: register ContractInputs(scoring=...) for it."
        )
        raise SkipTest(f"{name} has no score method.")
    with config_context(enable_metadata_routing=True):
        step = _requesting(fresh(estimator_orig), inputs)
        grid = {f"step__{key}": values for key, values in inputs.param_grid.items()}
        search = GridSearchCV(
            Pipeline([("identity", _Identity()), ("step", step)]),
            grid,
            cv=inputs.cv,
            scoring=inputs.scoring,
            error_score="raise",
        )
        inputs.fit(search)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all(), f"GridSearchCV over {name} scores {scores}."


def check_threads(name, estimator_orig, *, make_inputs):
    """Output methods called from eight threads at once give what one thread gives."""
    estimator, inputs = fitted(estimator_orig, make_inputs)
    expected = inputs.outputs(estimator)
    barrier = threading.Barrier(_N_THREADS)

    def work():
        results = []
        for _ in range(3):
            barrier.wait(timeout=60)
            results.append(inputs.outputs(estimator))
        return results

    with ThreadPoolExecutor(_N_THREADS) as pool:
        futures = [pool.submit(work) for _ in range(_N_THREADS)]
    for future in futures:
        for result in future.result():
            assert_same(expected, result, f"{name} in {_N_THREADS} threads")


def check_fits_in_threads(name, estimator_orig, *, make_inputs):
    """Estimators that are fitted in threads side by side are the one that is fitted alone."""
    estimator, inputs = fitted(estimator_orig, make_inputs)
    expected = inputs.outputs(estimator)
    with ThreadPoolExecutor(_N_FITS) as pool:
        futures = [pool.submit(fitted, estimator_orig, make_inputs) for _ in range(_N_FITS)]
    for future in futures:
        other, _ = future.result()
        assert_same(expected, inputs.outputs(other), f"{name}, one of {_N_FITS} fitted at once")


def check_transformer_dataframes(name, estimator_orig, *, make_inputs):
    """``set_output`` gives dataframes whose columns are ``get_feature_names_out()``."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise SkipTest("pandas is not installed.") from error
    estimator, inputs = fitted(estimator_orig, make_inputs)
    expected = inputs.call(estimator, "transform")
    if not (isinstance(expected, np.ndarray) and expected.ndim == 2):
        return
    for method in ("set_output", "get_feature_names_out"):
        assert callable(getattr(estimator, method, None)), f"{name} has no method {method}."
    names = estimator.get_feature_names_out()
    assert isinstance(names, np.ndarray), f"{name}.get_feature_names_out must return an array."
    assert names.dtype == object, f"{name}.get_feature_names_out has the dtype {names.dtype}."
    assert len(set(names)) == len(names) == expected.shape[1], (
        f"{name}.get_feature_names_out gives {len(names)} names for {expected.shape[1]} columns."
    )
    estimator.set_output(transform="pandas")
    frame = inputs.call(estimator, "transform")
    assert isinstance(frame, pd.DataFrame), f"{name}.transform ignores set_output."
    assert list(frame.columns) == list(names), f"{name}.transform names other columns."
    np.testing.assert_array_equal(frame.to_numpy(), expected, err_msg=f"{name} as a dataframe")
    if takes_two_d_array(estimator) and isinstance(inputs.X, np.ndarray):
        _check_dataframe_in(name, estimator_orig, inputs, pd)


def _check_dataframe_in(name, estimator_orig, inputs, pd):
    columns = [f"column {number}" for number in range(inputs.X.shape[1])]
    index = [f"row {number}" for number in range(len(inputs.X))]
    estimator = fresh(estimator_orig).set_output(transform="pandas")
    frame = pd.DataFrame(inputs.X, columns=columns, index=index)
    args = () if inputs.y is None else (inputs.y,)
    result = estimator.fit(frame, *args, **inputs.fit_params).transform(frame)
    seen = list(getattr(estimator, "feature_names_in_", ()))
    assert seen == columns, f"{name}: feature_names_in_ is {seen} instead of the columns."
    same_rows = len(result) != len(frame) or list(result.index) == index
    assert same_rows, f"{name}.transform loses the index of the dataframe."
