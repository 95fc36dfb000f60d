"""Discovery of estimators, contract checks and the small pieces that several methods share."""

__all__ = ["discovery", "estimator_checks"]
