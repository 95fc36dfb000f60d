"""Compiling the CUDA kernels without a device: PTX by numba, machine code by ptxas and NVRTC."""

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.metadata import files

from numba import cuda
from numba.cuda import types

ARCHITECTURES = [(8, 0), (8, 6), (8, 9), (9, 0)]
WORD, FLOAT, INT = types.uint32, types.float32, types.int64


def array(kind, dimensions):
    return types.Array(kind, dimensions, "C")


LUT_GEMV = (
    array(WORD, 1), array(FLOAT, 2), array(FLOAT, 2), array(FLOAT, 1), array(FLOAT, 3),
    INT, INT, INT,
)  # fmt: skip
UNIFORM_GEMV = (*LUT_GEMV[:2], *LUT_GEMV[1:], INT)
SMALL_BATCH = (
    array(WORD, 1), array(FLOAT, 1), array(FLOAT, 1), array(FLOAT, 2), array(FLOAT, 1),
    array(FLOAT, 3), INT, INT, INT, INT, INT,
)  # fmt: skip
GROUPED = (
    array(INT, 2), array(INT, 1), array(WORD, 1), array(FLOAT, 1), array(FLOAT, 1), array(FLOAT, 2),
    array(WORD, 2), array(FLOAT, 2), array(FLOAT, 1), array(FLOAT, 2),
)  # fmt: skip
ROUNDING = (
    array(INT, 2), array(INT, 1), array(FLOAT, 2), array(types.int8, 2), array(FLOAT, 2)
)  # fmt: skip
SPLITS = (array(FLOAT, 3), array(FLOAT, 1), array(FLOAT, 3))


@dataclass
class Compiled:
    """PTX of a kernel, and what ptxas says about the machine code that it makes of it."""

    ptx: str
    registers: int
    spilled: int
    stack: int
    shared: int

    def count(self, instruction):
        """Occurrences of an instruction whose name begins like this."""
        return len(re.findall(rf"\b{re.escape(instruction)}[\w.]*\s", self.ptx))


def compiled(kernel, signature, architecture, folder):
    """Compile a kernel for one architecture."""
    ptx, _ = cuda.compile_ptx(kernel.py_func, signature, cc=architecture)
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    return Compiled(ptx, *assemble(source, architecture))


def assemble(source, architecture, options=()):
    """Registers, spilled bytes, bytes of stack and of shared memory of a file of PTX."""
    name = "sm_" + "".join(map(str, architecture))
    target = source.with_suffix(".cubin")
    finished = subprocess.run(
        [tool("ptxas"), "-v", *options, f"-arch={name}", source, "-o", target],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    report = finished.stderr
    assert finished.returncode == 0, report
    assert target.stat().st_size > 0

    def total(pattern):
        return sum(int(number) for number in re.findall(pattern, report))

    assert "Used" in report, report
    return (
        max(int(number) for number in re.findall(r"Used (\d+) registers", report)),
        total(r"(\d+) bytes spill (?:stores|loads)"),
        total(r"(\d+) bytes stack frame"),
        total(r"(\d+) bytes smem"),
    )


@cache
def tool(name):
    """Path of a program of the wheel nvidia-cuda-nvcc, wherever pip has put it."""
    for path in files("nvidia-cuda-nvcc"):
        if path.name == name and path.parent.name == "bin":
            return str(path.locate())
    raise FileNotFoundError(f"the wheel nvidia-cuda-nvcc holds no {name}")


def nvrtc(text, *options):
    """Machine code that NVRTC makes of CUDA C++, or PTX if an option asks for compute_NN."""
    from cuda.bindings import nvrtc as library

    error, program = library.nvrtcCreateProgram(text.encode(), b"source.cu", 0, [], [])
    assert int(error) == 0
    options = [option.encode() for option in options]
    (error,) = library.nvrtcCompileProgram(program, len(options), options)
    log = _read(program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog)
    assert int(error) == 0, log.decode()
    if any(b"compute_" in option for option in options):
        return _read(program, library.nvrtcGetPTXSize, library.nvrtcGetPTX).rstrip(b"\0").decode()
    return _read(program, library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN)


def _read(program, get_size, get):
    error, size = get_size(program)
    assert int(error) == 0
    # The library writes into the object. One of a single byte would be Python's own, shared by all.
    buffer = bytes(size + 2)
    (error,) = get(program, buffer)
    assert int(error) == 0
    return buffer[:size]
