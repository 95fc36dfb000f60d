"""Ensembles of trees that learn to avoid missing values."""

from skml.ensemble._boosting_classifier import MAGradientBoostingClassifier
from skml.ensemble._boosting_regressor import MAGradientBoostingRegressor
from skml.ensemble._forest_classifier import MARandomForestClassifier
from skml.ensemble._forest_regressor import MARandomForestRegressor

__all__ = [
    "MAGradientBoostingClassifier",
    "MAGradientBoostingRegressor",
    "MARandomForestClassifier",
    "MARandomForestRegressor",
]
