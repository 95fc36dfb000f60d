"""Decision trees that learn to avoid missing values."""

from skml.tree._classes import MADecisionTreeClassifier, MADecisionTreeRegressor

__all__ = ["MADecisionTreeClassifier", "MADecisionTreeRegressor"]
