"""Ensembles of trees that learn to avoid missing values."""

from skml.ensemble._forest_classifier import MARandomForestClassifier
from skml.ensemble._forest_regressor import MARandomForestRegressor

__all__ = ["MARandomForestClassifier", "MARandomForestRegressor"]
