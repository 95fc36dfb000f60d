"""Weights of a few bits: packed storage and the kernels that multiply with it."""

from skml.quantization._weights import LUTWeight, UniformWeight
from skml.quantization.kernels import (
    kernel_info,
    lut_matmul,
    pack_codes,
    uniform_matmul,
    unpack_codes,
)

__all__ = [
    "LUTWeight",
    "UniformWeight",
    "kernel_info",
    "lut_matmul",
    "pack_codes",
    "uniform_matmul",
    "unpack_codes",
]
