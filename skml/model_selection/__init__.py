"""Choice among the candidates of a search."""

from ._tradeoff_refit import TradeoffRefit

__all__ = ["TradeoffRefit"]
