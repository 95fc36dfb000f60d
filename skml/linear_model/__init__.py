"""Linear models."""

from ._ma_lasso import MALasso
from ._ma_lasso_cv import MALassoCV
from ._ma_lasso_path import ma_lasso_path
from ._ma_logistic_regression import MALogisticRegression
from ._shuffling_classifier import ShufflingSGDClassifier
from ._shuffling_gradient import shuffling_gradient
from ._shuffling_regressor import ShufflingSGDRegressor

__all__ = [
    "MALasso",
    "MALassoCV",
    "MALogisticRegression",
    "ShufflingSGDClassifier",
    "ShufflingSGDRegressor",
    "ma_lasso_path",
    "shuffling_gradient",
]
