"""Cases for the CUDA kernels in numba's simulator, in a process of their own.

The simulator must be asked for before numba is imported, so the tests start this file as a program.
It reads names of cases, and answers each with one line: an object of JSON with the largest errors.
One process serves all cases, since loading numba and torch takes as long as some of them.

A simulated block is one Python thread per CUDA thread. Numba lets them all run and polls them; here
they take turns instead, each running until it waits for the others. That is ten times faster, and
the same every time.
"""

import json
import os
import subprocess
import sys
import threading
import traceback
from pathlib import Path

HERE = Path(__file__).resolve()


class Simulator:
    """The process that runs the cases."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(HERE)],
            env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, case):
        """What a case measured; a failure inside it is raised here."""
        self._process.stdin.write(case + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "The simulator has died."
        result = json.loads(answer)
        assert "traceback" not in result, result["traceback"]
        return result

    def stop(self):
        """End the process, whatever it does, and close its files."""
        self._process.kill()
        self._process.communicate()


def serve():
    """Answer the names of cases that come in."""
    for case in sys.stdin:
        try:
            result = globals()[case.strip()]()
        except Exception:
            result = {"traceback": traceback.format_exc()}
        print(json.dumps(result), flush=True)


def take_turns():
    """Let the threads of a simulated block run one after the other."""
    import numpy as np
    from numba.cuda import types
    from numba.cuda.np import numpy_support
    from numba.cuda.simulator import kernel, kernelapi

    class TurnThread(kernel.BlockThread):
        def __init__(self, *args):
            super().__init__(*args)
            self.done, self.turn = False, threading.Lock()
            self.turn.acquire()

        def run(self):
            self.turn.acquire()
            try:
                super().run()
            finally:
                self.done = True
                self._manager.back.release()

        def syncthreads(self):
            self._manager.back.release()
            self.turn.acquire()
            if self.abort:
                raise RuntimeError("another thread of the block failed")

    def run(self, grid_point, *args):
        self.back, error = threading.Lock(), None
        self.back.acquire()
        alive = [
            TurnThread(lambda: self._f(*args), self, grid_point, point, self._debug)
            for point in np.ndindex(*self._block_dim)
        ]
        for thread in alive:
            thread.start()
        while alive:
            for thread in alive:
                thread.abort = error is not None
                thread.turn.release()
                self.back.acquire()
                error = error or thread.exception
            alive = [thread for thread in alive if not thread.done]
        if error:
            raise error[0].with_traceback(error[1])

    def shared_array(self, shape, dtype, alignment=None):
        caller = sys._getframe(1)
        key = caller.f_code.co_filename, caller.f_lineno
        if key not in self._allocations:
            if isinstance(dtype, types.Type):
                dtype = numpy_support.as_dtype(dtype)
            array = np.empty(shape, dtype)
            # What was there before is anything: a kernel that relies on zeros shall fail.
            array.view(np.uint8)[:] = 0xFF
            self._allocations[key] = array
        return self._allocations[key]

    kernel.BlockManager.run = run
    kernelapi.FakeCUDAShared.array = shared_array


def lut_error(m, n, bits, n_samples, bias=False, **options):
    """Error of ``lut_matmul`` relative to the largest result, with NaN behind the inputs."""
    weight = lut_weight(m, n, bits, **options)
    return _error(lut_matmul, weight, n_samples, bias)


def uniform_error(m, n, bits, n_samples, group_size, kind, **options):
    """The same of ``uniform_matmul``."""
    weight = uniform_weight(m, n, bits, group_size, **options)
    return _error(uniform_matmul, weight, n_samples, True, kind)


def _error(function, weight, n_samples, with_bias, kind="gaussian"):
    m, n = weight.shape
    wide = np.full((n_samples, n + 5), np.nan, dtype=np.float32)
    wide[:, :n] = inputs(n_samples, n, kind)
    bias = np.linspace(-1, 1, m).astype(np.float32) if with_bias else None
    out = np.full((n_samples, m), np.nan, dtype=np.float32)
    result = function(wide[:, :n], weight, bias, out, backend="cuda")
    assert result is out
    return float(relative_error(out, exact(wide[:, :n], weight, bias)))


def gemv():
    """Every width of codes, with rows and inputs that fill nothing."""
    cases = [(1, 1, 1), (2, 15, 3), (5, 129, 2), (35, 300, 1), (3, 127, 5)]
    return {
        f"{bits} bits, {m} x {n}, B = {b}": lut_error(m, n, bits, b, bias=m == 5, seed=bits)
        for bits in range(1, 9)
        for m, n, b in cases[bits % 2 :: 2] + cases[:1]
    }


def long_rows():
    """Rows that take several steps, several splits, and several stagings of inputs."""
    return {
        "4 bits, splits": lut_error(3, 2100, 4, 1),
        "4 bits, B = 7, bias": lut_error(2, 2300, 4, 7, bias=True),
        "3 bits": lut_error(2, 3000, 3, 2),
        "1 bit": lut_error(2, 9000, 1, 1),
        "8 bits": lut_error(2, 1500, 8, 1, bias=True),
        "uniform": uniform_error(2, 2100, 4, 1, 32, "shifted"),
    }


def pair_tables():
    """Tables of pairs in both precisions against single levels."""
    result = {}
    for bits, pairs in [(1, "float"), (2, "float"), (3, "half"), (4, "half"), (3, "float")]:
        half = lut_weight(5, 333, bits).codebook.astype(np.float16)
        weight = LUTWeight.from_codes(lut_weight(5, 333, bits).unpack(), half)
        X = inputs(3, 333)
        out = cuda.to_device(np.full((3, 5), np.nan, dtype=np.float32))
        multiply(cuda.to_device(X), device_weight(weight), nothing(), out, 0, pairs)
        result[f"{bits} bits, {pairs}"] = float(
            relative_error(out.copy_to_host(), exact(X, weight))
        )
    return result


def uniform():
    """Groups of any size, for inputs of any sign."""
    return {
        f"groups of {group}, B = {b}, {kind}": uniform_error(5, 161, bits, b, group, kind)
        for bits, group, b, kind in [
            (4, 32, 1, "gaussian"), (3, 16, 3, "relu"), (4, 7, 2, "shifted"),
            (2, 100, 5, "shifted"), (4, None, 1, "shifted"), (8, 48, 1, "relu"),
            (5, 161, 8, "gaussian"),
        ]
    }  # fmt: skip


def small_batch():
    """Decoded tiles of 16, 32 and 64 rows of X, and more than one of them."""
    result = {
        f"{bits} bits, {m} x {n}, B = {b}": lut_error(m, n, bits, b, bias=True)
        for bits, m, n, b in [(4, 65, 130, 9), (3, 3, 161, 17), (8, 2, 70, 33), (5, 2, 81, 16)]
    }
    result["B = 67"] = lut_error(2, 129, 4, 67)
    result["groups of 32"] = uniform_error(3, 161, 3, 20, 32, "shifted")
    result["groups of 7"] = uniform_error(3, 100, 6, 9, 7, "relu")
    return result


def integer():
    """Rounded inputs against exact integer sums, whatever the groups."""
    result = {}
    for bits, n, group, settings in [
        (4, 100, 32, {}),
        (3, 161, 24, {"act_bits": 4, "act_group": 16}),
        (8, 130, 7, {"act_group": 48}),
        (1, 70, None, {"act_bits": 4}),
        (4, 300, None, {"act_group": 128}),
    ]:
        weight = uniform_weight(3, n, bits, group, outliers=0.1 if bits == 3 else 0)
        X, bias = inputs(3, n, "shifted"), np.float32([1, 2, 3])
        Y = int8_matmul(X, weight, bias, backend="cuda", **settings)
        expected = int8_matmul(X, weight, bias, backend="numpy", **settings)
        result[f"{bits} bits, groups of {group}, {settings}"] = float(relative_error(Y, expected))
    X[1, 5] = np.nan
    Y = int8_matmul(X, weight, backend="cuda")
    result["rows that are finite"] = np.isfinite(Y).all(axis=1).tolist()
    return result


def grouped():
    """Problems of every format, one without rows, offsets on either side."""
    weights = [
        lut_weight(70, 100, 3, seed=1),
        uniform_weight(70, 100, 4, 24, act_bits=8, act_group=32),
        lut_weight(70, 100, 8, seed=2),
        uniform_weight(70, 100, 2, 16),
    ]
    X, offsets = inputs(23, 100), np.array([0, 4, 6, 6, 23])
    expected = grouped_matmul(X, weights, offsets, backend="numpy")
    first = grouped_matmul(X, weights, offsets, backend="cuda")
    on_device = grouped_matmul(cuda.to_device(X), weights, cuda.to_device(offsets))
    sparse = [lut_weight(3, 40, 4, outliers=0.2), uniform_weight(3, 40, 4, act_bits=4)]
    X = inputs(3, 40)
    Y = grouped_matmul(X, sparse, [0, 2, 3], backend="cuda")
    wanted = grouped_matmul(X, sparse, [0, 2, 3], backend="numpy")
    return {
        "error": float(relative_error(first, expected)),
        "same again": bool((on_device.copy_to_host() == first).all()),
        "outliers": float(relative_error(Y, wanted)),
    }


def tensor_core():
    """The kernels around the linked function, which is replaced; 16-bit types in and out."""
    result = {}
    for bits, m, n, n_samples, kind in [
        (4, 40, 300, 3, "float16"), (3, 5, 170, 9, "float16"), (2, 33, 290, 17, "bfloat16"),
        (1, 3, 530, 1, "float16"), (4, 5, 2100, 2, "bfloat16"),
    ]:  # fmt: skip
        weight = device_weight(half_lut_weight(m, n, bits))
        X = inputs(n_samples, n)
        bias = np.linspace(-1, 1, m).astype(np.float32)
        levels = as_halves(weight.levels.copy_to_host(), kind)
        known = DeviceWeight(
            weight.shape, bits, weight.words, weight.levels, halves=cuda.to_device(levels),
            half_type=kind,
        )  # fmt: skip
        plan = _plan.plan_tensor_core(weight.shape, n_samples, weight.n_words, 2)
        size = _tensor_core.arranged_size(bits, plan.columns, weight.n_words)
        arranged = cuda.to_device(np.full(size, 0x7FFF, dtype=np.uint16))
        stored = np.float16 if kind == "float16" else np.uint16
        out = cuda.to_device(np.full((1, n_samples, m), 0x7FFF, dtype=np.uint16).view(stored))
        _multiply.run_tensor_core(
            plan, cuda.to_device(as_halves(X, kind)), arranged, known, cuda.to_device(bias), out,
            kind, 0,
        )  # fmt: skip
        codes = unpack_codes(weight.words.copy_to_host().reshape(m, -1), bits, n)
        dense = np.take_along_axis(from_halves(levels, kind), codes.astype(np.intp), axis=1)
        expected = from_halves(as_halves(X, kind), kind) @ dense.T + bias
        got = from_halves(out.copy_to_host()[0].view(np.uint16), kind)
        # The result is rounded to 11 or 8 bits.
        unit = 2.0 ** (-11 if kind == "float16" else -8)
        name = f"{bits} bits, {kind}, {plan.splits} splits, {plan.k_parts} parts"
        error = np.abs((got - expected) / np.maximum(np.abs(expected), 0.01)).max()
        result[name] = float(error / unit)
    half = half_lut_weight(5, 200, 4)
    X = inputs(2, 200).astype(np.float16)
    Y = lut_matmul(cuda.to_device(X), half)
    expected = X.astype(float) @ half.dequantize().astype(float).T
    result["public, halves"] = float(relative_error(Y.copy_to_host(), expected) / 2.0**-11)
    result["type"] = Y.dtype.name
    return result


def half_lut_weight(m, n, bits):
    full = lut_weight(m, n, bits)
    return LUTWeight.from_codes(full.unpack(), full.codebook.astype(np.float16))


def as_halves(array, kind):
    if kind == "float16":
        return array.astype(np.float16).view(np.uint16)
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_halves(array, kind):
    if kind == "float16":
        return array.view(np.float16).astype(np.float64)
    return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def linear():
    """Forward and backward of LUTLinear on tensors that pass for being on the device."""
    import torch
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    from skml.quantization import LUTLinear
    from skml.quantization.kernels._cuda import _arrays, _linear

    def show(self, dtype=None):
        view = self.native.numpy() if self.dtype != "bfloat16" else None
        if view is None:
            view = self.native.view(torch.int16).numpy()
        return FakeCUDAArray(view if dtype is None else view.view(dtype))

    _arrays.TorchArray.show = show
    _arrays.TorchArray.stream = lambda self: 0
    wrap = _arrays.wrap
    _products.wrap = lambda x: _arrays.TorchArray(x) if isinstance(x, torch.Tensor) else wrap(x)
    result = {}
    for bits, outliers in [(4, 0), (3, 0.1), (8, 0)]:
        torch.manual_seed(bits)
        weight = lut_weight(7, 130, bits, outliers=outliers)
        layer = LUTLinear.from_weight(weight)
        X = torch.randn(5, 130, requires_grad=True)
        d_output = torch.randn(5, 7)
        layer(X).backward(d_output)
        Y = _linear.forward(X, layer)
        d_rows, d_codebook = _linear.backward(X.detach(), d_output, layer, (True, True))
        for name, got, wanted in [
            ("product", Y, layer(X)), ("inputs", d_rows, X.grad),
            ("codebook", d_codebook, layer.codebook.grad),
        ]:  # fmt: skip
            error = relative_error(got.detach().numpy(), wanted.detach().numpy())
            result[f"{bits} bits, {outliers}, {name}"] = float(error)
    layer = LUTLinear.from_weight(lut_weight(7, 130, 4))
    expected = layer(X).detach()
    for kind in (torch.float16, torch.bfloat16):
        packed = LUTLinear.from_weight(lut_weight(7, 130, 4)).to(kind)
        Y = _linear.forward(X.to(kind), packed)
        error = relative_error(Y.float().numpy(), expected.numpy())
        result[f"{kind} comes back"] = Y.dtype == kind and float(error) < 0.02
    big = torch.randn(70, 130)
    error = relative_error(_linear.forward(big, layer).numpy(), layer(big).detach().numpy())
    result["dense"] = float(error)
    return result


def contract():
    """One-hot inputs, empty ones, types in and out, splits that change nothing, arguments."""
    weight, result = lut_weight(6, 150, 4), {}
    eye = np.eye(150, dtype=np.float32)[[0, 77, 149]]
    Y = lut_matmul(eye, weight, backend="cuda")
    result["one-hot is exact"] = bool((Y == weight.dequantize().T[[0, 77, 149]]).all())
    result["float64 comes back"] = lut_matmul(eye.astype(float), weight, backend="cuda").dtype.name
    empty = lut_matmul(np.empty((0, 150), np.float32), weight, backend="cuda")
    result["no rows"] = list(empty.shape)
    half = lut_matmul(cuda.to_device(eye.astype(np.float16)), weight)
    result["half comes back"] = half.dtype.name
    outliers = lut_weight(3, 90, 4, outliers=0.1)
    X = inputs(2, 90)
    Y = lut_matmul(X, outliers, backend="cuda")
    result["outliers"] = float(relative_error(Y, exact(X, outliers)))
    for name, arguments in {
        "columns": (cuda.to_device(eye[:, :9].copy()), weight),
        "bias": (cuda.to_device(eye), weight, np.zeros(5)),
        "out": (cuda.to_device(eye), weight, None, cuda.to_device(np.zeros((3, 5), np.float32))),
        "host out": (cuda.to_device(eye), weight, None, np.zeros((3, 6), np.float32)),
    }.items():
        try:
            lut_matmul(*arguments)
        except ValueError as error:
            result[name] = str(error)
    try:
        lut_matmul(cuda.to_device(eye), weight, backend="scalar")
    except ValueError as error:
        result["host backend"] = str(error)
    return result


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    take_turns()
    import numpy as np
    from _kernel_cases import exact, inputs, lut_weight, relative_error, uniform_weight
    from numba import cuda

    from skml.quantization import (
        LUTWeight,
        grouped_matmul,
        int8_matmul,
        lut_matmul,
        uniform_matmul,
        unpack_codes,
    )
    from skml.quantization.kernels._cuda import _multiply, _plan, _products, _tensor_core
    from skml.quantization.kernels._cuda._multiply import multiply, nothing
    from skml.quantization.kernels._cuda._weights import DeviceWeight, device_weight

    serve()
