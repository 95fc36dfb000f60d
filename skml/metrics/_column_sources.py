"""Which input column each output column of a transformer comes from."""

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute._base import _BaseImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

# Listed one by one: OneToOneFeatureMixin only promises names, and Normalizer, which has it,
# mixes the columns of a row.
_ONE_TO_ONE = (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)


def step_sources(step, n_features):
    """Find the input column that each output column of a fitted transformer comes from.

    Parameters
    ----------
    step : transformer, None or "passthrough"
        A fitted step of a pipeline.
    n_features : int
        Number of input columns.

    Returns
    -------
    ndarray of shape (n_features_out,), dtype int, or None
        Indices of input columns; None if the columns do not come from one input each, or it
        cannot be told.
    """
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return np.arange(n_features)
    if hasattr(step, "source_indices_"):
        return np.asarray(step.source_indices_)
    if isinstance(step, _BaseImputer):
        return _imputer_sources(step)
    if isinstance(step, SelectorMixin):
        return step.get_support(indices=True)
    if isinstance(step, ColumnTransformer):
        return _column_transformer_sources(step)
    if isinstance(step, Pipeline):
        return _pipeline_sources(step, n_features)
    is_identity = isinstance(step, FunctionTransformer) and step.func is None
    if is_identity or isinstance(step, _ONE_TO_ONE):
        return np.arange(n_features)
    return None


def _imputer_sources(imputer):
    """Imputers drop columns that have no value, and may add indicators behind the others."""
    names_in = getattr(
        imputer, "feature_names_in_", [f"x{j}" for j in range(imputer.n_features_in_)]
    )
    position = {name: j for j, name in enumerate(names_in)}
    indicator = imputer.indicator_
    indicated = [] if indicator is None else list(indicator.features_)
    names_out = imputer.get_feature_names_out()
    kept = [position[name] for name in names_out[: len(names_out) - len(indicated)]]
    return np.array(kept + indicated, dtype=int)


def _column_transformer_sources(transformer):
    sources = np.full(
        max((part.stop for part in transformer.output_indices_.values()), default=0), -1
    )
    for name, step, _ in transformer.transformers_:
        part = transformer.output_indices_[name]
        if part.stop == part.start:
            continue
        inputs = np.asarray(transformer._transformer_to_input_indices[name], dtype=int)
        inner = step_sources(step, len(inputs))
        if inner is None or len(inner) != part.stop - part.start:
            return None
        sources[part] = inputs[inner]
    return sources


def _pipeline_sources(pipeline, n_features):
    sources = np.arange(n_features)
    for _, step in pipeline.steps:
        inner = step_sources(step, len(sources))
        if inner is None:
            return None
        sources = sources[inner]
    return sources
