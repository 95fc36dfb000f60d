"""Kernels for CUDA devices, written in numba; imported on first use, since numba is an extra."""
