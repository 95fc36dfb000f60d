"""Weights of a few bits: quantizers, packed storage, and the kernels that multiply with it."""

from skml.utils._optional import lazy_exports

from ._base import BaseWeightQuantizer
from ._ganq_quantizer import GANQQuantizer
from ._gptq_quantizer import GPTQQuantizer
from ._kmeans import KMeansQuantizer
from ._quantized_estimator import QuantizedEstimator
from ._rtn import RTNQuantizer
from ._weights import LUTWeight, UniformWeight
from .kernels import (
    grouped_matmul,
    int8_matmul,
    kernel_info,
    lut_matmul,
    pack_codes,
    uniform_matmul,
    unpack_codes,
)

__all__ = [
    "BaseWeightQuantizer",
    "GANQQuantizer",
    "GPTQQuantizer",
    "KMeansQuantizer",
    "LUTLinear",
    "LUTWeight",
    "QuantizedEstimator",
    "RTNQuantizer",
    "UniformWeight",
    "grouped_matmul",
    "int8_matmul",
    "kernel_info",
    "lut_matmul",
    "pack_codes",
    "quantize_module",
    "uniform_matmul",
    "unpack_codes",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {"LUTLinear": "_lut_linear", "quantize_module": "_quantize_module"},
    extra="torch",
    namespace=globals(),
)
