"""Every kernel against float64, on fresh random data, with outputs that held NaN."""

import traceback

import numpy as np

from skml.quantization import (
    LUTWeight,
    grouped_matmul,
    int8_matmul,
    lut_matmul,
    uniform_matmul,
)
from skml.quantization.kernels._cuda._multiply import multiply, nothing
from skml.quantization.kernels._cuda._weights import device_weight
from tests.quantization._kernel_cases import (
    exact,
    inputs,
    lut_weight,
    relative_error,
    uniform_weight,
)

# Backends agree to this part of the largest result.
BOUND = 3e-6


class Checks:
    """Runs checks, prints what fails, and counts.

    Parameters
    ----------
    device : TorchDevice or SimulatedDevice
    seed : int
        Seed of the data.
    """

    def __init__(self, device, seed):
        self.device, self.seed = device, seed
        self.results, self.left_out = [], []

    def run(self):
        """Run all checks that the device allows."""
        for name in ("lut", "pairs", "uniform", "integer", "grouped"):
            getattr(self, name)()
        if self.device.simulated:
            self.left_out = ["tensor cores", "layer", "streams", "graph", "libraries"]
            return
        for name in ("tensor_cores", "layer", "streams", "graph", "libraries"):
            getattr(self, name)()

    def add(self, name, compute, expected, bound=BOUND):
        """Compare a result with what it should be; an exception is a failure of this check."""
        try:
            error = float(relative_error(compute(), expected))
        except Exception:
            traceback.print_exc()
            error = float("nan")
        holds = error <= bound
        self.results.append({"name": name, "error": error, "bound": bound, "holds": holds})
        if not holds:
            print(f"FAILED {name}: error {error:.2e}, allowed {bound:.0e}", flush=True)

    def shapes(self):
        """Rows, inputs and rows of X: nothing is a multiple of anything."""
        if self.device.simulated:
            return [(3, 70, 1), (5, 70, 9)]
        return [(1, 1, 1), (257, 1023, 1), (4099, 4097, 2), (33, 16001, 3), (1000, 999, 5),
                (513, 2111, 9), (130, 4097, 33), (65, 777, 64), (129, 1025, 150)]  # fmt: skip

    def product(self, function, X, weight, bias=None, **settings):
        """Result of a product on the device, on the host."""
        out = self.device.poisoned((len(X), weight.shape[0]))
        on_device = None if bias is None else self.device.array(bias)
        function(self.device.array(X), weight, on_device, out, **settings)
        return self.device.host(out)

    def lut(self):
        """Tables of every width."""
        widths = (1, 4) if self.device.simulated else range(1, 9)
        for bits in widths:
            for m, n, b in self.shapes() if bits in (3, 4) else self.shapes()[1::4]:
                self.seed += 1
                weight = lut_weight(m, n, bits, self.seed, outliers=0.003 if bits == 4 else 0)
                X, bias = inputs(b, n, seed=self.seed), np.float32(np.arange(m) / m)
                self.add(
                    f"lut, {bits} bits, {m} x {n}, B = {b}",
                    lambda X=X, w=weight, c=bias: self.product(lut_matmul, X, w, c),
                    exact(X, weight, bias),
                )

    def pairs(self):
        """Tables of pairs, in either precision."""
        m, n, b = self.shapes()[0] if self.device.simulated else (515, 3001, 2)
        for bits, pairs in [(1, "float"), (2, "float"), (2, None), (3, "half"), (4, "half")]:
            full = lut_weight(m, n, bits, self.seed)
            half = LUTWeight.from_codes(full.unpack(), full.codebook.astype(np.float16))
            X = inputs(b, n, seed=self.seed)

            def compute(X=X, half=half, pairs=pairs):
                x, out = self.device.wrap(self.device.array(X)), self.device.poisoned((b, m))
                target = out if self.device.simulated else self.device.wrap(out).show()
                multiply(x.show(), device_weight(half), nothing(), target, x.stream(), pairs)
                return self.device.host(out)

            self.add(f"pairs, {bits} bits, {pairs}", compute, exact(X, half))

    def uniform(self):
        """Groups of inputs of every size."""
        for group in (16, 7) if self.device.simulated else (None, 128, 48, 7, 100_000):
            for m, n, b in self.shapes()[:2] if self.device.simulated else self.shapes()[1::3]:
                weight = uniform_weight(m, n, 4, group, self.seed)
                X = inputs(b, n, "shifted", self.seed)
                self.add(
                    f"uniform, groups of {group}, {m} x {n}, B = {b}",
                    lambda X=X, w=weight: self.product(uniform_matmul, X, w),
                    exact(X, weight),
                )

    def integer(self):
        """Rounded inputs."""
        m, n, b = (3, 70, 2) if self.device.simulated else (515, 3001, 37)
        for bits, group, settings in [
            (4, 128, {}), (8, None, {"act_group": 128}), (3, 24, {"act_bits": 4}),
        ]:  # fmt: skip
            weight = uniform_weight(m, n, bits, group, self.seed)
            X = inputs(b, n, "relu", self.seed)
            self.add(
                f"int8, {bits} bits, {settings}",
                lambda X=X, w=weight, s=settings: self.product(int8_matmul, X, w, **s),
                int8_matmul(X, weight, backend="numpy", **settings),
            )

    def grouped(self):
        """Experts of every format, one without rows, offsets that only the device knows."""
        m, n, b = (5, 70, 6) if self.device.simulated else (1408, 2048, 333)
        weights = [
            lut_weight(m, n, 3, self.seed), uniform_weight(m, n, 4, 32, self.seed, act_bits=8),
            lut_weight(m, n, 4, self.seed + 1), uniform_weight(m, n, 8, None, act_bits=4),
        ]  # fmt: skip
        X, offsets = inputs(b, n, seed=self.seed), np.array([0, b // 2, b // 2, b - 2, b])
        expected = grouped_matmul(X, weights, offsets, backend="numpy")

        def compute():
            out = self.device.poisoned((b, m))
            grouped_matmul(self.device.array(X), weights, self.device.array(offsets), out)
            return self.device.host(out)

        self.add("grouped", compute, expected)
        self.add("grouped, the same again", compute, compute(), bound=0)

    def tensor_cores(self):
        """Halves in and out: the result is rounded to its own type, and no more than that."""
        torch = self.device.torch
        for bits in (1, 2, 3, 4):
            for m, n, b in self.shapes():
                self.layer_product(torch.float16, bits, m, n, min(b, 64), 2.0**-11)
            self.layer_product(torch.bfloat16, bits, 515, 3001, 7, 2.0**-8)

    def layer_product(self, kind, bits, m, n, b, unit):
        """A layer in a type of 16 bits."""
        from skml.quantization import LUTLinear

        layer = LUTLinear.from_weight(lut_weight(m, n, bits, self.seed)).cuda().to(kind)
        X = self.device.normal((b, n)).to(kind)
        table = layer.codebook.detach().double().cpu().numpy()
        codes = layer.weight.unpack().astype(np.intp)
        expected = self.device.host(X) @ np.take_along_axis(table, codes, axis=1).T
        # Half a unit of the last place, and the error of the sum.
        self.add(
            f"tensor cores, {kind}, {bits} bits, {m} x {n}, B = {b}",
            lambda: self.device.host(layer(X)), expected, bound=unit + BOUND,
        )  # fmt: skip

    def layer(self):
        """Gradients of a layer on the device are those of the layer on the host."""
        from skml.quantization import LUTLinear

        torch = self.device.torch
        for bits, outliers in [(4, 0.01), (3, 0), (8, 0)]:
            host = LUTLinear.from_weight(lut_weight(129, 515, bits, self.seed, outliers))
            layer = LUTLinear.from_weight(host.weight).cuda()
            X = torch.randn(17, 515, requires_grad=True)
            known = X.detach().cuda().requires_grad_()
            d_output = torch.randn(17, 129)
            host(X).backward(d_output)
            layer(known).backward(d_output.cuda())
            codebooks = layer.codebook.grad, host.codebook.grad
            for name, got, wanted in [
                ("inputs", known.grad, X.grad),
                ("codebook", *codebooks),
            ]:
                self.add(
                    f"layer, {bits} bits, gradient of {name}",
                    lambda got=got: self.device.host(got), wanted.double().numpy(), bound=1e-5,
                )  # fmt: skip

    def streams(self):
        """A product waits for what its stream does first, and for nothing else."""
        torch, weight = self.device.torch, lut_weight(513, 4097, 4, self.seed)
        X = self.device.normal((2, 4097))
        expected = exact(self.device.host(X).astype(np.float32), weight)
        lut_matmul(X, weight)

        def compute():
            stream, late = torch.cuda.Stream(), torch.zeros_like(X)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cuda._sleep(50_000_000)
                late.copy_(X)
                Y = lut_matmul(late, weight)
            stream.synchronize()
            return self.device.host(Y)

        self.add("current stream", compute, expected)

    def graph(self):
        """A captured product is computed anew in each replay, with the inputs of then."""
        torch = self.device.torch
        for m, n, b in [(64, 16385, 1), (4097, 1025, 12)]:  # the first in parts that are added up
            weight = lut_weight(m, n, 4, self.seed)
            X, out = self.device.normal((b, n)), self.device.poisoned((b, m))
            stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                lut_matmul(X, weight, None, out)
            stream.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                lut_matmul(X, weight, None, out)
            X.copy_(self.device.normal((b, n)))
            out.fill_(float("nan"))
            graph.replay()
            torch.cuda.synchronize()
            expected = exact(X.cpu().numpy(), weight)
            self.add(f"graph, {m} x {n}", lambda out=out: self.device.host(out), expected)

    def libraries(self):
        """Arrays of numba, of CuPy if it is there, and of anything that speaks DLPack."""
        from numba import cuda

        weight, X = lut_weight(257, 1000, 4, self.seed), inputs(3, 1000, seed=self.seed)
        expected = exact(X, weight)
        self.add("numba", lambda: lut_matmul(cuda.to_device(X), weight).copy_to_host(), expected)
        self.add("numpy", lambda: lut_matmul(X, weight, backend="cuda"), expected)

        class OnlyDLPack:
            def __init__(self, tensor):
                self.__dlpack__, self.__dlpack_device__ = (
                    tensor.__dlpack__, tensor.__dlpack_device__,
                )  # fmt: skip

        known = OnlyDLPack(self.device.array(X))
        self.add("DLPack", lambda: lut_matmul(known, weight).copy_to_host(), expected)
        try:
            import cupy
        except ImportError:
            self.left_out.append("CuPy, which is not installed")
        else:
            self.add("CuPy", lambda: lut_matmul(cupy.asarray(X), weight).get(), expected)
