"""Matrix products that read packed codes, on whatever vector units the machine has."""

from skml.quantization._packing import pack_codes, unpack_codes

from ._grouped import grouped_matmul
from ._info import kernel_info
from ._integer import int8_matmul
from ._matmul import lut_matmul, uniform_matmul

__all__ = [
    "grouped_matmul",
    "int8_matmul",
    "kernel_info",
    "lut_matmul",
    "pack_codes",
    "uniform_matmul",
    "unpack_codes",
]
