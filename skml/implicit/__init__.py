"""Implicit neural representations: networks from coordinates to values that keep fine detail."""

from skml.utils._optional import lazy_exports

__all__ = [
    "CoordinateMLP",
    "INRRegressor",
    "adjust_gradients",
    "balancing_matrix",
    "empirical_ntk",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CoordinateMLP": "_networks",
        "INRRegressor": "_inr_regressor",
        "adjust_gradients": "_balancing",
        "balancing_matrix": "_balancing",
        "empirical_ntk": "_empirical_ntk",
    },
    extra="torch",
    namespace=globals(),
)
