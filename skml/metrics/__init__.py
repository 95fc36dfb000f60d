"""Measures that scikit-learn does not have."""

from ._reliance import missingness_reliance, missingness_reliance_scorer

__all__ = ["missingness_reliance", "missingness_reliance_scorer"]
