"""Decision trees that learn to avoid missing values."""

from ._classifier import MADecisionTreeClassifier
from ._regressor import MADecisionTreeRegressor

__all__ = ["MADecisionTreeClassifier", "MADecisionTreeRegressor"]
