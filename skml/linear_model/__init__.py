"""Linear models."""

from skml.linear_model._ma_lasso import MALasso
from skml.linear_model._ma_lasso_cv import MALassoCV
from skml.linear_model._ma_lasso_path import ma_lasso_path
from skml.linear_model._ma_logistic_regression import MALogisticRegression
from skml.linear_model._shuffling_classifier import ShufflingSGDClassifier
from skml.linear_model._shuffling_gradient import shuffling_gradient
from skml.linear_model._shuffling_regressor import ShufflingSGDRegressor

__all__ = [
    "MALasso",
    "MALassoCV",
    "MALogisticRegression",
    "ShufflingSGDClassifier",
    "ShufflingSGDRegressor",
    "ma_lasso_path",
    "shuffling_gradient",
]
