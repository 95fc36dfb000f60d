"""A linear layer of torch whose weight stays packed."""

import importlib

import numpy as np
import torch
from scipy import sparse
from torch import nn

from . import _gemm
from ._packing import check_bits
from ._weights import LUTWeight
from .kernels._backend import resolve_backend
from .kernels._blas import one_blas_thread
from .kernels._matmul import multiply_into


class LUTLinear(nn.Module):
    """Linear layer with a lookup-table weight, in place of :class:`torch.nn.Linear`.

    The codes stay packed and the forward pass runs on the kernels of :func:`lut_matmul`. The
    codebook and the bias are parameters, so they can be trained further; the codes are fixed.

    Parameters
    ----------
    in_features : int
        Inputs.
    out_features : int
        Outputs, the rows of the weight.
    bits : int, default=4
        Bits of a code, 1 to 8.
    bias : bool, default=True
        Whether a bias is added.
    n_outliers : int, default=0
        Entries of the sparse matrix that is added to the weight.
    n_threads : int or None, default=None
        Threads of the kernels; None takes those of torch.
    backend : {"auto", "avx512", "avx2", "scalar", "cuda"}, default="auto"
        Kernels to use; "auto" takes "cuda" where layer and input lie on a CUDA device.

    Attributes
    ----------
    codes : torch.Tensor of shape (out_features, n_words), dtype int32
        Packed codes, see :func:`pack_codes`.
    codebook : torch.nn.Parameter of shape (out_features, 2**bits), dtype float32
        Levels of each row.
    bias : torch.nn.Parameter of shape (out_features,), dtype float32, or None
        What is added.
    weight : LUTWeight
        The weight in numpy, sharing memory with a layer on the CPU.

    See Also
    --------
    LUTWeight : The same weight without torch.
    quantize_module : Puts such layers in the place of those of a network.

    Notes
    -----
    With :math:`\\tilde W_{ij} = T_{i, Q_{ij}}`, the gradients are
    :math:`\\partial X = \\partial Y\\, \\tilde W`, for which panels of the weight are decoded, and
    :math:`\\partial T_{iq} = \\sum_{j: Q_{ij} = q} (\\partial Y^\\top X)_{ij}`.

    A new layer has zero codes and levels; it is there to be given a ``state_dict``. Layers with
    values come from :meth:`from_weight` and :meth:`from_linear`.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from skml.quantization import LUTLinear, LUTWeight
    >>> weight = LUTWeight.from_codes([[0, 1, 1], [1, 0, 0]], np.float32([[-1, 2], [0, 5]]))
    >>> layer = LUTLinear.from_weight(weight)
    >>> layer
    LUTLinear(in_features=3, out_features=2, bias=False, bits=1, n_outliers=0)
    >>> layer(torch.ones(3)).tolist()
    [3.0, 5.0]
    """

    def __init__(
        self,
        in_features,
        out_features,
        *,
        bits=4,
        bias=True,
        n_outliers=0,
        n_threads=None,
        backend="auto",
    ):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.bits = check_bits(bits)
        self.n_threads = n_threads
        self.backend = backend
        n_words = _gemm.words_per_row(in_features, self.bits)
        self.register_buffer("codes", torch.zeros((out_features, n_words), dtype=torch.int32))
        self.codebook = nn.Parameter(torch.zeros(out_features, 2**self.bits))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None
        indptr = indices = values = None
        if n_outliers:
            indptr = torch.zeros(out_features + 1, dtype=torch.int64)
            indices = torch.zeros(n_outliers, dtype=torch.int32)
            values = torch.zeros(n_outliers)
        self.register_buffer("outlier_indptr", indptr)
        self.register_buffer("outlier_indices", indices)
        self.register_buffer("outlier_values", values)
        self._prepared = None

    @classmethod
    def from_weight(cls, weight, bias=None, *, n_threads=None, backend="auto"):
        """Make a layer of a packed weight.

        Parameters
        ----------
        weight : LUTWeight
            The weight; its codes, and a codebook in float32, share memory with the layer.
        bias : array-like of shape (n_rows,) or None, default=None
            What is added.
        n_threads : int or None, default=None
            Threads of the kernels; None takes those of torch.
        backend : {"auto", "avx512", "avx2", "scalar"}, default="auto"
            Kernels to use, see the class.

        Returns
        -------
        LUTLinear
            The layer.
        """
        m, n = weight.shape
        layer = cls(n, m, bits=weight.bits, bias=False, n_threads=n_threads, backend=backend)
        layer.codes = torch.from_numpy(weight.codes.view(np.int32))
        layer.codebook = nn.Parameter(torch.from_numpy(np.float32(weight.codebook)))
        if bias is not None:
            bias = torch.as_tensor(bias, dtype=torch.float32).detach().clone()
            if bias.shape != (m,):
                raise ValueError(f"bias must have shape ({m},), got {tuple(bias.shape)}.")
            layer.bias = nn.Parameter(bias)
        if weight.outliers is not None and weight.outliers.nnz:
            indptr, indices, values = weight._kernel_outliers()
            layer.outlier_indptr = torch.from_numpy(indptr)
            layer.outlier_indices = torch.from_numpy(indices)
            layer.outlier_values = torch.from_numpy(values)
        return layer

    @classmethod
    def from_linear(cls, linear, quantizer, *, n_threads=None, backend="auto"):
        """Quantise a linear layer.

        Parameters
        ----------
        linear : torch.nn.Linear
            The layer; it is left as it is.
        quantizer : object
            Fitted quantizer whose ``quantize(W)`` returns a :class:`LUTWeight`.
        n_threads : int or None, default=None
            Threads of the kernels; None takes those of torch.
        backend : {"auto", "avx512", "avx2", "scalar"}, default="auto"
            Kernels to use, see the class.

        Returns
        -------
        LUTLinear
            The layer with the same bias.
        """
        weight = quantizer.quantize(linear.weight.detach().cpu().float().numpy())
        return cls.from_weight(weight, linear.bias, n_threads=n_threads, backend=backend)

    @property
    def weight(self):
        """The packed weight in numpy, sharing memory with a layer on the CPU."""
        outliers = None
        if self.outlier_indptr is not None:
            parts = (self.outlier_values, self.outlier_indices, self.outlier_indptr)
            outliers = sparse.csr_array(
                tuple(part.cpu().numpy() for part in parts),
                shape=(self.out_features, self.in_features),
            )
        codebook = self.codebook.detach().cpu().float().numpy()
        shape = (self.out_features, self.in_features)
        return LUTWeight(self.codes.cpu().numpy(), codebook, shape, self.bits, outliers)

    def dequantize(self):
        """Return the weight as a dense tensor.

        Returns
        -------
        torch.Tensor of shape (out_features, in_features), dtype float32
            The weight, outliers included.
        """
        return torch.from_numpy(self.weight.dequantize())

    def forward(self, input):
        """Apply the layer.

        Parameters
        ----------
        input : torch.Tensor of shape (..., in_features)
            Inputs on the device of the layer, the CPU or CUDA. Other types than float32 are
            computed in float32, except that on CUDA tensor cores multiply inputs and codebook of
            the same 16-bit type.

        Returns
        -------
        torch.Tensor of shape (..., out_features)
            The outputs in the type of the input.
        """
        device = self.codes.device
        if input.device != device or device.type not in ("cpu", "cuda"):
            raise RuntimeError(
                "LUTLinear computes on the CPU or a CUDA device that holds layer and input, got an "
                f"input on {input.device} and codes on {device}."
            )
        if input.shape[-1] != self.in_features:
            raise ValueError(
                f"input must have {self.in_features} features in its last dimension, got shape "
                f"{tuple(input.shape)}."
            )
        rows = input.reshape(-1, self.in_features)
        if device.type == "cpu":
            rows = rows.float()
        output = _LUTMatmul.apply(rows, self.codebook, self)
        if self.bias is not None:
            output = output + self.bias
        return output.to(input.dtype).reshape(*input.shape[:-1], self.out_features)

    def extra_repr(self):
        """Describe the layer.

        Returns
        -------
        str
            Sizes, bits and outliers.
        """
        n_outliers = 0 if self.outlier_values is None else len(self.outlier_values)
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, bits={self.bits}, n_outliers={n_outliers}"
        )

    def __getstate__(self):
        # The handle of the kernels holds addresses.
        return {**super().__getstate__(), "_prepared": None}

    def _matrix(self):
        """Handle of the kernels for the codebook as it is now."""
        codebook = self.codebook.detach().numpy()
        sources = [self.codebook, *(buffer for buffer in self.buffers() if buffer is not None)]
        addresses = [(tensor.data_ptr(), tensor._version) for tensor in sources]
        if self._prepared is not None:
            matrix, known, copied = self._prepared
            if known == addresses and (copied is None or np.array_equal(copied, codebook)):
                return matrix
        matrix = self.weight.packed_matrix
        # Tables of 4 bits and more are read where the codebook lies. Of a copy it must be asked
        # whether it is still the same: writing through `.data` leaves no trace in the version.
        shared = self.bits >= 4 and codebook.dtype == np.float32 and _starts_on_line(codebook)
        self._prepared = matrix, addresses, None if shared else codebook.copy()
        return matrix

    def _threads(self):
        return torch.get_num_threads() if self.n_threads is None else self.n_threads


class _LUTMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, codebook, layer):
        ctx.save_for_backward(rows, codebook)
        ctx.layer = layer
        if resolve_backend(layer.backend, rows) == "cuda":
            return _cuda_linear().forward(rows, layer)
        matrix = layer._matrix()
        output = torch.empty(len(rows), layer.out_features)
        multiply_into(
            rows.detach().contiguous().numpy(), matrix, None, output.numpy(), layer._threads(),
            resolve_backend(layer.backend),
        )  # fmt: skip
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_output):
        rows, _ = ctx.saved_tensors  # reading it raises if the codebook has changed since
        layer = ctx.layer
        if d_output.is_cuda:
            return *_cuda_linear().backward(rows, d_output, layer, ctx.needs_input_grad), None
        matrix, threads = layer._matrix(), layer._threads()
        d_output = d_output.float().contiguous().numpy()
        d_rows = d_codebook = None
        with one_blas_thread():
            if ctx.needs_input_grad[0]:
                isa = resolve_backend(layer.backend)
                d_rows = torch.from_numpy(matrix.matmul_transposed(d_output, isa, threads))
            if ctx.needs_input_grad[1]:
                X = rows.detach().contiguous().numpy()
                d_codebook = torch.from_numpy(matrix.level_gradient(d_output, X, threads))
                d_codebook = d_codebook.to(layer.codebook.dtype)
        return d_rows, d_codebook, None


def _cuda_linear():
    return importlib.import_module("skml.quantization.kernels._cuda._linear")


def _starts_on_line(array):
    return array.ctypes.data % 64 == 0 and array.flags.c_contiguous
