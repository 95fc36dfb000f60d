"""Decision trees that learn to avoid missing values."""

from skml.tree._classifier import MADecisionTreeClassifier
from skml.tree._regressor import MADecisionTreeRegressor

__all__ = ["MADecisionTreeClassifier", "MADecisionTreeRegressor"]
