"""Linear models."""

from skml.linear_model._ma_lasso import MALasso
from skml.linear_model._ma_lasso_cv import MALassoCV
from skml.linear_model._ma_lasso_path import ma_lasso_path
from skml.linear_model._ma_logistic_regression import MALogisticRegression

__all__ = [
    "MALasso",
    "MALassoCV",
    "MALogisticRegression",
    "ma_lasso_path",
]
