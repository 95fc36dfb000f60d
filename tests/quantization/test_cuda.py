"""What surrounds the CUDA kernels and needs no device: plans, errors, choices."""

import ctypes
import sys

import numpy as np
import pytest

from skml.quantization import (
    grouped_matmul,
    int8_matmul,
    kernel_info,
    lut_matmul,
    uniform_matmul,
)
from skml.quantization.kernels import _backend
from tests.quantization._kernel_cases import inputs, lut_weight, uniform_weight


def has_device():
    return kernel_info()["cuda"] is not None


no_device = pytest.mark.skipif(has_device(), reason="tells what happens without a device")


@no_device
@pytest.mark.parametrize("product", ["lut", "uniform", "int8", "grouped"])
def test_cuda_without_a_device_says_so(product):
    X, lut, uniform = inputs(2, 20), lut_weight(3, 20, 4), uniform_weight(3, 20, 4)
    call = {
        "lut": lambda: lut_matmul(X, lut, backend="cuda"),
        "uniform": lambda: uniform_matmul(X, uniform, backend="cuda"),
        "int8": lambda: int8_matmul(X, uniform, backend="cuda"),
        "grouped": lambda: grouped_matmul(X, [lut], [0, 2], backend="cuda"),
    }[product]
    with pytest.raises(RuntimeError, match="backend='cuda' needs CUDA with a device: .*driver"):
        call()


def test_cuda_without_its_extra_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba_cuda", None)
    with pytest.raises(ImportError, match=r"backend='cuda' needs numba_cuda: pip.*skml\[cuda\]"):
        lut_matmul(inputs(2, 20), lut_weight(3, 20, 4), backend="cuda")


def test_kernel_info_imports_nothing_without_a_driver(monkeypatch):
    def no_library(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    monkeypatch.setitem(sys.modules, "numba_cuda", None)
    assert kernel_info()["cuda"] is None


class OnDevice:
    """Stands for an array of any library on a device; looking inside would fail the test."""

    def __init__(self, attribute):
        if attribute == "interface":
            self.__cuda_array_interface__ = None
        else:
            self.__dlpack_device__ = lambda: (2 if attribute == "dlpack" else 1, 0)


@pytest.mark.parametrize(
    ("attribute", "expected"), [("interface", True), ("dlpack", True), ("dlpack on host", False)]
)
def test_arrays_on_a_device_are_recognised(attribute, expected, monkeypatch):
    monkeypatch.setattr(_backend, "_check_cuda", lambda: "a device")
    array = OnDevice(attribute)
    assert (_backend.resolve_backend("auto", array) == "cuda") == expected
    if expected:
        with pytest.raises(ValueError, match="backend='scalar' computes on the host, but X lies"):
            _backend.resolve_backend("scalar", array)


def test_arrays_on_the_host_stay_there():
    torch = pytest.importorskip("torch")
    for array in (np.ones((2, 3)), torch.ones(2, 3, requires_grad=True), [[1.0]], None):
        assert _backend.resolve_backend("auto", array) == _backend.best_backend()


# Importing the plan imports numba; that is free of a device.
@pytest.fixture(scope="module")
def plan():
    from skml.quantization.kernels._cuda import _plan

    return _plan


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("shape", [(1, 1), (64, 17), (4096, 4096), (8192, 8192), (3, 100_003)])
def test_plans_cover_everything_once(plan, bits, shape):
    m, n = shape
    n_words = 16 * -(-n // (16 * (32 // bits)))
    for n_samples in (1, 2, 3, 4, 5, 8):
        for kind in (plan.LUT, 1 - plan.LUT):
            launch = plan.plan_gemv(bits, kind, shape, n_samples, n_words, 132)
            rows = launch.grid[0], launch.grid[2] * launch.columns
            assert rows[1] >= n_samples
            assert 0 <= launch.splits * launch.split_blocks - n_words // 16 < launch.split_blocks
            assert launch.splits == 1 or launch.split_blocks % 8 == 0
            assert launch.grid[1] == launch.splits
    launch = plan.plan_small_batch(shape, 70, n_words, 132)
    assert launch.grid[0] * plan.TILE_ROWS >= m
    assert launch.grid[2] * launch.columns >= 70
    assert launch.splits * launch.split_blocks >= n_words // 16


def test_small_weights_are_split_along_their_inputs_to_fill_the_device(plan):
    narrow = plan.plan_gemv(4, plan.LUT, (256, 65536), 1, 8192, 132)
    assert narrow.splits > 8
    # No second round of blocks for a few processors, and few processors without a block.
    assert 0.75 * 132 <= narrow.grid[0] * narrow.splits <= 132
    wide = plan.plan_gemv(4, plan.LUT, (65536, 4096), 1, 512, 132)
    assert wide.splits == 1


def test_pairs_are_taken_where_they_fill_all_banks_once(plan):
    chosen = [plan.plan_gemv(bits, plan.LUT, (64, 640), 1, 160, 4).pairs for bits in range(1, 9)]
    assert chosen == ["float", "float", None, None, None, None, None, None]
    assert plan.plan_gemv(4, plan.LUT, (64, 640), 8, 160, 4, "half").columns == 4
