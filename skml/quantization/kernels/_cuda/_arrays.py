"""Arrays of whatever library, on the device, without copies.

Torch, CuPy and numba arrays, and everything else that speaks ``__cuda_array_interface__`` or
DLPack, are wrapped in one of the classes below. A wrapper says what the array is, shows it to
numba, makes further arrays by means of its own library, and knows the stream on which that
library is working: kernels are put on that stream and nothing waits for anything, so calls may be
captured in a CUDA graph.
"""

import sys
from functools import cache

import numpy as np
from numba import cuda

from ._epilogue import THREADS, convert
from ._intrinsics import SIMULATED

_DLPACK_CUDA = 2


class _Interface:
    """What numba asks for when it wraps memory."""

    def __init__(self, owner, pointer, shape, strides, dtype):
        self.owner = owner
        self.__cuda_array_interface__ = {
            "version": 2,
            "data": (pointer, False),
            "shape": tuple(shape),
            "strides": None if strides is None else tuple(strides),
            "typestr": np.dtype(dtype).str,
        }


def show_memory(owner, pointer, shape, dtype, strides=None):
    """The numba array over memory that ``owner`` holds."""
    return cuda.as_cuda_array(_Interface(owner, pointer, shape, strides, dtype), sync=False)


class NumbaArray:
    """An array that numba itself made or took over."""

    has_product = False  # of matrices, by cuBLAS

    def __init__(self, array, stream=0):
        self.native = array
        self.shape = tuple(array.shape)
        self.dtype = np.dtype(array.dtype).name
        self.device = None
        self._stream = stream

    def stream(self):
        """Handle of the stream to put kernels on."""
        return self._stream

    def show(self, dtype=None):
        """The numba array, seen as another type of the same size if asked for."""
        return self.native if dtype is None else self.native.view(dtype)

    def empty(self, shape, dtype):
        """A further array on the same device and stream."""
        return NumbaArray(cuda.device_array(shape, np.dtype(dtype), stream=self.stream()))

    def cast(self, dtype):
        """The array in another type, C-ordered; itself if it is that already."""
        if self.dtype == dtype and self.native.is_c_contiguous():
            return self
        target = self.empty(self.shape, dtype)
        if 0 not in self.shape:
            plane = self.shape if len(self.shape) == 2 else (1, self.shape[0])
            grid = (-(-plane[1] // THREADS), plane[0])
            convert()[grid, THREADS, self.stream()](
                self.native.reshape(plane), target.native.reshape(plane)
            )
        return target


class TorchArray:
    """A tensor of torch."""

    has_product = True

    def __init__(self, tensor):
        self.native = tensor.detach()
        self.shape = tuple(tensor.shape)
        self.dtype = str(tensor.dtype).removeprefix("torch.")
        self.device = tensor.device.index

    def stream(self):
        """Handle of torch's current stream on the tensor's device."""
        torch = sys.modules["torch"]
        return _external_stream(torch.cuda.current_stream(self.device).cuda_stream)

    def show(self, dtype=None):
        """The numba array over the tensor; bfloat16 must be seen as something else."""
        size, strides = self.native.element_size(), None
        # The strides of one row, or of none, are anything: numba would see no C order in them.
        if not self.native.is_contiguous():
            strides = [size * step for step in self.native.stride()]
        return show_memory(
            self.native, self.native.data_ptr(), self.shape, dtype or self.dtype, strides
        )

    def empty(self, shape, dtype):
        """A further tensor from torch's own allocator."""
        torch = sys.modules["torch"]
        return TorchArray(
            torch.empty(shape, dtype=getattr(torch, dtype), device=self.native.device)
        )

    def cast(self, dtype):
        """The tensor in another type, C-ordered; itself if it is that already."""
        torch = sys.modules["torch"]
        return TorchArray(self.native.to(getattr(torch, dtype)).contiguous())

    def product(self, dense, out):
        """``out = self @ dense.T`` by cuBLAS."""
        sys.modules["torch"].matmul(self.native, dense.native.T, out=out.native)


class CupyArray:
    """An array of CuPy."""

    has_product = True

    def __init__(self, array):
        self.native = array
        self.shape = array.shape
        self.dtype = array.dtype.name
        self.device = array.device.id

    def stream(self):
        """Handle of CuPy's current stream."""
        cupy = sys.modules["cupy"]
        return _external_stream(cupy.cuda.get_current_stream().ptr)

    def show(self, dtype=None):
        """The numba array over the array."""
        strides = None if self.native.flags.c_contiguous else self.native.strides
        return show_memory(
            self.native, self.native.data.ptr, self.shape, dtype or self.dtype, strides
        )

    def empty(self, shape, dtype):
        """A further array from CuPy's own pool."""
        with self.native.device:
            return CupyArray(sys.modules["cupy"].empty(shape, dtype))

    def cast(self, dtype):
        """The array in another type, C-ordered; itself if it is that already."""
        with self.native.device:
            return CupyArray(sys.modules["cupy"].ascontiguousarray(self.native, dtype))

    def product(self, dense, out):
        """``out = self @ dense.T`` by cuBLAS."""
        with self.native.device:
            sys.modules["cupy"].matmul(self.native, dense.native.T, out=out.native)


def wrap(array):
    """Wrapper of an array on the device, or None if it is on the host.

    Parameters
    ----------
    array : object
        Anything that was passed as X, bias or out.

    Returns
    -------
    NumbaArray, TorchArray, CupyArray or None
    """
    package = type(array).__module__.partition(".")[0]
    if package == "torch":
        return TorchArray(array) if array.is_cuda else None
    if package == "cupy":
        return CupyArray(array)
    if SIMULATED:
        return NumbaArray(array) if hasattr(array, "copy_to_host") else None
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        stream = interface.get("stream")
        known = cuda.as_cuda_array(array, sync=False)
        return NumbaArray(known, 0 if stream is None else _external_stream(stream))
    if hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] == _DLPACK_CUDA:
        from cuda.core.utils import StridedMemoryView  # comes with numba-cuda

        view = StridedMemoryView.from_dlpack(array, stream_ptr=-1)
        strides = view.strides and [step * view.dtype.itemsize for step in view.strides]
        return NumbaArray(show_memory(view, view.ptr, view.shape, view.dtype, strides))
    return None


def send(array, dtype):
    """Wrapper of a copy of a host array."""
    return NumbaArray(cuda.to_device(np.ascontiguousarray(array, dtype=dtype)))


@cache
def _external_stream(pointer):
    # The default stream of either kind has a small number for a pointer.
    return 0 if SIMULATED or pointer == 0 else cuda.external_stream(pointer)


def current_device():
    """Number of the current device."""
    return 0 if SIMULATED else cuda.get_current_device().id


_workspaces = {}


def workspace(stream, shape):
    """Memory for partial sums, kept for the stream and grown when needed.

    What is outgrown stays: a captured graph may hold its address. Sizes double, so that takes at
    most as much again.
    """
    # Streams are kept by _external_stream, so none takes the place of another.
    key = current_device(), 0 if isinstance(stream, int) else id(stream)
    size = int(np.prod(shape))
    buffers = _workspaces.setdefault(key, [])
    if not buffers or buffers[-1].size < size:
        previous = buffers[-1].size if buffers else 1 << 16
        buffers.append(cuda.device_array(max(size, 2 * previous), np.float32))
    return buffers[-1][:size].reshape(shape)
