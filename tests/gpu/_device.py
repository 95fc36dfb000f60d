"""The device that the scripts of this folder run on: a real one through torch, or the simulator."""

import time

import numpy as np
from numba import cuda

from skml.quantization.kernels._cuda._arrays import TorchArray, send


class TorchDevice:
    """A CUDA device, with torch's memory, streams, graphs, events and cuBLAS."""

    simulated = False

    def __init__(self):
        import torch

        self.torch = torch
        if not torch.cuda.is_available():
            raise SystemExit("no CUDA device, or a torch without CUDA: try --rehearse")
        self.properties = torch.cuda.get_device_properties(0)
        self.name = self.properties.name
        # Products of float32 are to be products of float32.
        torch.backends.cuda.matmul.allow_tf32 = False

    @property
    def cache_bytes(self):
        """Size of the second-level cache."""
        return getattr(self.properties, "L2_cache_size", 0) or 64 << 20

    def facts(self):
        """What a reader of the figures wants to know of the device."""
        return {
            "name": self.name,
            "compute_capability": f"{self.properties.major}.{self.properties.minor}",
            "processors": self.properties.multi_processor_count,
            "cache_bytes": self.cache_bytes,
            "memory_bytes": self.properties.total_memory,
        }

    def array(self, host):
        """A copy on the device."""
        return self.torch.from_numpy(np.ascontiguousarray(host)).cuda()

    def poisoned(self, shape):
        """Floats that nothing may be left of."""
        return self.torch.full(shape, float("nan"), device="cuda")

    def host(self, array):
        """A copy on the host in float64."""
        return array.detach().double().cpu().numpy()

    def wrap(self, array):
        """The wrapper through which kernels see an array."""
        return TorchArray(array)

    def random_words(self, shape, bits):
        """Packed codes at random, without the bits that no code uses."""
        torch = self.torch
        words = torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int32, device="cuda")
        used = bits * (32 // bits)
        return words if used == 32 else words & (2**used - 1)

    def normal(self, shape, dtype="float32"):
        """Normal numbers in a type of torch."""
        return self.torch.randn(shape, device="cuda").to(getattr(self.torch, dtype))

    def seconds(self, launch, launches, repeats=5):
        """Seconds per launch, of as many in one graph; the fastest of some replays.

        ``launch(i)`` puts the i-th launch on the current stream.
        """
        torch = self.torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):  # compiled and allocated before anything is captured
            for i in range(3):
                launch(i)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(launches):
                launch(i)
        times = []
        for _ in range(repeats + 1):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1000 / launches)
        return min(times[1:])

    def copy_rate(self):
        """Bytes per second that a copy moves, read and written."""
        source = self.torch.empty(1 << 29, dtype=self.torch.uint8, device="cuda")
        target = self.torch.empty_like(source)
        return 2 * source.numel() / self.seconds(lambda i: target.copy_(source), 10)

    def dense_seconds(self, shape, n_samples, dtype, launches):
        """Seconds of cuBLAS for one product with a dense weight, several in rotation."""
        torch, size = self.torch, shape[0] * shape[1] * 2
        copies = -(-4 * self.cache_bytes // size) + 1
        weights = [self.normal(shape, dtype) for _ in range(copies)]
        X = self.normal((n_samples, shape[1]), dtype)
        out = torch.empty((n_samples, shape[0]), dtype=X.dtype, device="cuda")

        def launch(i):
            torch.matmul(X, weights[i % copies].T, out=out)

        return self.seconds(launch, launches)


class SimulatedDevice:
    """Numba's simulator: it shows that the scripts run through, and no times worth reading."""

    simulated, name = True, "numba's simulator"
    cache_bytes = 1 << 10

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def facts(self):
        """That this is no device."""
        return {"name": self.name}

    def array(self, host):
        """A copy on the device."""
        return cuda.to_device(np.ascontiguousarray(host))

    def poisoned(self, shape):
        """Floats that nothing may be left of."""
        return cuda.to_device(np.full(shape, np.nan, dtype=np.float32))

    def host(self, array):
        """A copy on the host in float64."""
        return array.copy_to_host().astype(np.float64)

    def wrap(self, array):
        """The wrapper through which kernels see an array."""
        return send(array.copy_to_host(), array.dtype)

    def random_words(self, shape, bits):
        """Packed codes at random, without the bits that no code uses."""
        words = self.rng.integers(0, 2 ** (bits * (32 // bits)), shape, dtype=np.uint32)
        return cuda.to_device(words.view(np.int32))

    def normal(self, shape, dtype="float32"):
        """Normal numbers."""
        return cuda.to_device(self.rng.normal(size=shape).astype(dtype))

    def seconds(self, launch, launches, repeats=1):
        """Seconds of one launch of the simulator."""
        start = time.perf_counter()
        launch(0)
        return time.perf_counter() - start

    def copy_rate(self):
        """Bytes per second of a copy on the host."""
        source = np.ones(1 << 20)
        target = np.empty_like(source)
        return 2 * source.nbytes / self.seconds(lambda i: np.copyto(target, source), 1)

    def dense_seconds(self, shape, n_samples, dtype, launches):
        """Seconds of numpy."""
        W, X = np.ones(shape, np.float32), np.ones((n_samples, shape[1]), np.float32)
        return self.seconds(lambda i: X @ W.T, 1)
