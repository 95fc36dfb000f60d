"""Measures that scikit-learn does not have."""

from ._bounds import bounds_coverage, mean_bounds_width
from ._reliance import missingness_reliance, missingness_reliance_scorer

__all__ = [
    "bounds_coverage",
    "mean_bounds_width",
    "missingness_reliance",
    "missingness_reliance_scorer",
]
