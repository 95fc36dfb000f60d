"""Times of the kernels beside cuBLAS, and the bandwidth of a copy."""

import time

from skml.quantization._gemm import words_per_row
from skml.quantization.kernels._cuda._multiply import (
    multiply,
    n_processors,
    nothing,
    run_tensor_core,
)
from skml.quantization.kernels._cuda._plan import plan_tensor_core
from skml.quantization.kernels._cuda._tensor_core import arranged_size
from skml.quantization.kernels._cuda._weights import DeviceWeight

LAUNCHES = 100
# The speed that the kernels are meant to have, by (bits, inputs, rows of X).
TARGETS = {(4, 8192, 1): (0.6, 2.5), (4, 8192, 16): (None, 1.5)}


class Timings:
    """Times of every kernel for a range of sizes.

    Parameters
    ----------
    device : TorchDevice or SimulatedDevice
    sizes, samples, widths : sequence of int
        Rows and inputs of the square weights, rows of X, bits of a code.
    deadline : float
        ``time.monotonic()`` after which nothing more is begun.
    """

    def __init__(self, device, sizes, samples, widths, deadline):
        self.device, self.sizes, self.samples, self.widths = device, sizes, samples, widths
        self.deadline = deadline
        self.launches = 1 if device.simulated else LAUNCHES
        self.rows, self.left_out = [], []

    def run(self):
        """Measure, and print a line as soon as it is known."""
        self.copy_rate = self.device.copy_rate()
        print(f"copy: {self.copy_rate / 1e9:.0f} GB/s, read and written")
        print(
            f"{'m = n':>6} {'bits':>4} {'B':>3} {'kernel':<16} {'us':>8} {'GB/s':>6} "
            f"{'of copy':>7} {'fp16 us':>8} {'bf16 us':>8} {'x fp16':>6}"
        )
        for n in self.sizes:
            dense = {}
            for bits in self.widths:
                weights = self.weights(n, bits)
                for b in self.samples:
                    if time.monotonic() > self.deadline:
                        self.left_out.append(f"n = {n}, {bits} bits, B = {b}")
                        continue
                    if b not in dense:
                        dense[b] = [
                            self.device.dense_seconds((n, n), b, kind, self.launches)
                            for kind in ("float16", "bfloat16")
                        ]
                    self.measure(n, bits, b, weights, *dense[b])

    def weights(self, n, bits):
        """So many weights that none is in the cache when its turn comes."""
        device, n_words = self.device, words_per_row(n, bits)
        copies = -(-4 * device.cache_bytes // (4 * n * n_words)) + 1
        # The simulator's arrays are looked at by name: two are a rotation.
        copies = min(copies, 2) if device.simulated else copies
        weights = []
        for _ in range(copies):
            words, table = device.random_words((n, n_words), bits), device.normal((n, 2**bits))
            halves = device.wrap(table).cast("float16")
            weights.append(
                DeviceWeight(
                    (n, n), bits, device.wrap(words).show("uint32").reshape(-1),
                    halves.cast("float32").show(), halves=halves.show("uint16"),
                    half_type="float16",
                )
            )  # fmt: skip
        return weights

    def measure(self, n, bits, b, weights, fp16, bf16):
        """Time every kernel that multiplies b rows of X with weights of these bits."""
        device = self.device
        x = device.wrap(device.normal((b, n)))
        halves = x.cast("float16")
        out = device.wrap(device.poisoned((b, n)))
        plan = plan_tensor_core((n, n), b, weights[0].n_words, n_processors())
        arranged = x.empty((arranged_size(bits, plan.columns, weights[0].n_words),), "int16")
        half_out = x.empty((1, b, n), "float16")

        def float_kernel(pairs):
            def launch(i):
                weight = weights[i % len(weights)]
                multiply(x.show(), weight, nothing(), out.show(), x.stream(), pairs)

            return launch

        def tensor_kernel(i):
            run_tensor_core(
                plan, halves.show("uint16"), arranged.show("uint16"), weights[i % len(weights)],
                nothing(), half_out.show(), "float16", x.stream(),
            )  # fmt: skip

        kernels = {"float32": float_kernel("auto")}
        if b <= 4:
            other = {1: None, 2: None, 3: "half", 4: "half"}[bits]
            kernels["float32, " + ("pairs" if other else "no pairs")] = float_kernel(other)
        kernels["tensor cores"] = tensor_kernel
        moved = 4 * n * weights[0].n_words
        for name, launch in kernels.items():
            seconds = device.seconds(launch, self.launches)
            table = n * 2**bits * (2 if name == "tensor cores" else 4)
            self.add(n, bits, b, name, seconds, moved + table, fp16, bf16)

    def add(self, n, bits, b, kernel, seconds, moved, fp16, bf16):
        """Keep and print a row."""
        rate = moved / seconds
        row = {
            "name": f"{kernel}, {bits} bits, m = n = {n}, B = {b}", "n": n, "bits": bits, "B": b,
            "kernel": kernel, "ours_s": seconds, "bytes_per_s": rate,
            "of_copy_rate": rate / self.copy_rate, "peer": "cuBLAS fp16", "peer_s": fp16,
            "bf16_s": bf16, "ratio": fp16 / seconds, "goal": None, "holds": None,
        }  # fmt: skip
        self.rows.append(row)
        print(
            f"{n:>6} {bits:>4} {b:>3} {kernel:<16} {seconds * 1e6:>8.1f} {rate / 1e9:>6.0f} "
            f"{row['of_copy_rate']:>6.0%} {fp16 * 1e6:>8.1f} {bf16 * 1e6:>8.1f} "
            f"{row['ratio']:>6.2f}",
            flush=True,
        )

    def gates(self):
        """The targets, each met by the fastest kernel or not."""
        gates = []
        for (bits, n, b), (of_copy, ratio) in TARGETS.items():
            rows = [r for r in self.rows if (r["bits"], r["n"], r["B"]) == (bits, n, b)]
            if not rows:
                continue
            best = min(rows, key=lambda row: row["ours_s"])
            best["goal"], best["holds"] = ratio, best["ratio"] >= ratio
            label = f"{bits} bits, n = {n}, B = {b}"
            wanted = [(f"{label}: speed-up over cuBLAS fp16", best["ratio"], ratio)]
            if of_copy is not None:
                wanted.append((f"{label}: part of the copy rate", best["of_copy_rate"], of_copy))
            gates += [
                {"name": name, "value": value, "bound": bound, "holds": value >= bound}
                for name, value, bound in wanted
            ]
        return gates
