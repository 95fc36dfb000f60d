"""Transformers that keep what is missing visible to the model behind them."""

from ._nan_one_hot import NaNOneHotEncoder

__all__ = ["NaNOneHotEncoder"]
