"""Ensembles of trees that learn to avoid missing values."""

from ._boosting_classifier import MAGradientBoostingClassifier
from ._boosting_regressor import MAGradientBoostingRegressor
from ._forest_classifier import MARandomForestClassifier
from ._forest_regressor import MARandomForestRegressor

__all__ = [
    "MAGradientBoostingClassifier",
    "MAGradientBoostingRegressor",
    "MARandomForestClassifier",
    "MARandomForestRegressor",
]
