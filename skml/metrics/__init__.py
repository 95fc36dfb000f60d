"""Measures that scikit-learn does not have."""

from ._attack_success import attack_success_rate
from ._bounds import bounds_coverage, mean_bounds_width
from ._reliance import missingness_reliance, missingness_reliance_scorer
from ._signals import intersection_over_union, peak_signal_noise_ratio

__all__ = [
    "attack_success_rate",
    "bounds_coverage",
    "intersection_over_union",
    "mean_bounds_width",
    "missingness_reliance",
    "missingness_reliance_scorer",
    "peak_signal_noise_ratio",
]
