"""
======================================================
Packed weights: fewer bytes to read, and what it saves
======================================================

A product of a few vectors with a large matrix takes as long as the matrix takes to come from
memory. :class:`~skml.quantization.LUTWeight` keeps codes of 2 to 4 bits and a small table per row,
and :func:`~skml.quantization.lut_matmul` decodes them in registers. Here the time of a product is
drawn over the number of vectors, beside the product with float32 weights.
"""

# %%
# One matrix, three widths
# ------------------------

import time

import matplotlib.pyplot as plt
import numpy as np

from skml.quantization import LUTWeight, kernel_info, lut_matmul

rng = np.random.default_rng(0)
n_outputs = n_inputs = 2048
dense = rng.standard_normal((n_outputs, n_inputs), dtype=np.float32)


def packed(bits):
    """Round every row to quantiles of its own values."""
    levels = (np.arange(2**bits) + 0.5) / 2**bits
    codebook = np.quantile(dense, levels, axis=1).T.astype(np.float32)
    limits = (codebook[:, 1:] + codebook[:, :-1]) / 2
    codes = np.stack(
        [np.searchsorted(limit, row) for limit, row in zip(limits, dense, strict=True)]
    )
    return LUTWeight.from_codes(codes.astype(np.uint8), codebook)


weights = {bits: packed(bits) for bits in (2, 3, 4)}
print("kernels that run here:", kernel_info()["available"])
for bits, weight in weights.items():
    print(f"{bits} bits: {weight.nbytes / 2**20:.2f} MiB instead of {dense.nbytes / 2**20:.2f} MiB")

# %%
# The product is that of the decoded matrix
# -----------------------------------------

X = rng.standard_normal((3, n_inputs), dtype=np.float32)
exact = X.astype(np.float64) @ weights[4].dequantize().astype(np.float64).T
print(f"largest difference: {abs(lut_matmul(X, weights[4]) - exact).max():.1e}")

# %%
# Time by the number of vectors
# -----------------------------
# The advantage is largest for one vector. With some tens of them arithmetic becomes the limit, and
# a dense product catches up.


def fastest(function, repeats=15):
    """Smallest time of a call in milliseconds."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return 1e3 * min(seconds)


batches = [1, 2, 4, 8, 16, 32, 64]
inputs = [rng.standard_normal((batch, n_inputs), dtype=np.float32) for batch in batches]

fig, ax = plt.subplots(layout="constrained")
ax.plot(batches, [fastest(lambda X=X: X @ dense.T) for X in inputs], "k--", label="numpy, float32")
for bits, weight in weights.items():
    times = [fastest(lambda X=X, w=weight: lut_matmul(X, w, n_threads=1)) for X in inputs]
    ax.plot(batches, times, marker="o", label=f"{bits}-bit table")
ax.set(
    xscale="log",
    yscale="log",
    xlabel="Number of vectors",
    ylabel="Milliseconds per product",
    title=f"{n_outputs} x {n_inputs} weights",
)
ax.set_xticks(batches, [str(batch) for batch in batches])
ax.legend()
plt.show()
