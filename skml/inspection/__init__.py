"""Pictures of what the methods trade off; matplotlib is imported on use only."""

from ._reliance_curve import RelianceCurveDisplay

__all__ = ["RelianceCurveDisplay"]
