"""Transformers that keep what is missing visible, and encoders of time learnt with the task."""

from skml.utils._optional import lazy_exports

from ._nan_one_hot import NaNOneHotEncoder

__all__ = ["FunctionalTimeEncoder", "LeTEEncoding", "LeTETimeEncoder", "NaNOneHotEncoder"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "FunctionalTimeEncoder": "_functional_time_encoder",
        "LeTEEncoding": "_lete_encoding",
        "LeTETimeEncoder": "_lete",
    },
    extra="torch",
    namespace=globals(),
)
