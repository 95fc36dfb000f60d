"""Extra arrays and inputs for the contract checks of the bound estimators."""

import numpy as np

from skml.causal import CATEBounder, DiscreteCATEBounder
from skml.utils.estimator_checks import (
    ContractInputs,
    Malformed,
    register_inputs,
    with_extra_arrays,
)


def treatment_of(X, rng):
    return _stripes(X, rng)


def instrument_of(X, rng):
    return X @ rng.normal(size=(X.shape[1], 2))


def levels_of(X, rng):
    rng.normal(size=X.shape[1])  # other directions than the treatment
    return _stripes(X, rng)


def _stripes(X, rng):
    """0 and 1 in about equal shares, also where all of X is positive."""
    return (np.sin(35 * X @ rng.normal(size=X.shape[1])) > 0).astype(int)


CATEBounderWithArrays = with_extra_arrays(
    CATEBounder, {"treatment": treatment_of, "instrument": instrument_of}
)
DiscreteCATEBounderWithArrays = with_extra_arrays(
    DiscreteCATEBounder, {"treatment": treatment_of, "instrument": levels_of}
)


@register_inputs(CATEBounder)
def make_inputs(size):
    inputs = make_rows(size)
    inputs.param_grid = {"n_cells": [2, 3]}
    return inputs


@register_inputs(DiscreteCATEBounder)
def make_discrete_inputs(size):
    inputs = make_rows(size)
    instrument = (inputs.fit_params["instrument"][:, 0] > 0).astype(int)
    inputs.fit_params["instrument"] = instrument
    inputs.param_grid = {"bounds": ["manski"]}
    inputs.malformed = (
        *inputs.malformed[:-1],
        Malformed(
            {"fit_params": {**inputs.fit_params, "instrument": np.arange(len(inputs.X))}},
            r"instrument has \d+ levels",
        ),
    )
    return inputs


def make_rows(size):
    rng = np.random.default_rng(0 if size == "small" else 1)
    n = 60 if size == "small" else 90
    X, Z, u = rng.normal(size=(n, 2)), rng.normal(size=(n, 3)), rng.normal(size=n)
    treatment = (Z[:, 0] + u + rng.normal(size=n) > 0).astype(int)
    y = 0.3 * X[:, 0] + u + treatment
    arrays = {"treatment": treatment, "instrument": Z}
    one_arm = {**arrays, "treatment": np.zeros(n, dtype=int)}
    three = {**arrays, "treatment": np.arange(n) % 3}
    short = {**arrays, "instrument": Z[:-1]}
    infinite = {**arrays, "treatment": np.where(np.arange(n) == 3, np.nan, treatment)}
    spoiled = Z.copy()
    spoiled[2, 1] = np.nan
    return ContractInputs(
        X=X,
        y=y,
        fit_params=arrays,
        methods=("predict", "predict_bounds"),
        malformed=(
            Malformed({"fit_params": {}}, r"treatment and instrument.*set_config"),
            Malformed({"fit_params": {"treatment": treatment}}, r"needs the instrument"),
            Malformed({"fit_params": one_arm}, r"treatment must have two classes, got 1"),
            Malformed({"fit_params": three}, r"treatment must have two classes, got 3"),
            Malformed({"fit_params": short}, r"X and instrument have inconsistent lengths"),
            Malformed({"fit_params": infinite}, r"treatment contains NaN"),
            Malformed({"y": y[:-1]}, r"inconsistent"),
            Malformed({"y": np.where(y == y[0], np.nan, y)}, r"nan"),
            Malformed({"X": X[:, 0]}, r"2D"),
            Malformed({"predict_X": X[:, :1]}, r"features"),
            Malformed({"fit_params": {**arrays, "instrument": spoiled}}, r"instrument.*nan"),
        ),
    )
