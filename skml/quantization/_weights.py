"""Quantised weights: packed codes with what is needed to read them."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import sparse

from . import _gemm
from ._packing import check_bits, check_words, pack_codes, unpack_codes
from ._storage import load_arrays, save_arrays

_FLOATS = (np.float16, np.float32, np.float64)


class _PackedWeight:
    """What both formats share; not public, since a weight is one of the two."""

    def __post_init__(self):
        set_field = object.__setattr__
        set_field(self, "bits", check_bits(self.bits))
        m, n = (int(size) for size in self.shape)
        if m < 0 or n < 1:
            raise ValueError(f"shape must be (n_rows, n_inputs) with an input, got {self.shape}.")
        set_field(self, "shape", (m, n))
        words = check_words(self.codes, self.bits, n)
        if words.shape[0] != m:
            raise ValueError(f"codes must have {m} rows as shape says, got {words.shape[0]}.")
        set_field(self, "codes", _aligned(words))
        if self.outliers is not None:
            set_field(self, "outliers", _check_outliers(self.outliers, self.shape))
        self._check_levels()

    def __getstate__(self):
        # The handle of the kernels holds addresses.
        return {key: value for key, value in vars(self).items() if key != "packed_matrix"}

    def __setstate__(self, state):
        vars(self).update(state)
        # Unpickled arrays lie anywhere.
        object.__setattr__(self, "codes", _aligned(self.codes))

    @property
    def n_groups(self):
        """Groups of inputs in a row that share their levels."""
        return 1

    @property
    def nbytes(self):
        """Bytes that the arrays occupy in memory."""
        return sum(array.nbytes for array in self._arrays())

    @property
    def bits_per_weight(self):
        """Bits that :meth:`save` stores per weight, levels and outliers included."""
        levels = sum(array.nbytes for array in self._arrays()) - self.codes.nbytes
        weights = self.shape[0] * self.shape[1]
        return self.bits + 8 * levels / weights if weights else float(self.bits)

    def unpack(self):
        """Return the codes.

        Returns
        -------
        ndarray of shape (n_rows, n_inputs), dtype uint8
            Values from 0 to ``2**bits - 1``.
        """
        return unpack_codes(self.codes, self.bits, self.shape[1])

    def dequantize(self):
        """Return the weights, outliers included.

        Returns
        -------
        ndarray of shape (n_rows, n_inputs)
            In the floating-point type of the levels.
        """
        dense = self._levels_of_codes()
        if self.outliers is not None:
            dense += self.outliers.toarray().astype(dense.dtype)
        return dense

    def save(self, path):
        """Write the weight to a file, without pickling anything.

        Codes are stored as bit planes without unused bits, so 3-bit codes take 3.0 bits.

        Parameters
        ----------
        path : path-like
            Ends in ``.safetensors`` (which needs that package) or ``.npz``.
        """
        save_arrays(path, self)

    @classmethod
    def load(cls, path):
        """Read a weight that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like
            File that ends in ``.safetensors`` or ``.npz``.

        Returns
        -------
        LUTWeight or UniformWeight
            The weight; an error if the file holds the other format.
        """
        return load_arrays(path, cls)

    def _arrays(self):
        yield self.codes
        for name in self._level_names:
            yield getattr(self, name)
        if self.outliers is not None:
            yield from (self.outliers.indptr, self.outliers.indices, self.outliers.data)

    def _kernel_outliers(self):
        if self.outliers is None:
            return None
        return (
            np.ascontiguousarray(self.outliers.indptr, dtype=np.int64),
            np.ascontiguousarray(self.outliers.indices, dtype=np.int32),
            np.ascontiguousarray(self.outliers.data, dtype=np.float32),
        )


@dataclass(frozen=True, eq=False)
class LUTWeight(_PackedWeight):
    """Weight matrix whose rows look their values up in a table of their own.

    ``W[i, j] = codebook[i, code[i, j]] + outliers[i, j]``.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_words), dtype uint32
        Packed codes, see :func:`pack_codes`; :meth:`from_codes` packs them.
    codebook : ndarray of shape (n_rows, 2**bits)
        The levels of each row: float16, float32 or float64. Kernels compute in float32.
    shape : tuple of (int, int)
        Rows and inputs.
    bits : int
        Bits of a code, 1 to 8.
    outliers : scipy.sparse.csr_array or None, default=None
        Sparse matrix that is added.
    info : dict
        What the quantizer has to report, such as the number of iterations.

    See Also
    --------
    UniformWeight : Levels that are evenly spaced.
    lut_matmul : The product with such a weight.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import LUTWeight, lut_matmul
    >>> weight = LUTWeight.from_codes([[0, 1, 1], [1, 0, 0]], np.float32([[-1, 2], [0, 5]]))
    >>> weight.dequantize()
    array([[-1.,  2.,  2.],
           [ 5.,  0.,  0.]], dtype=float32)
    >>> lut_matmul(np.ones((1, 3), dtype=np.float32), weight)
    array([[3., 5.]], dtype=float32)
    """

    codes: np.ndarray
    codebook: np.ndarray
    shape: tuple
    bits: int
    outliers: sparse.csr_array | None = None
    info: dict = field(default_factory=dict, repr=False)

    _level_names = ("codebook",)

    @classmethod
    def from_codes(cls, codes, codebook, *, outliers=None, info=None):
        """Pack codes into a weight.

        Parameters
        ----------
        codes : array-like of shape (n_rows, n_inputs), dtype int
            Index of each weight's level.
        codebook : array-like of shape (n_rows, 2**bits), dtype float
            Levels; the number of columns gives the bits.
        outliers : sparse matrix of shape (n_rows, n_inputs) or None, default=None
            Matrix that is added.
        info : dict or None, default=None
            What the quantizer has to report.

        Returns
        -------
        LUTWeight
            The packed weight.
        """
        codes, codebook = np.asarray(codes), np.asarray(codebook)
        bits = int(codebook.shape[-1]).bit_length() - 1
        if codebook.ndim != 2 or not 1 <= bits <= 8 or codebook.shape[1] != 2**bits:
            raise ValueError(
                "codebook must have shape (n_rows, 2**bits) with bits from 1 to 8, got "
                f"{codebook.shape}."
            )
        return cls(pack_codes(codes, bits), codebook, codes.shape, bits, outliers, info or {})

    @cached_property
    def packed_matrix(self):
        """Handle of the compiled kernels, made on first use."""
        return self.packed_matrix_with(self.codebook)

    def packed_matrix_with(self, codebook):
        """Make a handle of the compiled kernels for other levels.

        Parameters
        ----------
        codebook : ndarray of shape (n_rows, 2**bits)
            Levels that take the place of ``codebook``.

        Returns
        -------
        PackedMatrix
            The handle.
        """
        # The kernels read 16 entries and ignore the higher bits of an index.
        table = np.asarray(codebook, dtype=np.float32)
        if table.shape[1] < 16:
            table = np.tile(table, (1, 16 // table.shape[1]))
        return _gemm.PackedMatrix(
            self.codes,
            self.shape[1],
            self.bits,
            table=_aligned(table),
            outliers=self._kernel_outliers(),
        )

    def _check_levels(self):
        codebook = _check_floats(self.codebook, "codebook", (self.shape[0], 2**self.bits))
        object.__setattr__(self, "codebook", codebook)

    def _levels_of_codes(self):
        return np.take_along_axis(self.codebook, self.unpack().astype(np.intp), axis=1)


@dataclass(frozen=True, eq=False)
class UniformWeight(_PackedWeight):
    """Weight matrix on evenly spaced levels, with scale and zero point per group of inputs.

    ``W[i, j] = scale[i, g] * (code[i, j] - zero[i, g]) + outliers[i, j]`` with
    ``g = j // group_size``.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_words), dtype uint32
        Packed codes, see :func:`pack_codes`; :meth:`from_codes` packs them.
    scale : ndarray of shape (n_rows, n_groups)
        Distance of two levels: float16, float32 or float64. Kernels compute in float32.
    zero : ndarray of shape (n_rows, n_groups)
        Code of the value zero, not necessarily an integer, in the type of ``scale``.
    shape : tuple of (int, int)
        Rows and inputs.
    bits : int
        Bits of a code, 1 to 8.
    group_size : int or None, default=None
        Inputs that share scale and zero; None is the whole row. Multiples of 16 are fast.
    outliers : scipy.sparse.csr_array or None, default=None
        Sparse matrix that is added.
    act_bits : {4, 8} or None, default=None
        Bits to which :func:`grouped_matmul` rounds the inputs of this weight; None leaves them.
    act_group : int, default=-1
        Inputs that share a scale of activations, a multiple of 16; -1 is the whole row.
    info : dict
        What the quantizer has to report.

    See Also
    --------
    LUTWeight : Levels from a table for each row.
    uniform_matmul : The product with such a weight.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import UniformWeight, uniform_matmul
    >>> weight = UniformWeight.from_codes(
    ...     [[0, 3, 1]], bits=2, scale=np.float32([[0.5]]), zero=np.float32([[1]])
    ... )
    >>> weight.dequantize()
    array([[-0.5,  1. ,  0. ]], dtype=float32)
    >>> uniform_matmul(np.ones((1, 3), dtype=np.float32), weight)
    array([[0.5]], dtype=float32)
    """

    codes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    shape: tuple
    bits: int
    group_size: int | None = None
    outliers: sparse.csr_array | None = None
    act_bits: int | None = None
    act_group: int = -1
    info: dict = field(default_factory=dict, repr=False)

    _level_names = ("scale", "zero")

    @classmethod
    def from_codes(cls, codes, bits, scale, zero, **settings):
        """Pack codes into a weight.

        Parameters
        ----------
        codes : array-like of shape (n_rows, n_inputs), dtype int
            Values from 0 to ``2**bits - 1``.
        bits : int
            Bits of a code, 1 to 8.
        scale, zero : array-like of shape (n_rows, n_groups), dtype float
            Distance of two levels, and code of the value zero.
        **settings
            The remaining parameters of the class, such as ``group_size``.

        Returns
        -------
        UniformWeight
            The packed weight.
        """
        codes = np.asarray(codes)
        return cls(
            pack_codes(codes, bits), np.asarray(scale), np.asarray(zero), codes.shape, bits,
            **settings,
        )  # fmt: skip

    @property
    def n_groups(self):
        """Groups of inputs in a row that share scale and zero."""
        return 1 if self.group_size is None else -(-self.shape[1] // self.group_size)

    @cached_property
    def packed_matrix(self):
        """Handle of the compiled kernels, made on first use."""
        return _gemm.PackedMatrix(
            self.codes,
            self.shape[1],
            self.bits,
            scale=np.ascontiguousarray(self.scale, dtype=np.float32),
            zero=np.ascontiguousarray(self.zero, dtype=np.float32),
            group_size=self.group_size or self.shape[1],
            outliers=self._kernel_outliers(),
        )

    def _check_levels(self):
        set_field = object.__setattr__
        if self.group_size is not None and (
            not isinstance(self.group_size, (int, np.integer)) or self.group_size < 1
        ):
            raise ValueError(
                f"group_size must be a positive integer or None, got {self.group_size!r}."
            )
        if self.act_bits not in (None, 4, 8):
            raise ValueError(f"act_bits must be None, 4 or 8, got {self.act_bits!r}.")
        check_act_group(self.act_group)
        expected = (self.shape[0], self.n_groups)
        set_field(self, "scale", _check_floats(self.scale, "scale", expected))
        set_field(self, "zero", _check_floats(self.zero, "zero", expected))
        if self.scale.dtype != self.zero.dtype:
            set_field(self, "zero", self.zero.astype(self.scale.dtype))

    def _levels_of_codes(self):
        codes = self.unpack().astype(self.scale.dtype)
        size = self.group_size or self.shape[1]
        scale = np.repeat(self.scale, size, axis=1)[:, : self.shape[1]]
        zero = np.repeat(self.zero, size, axis=1)[:, : self.shape[1]]
        return scale * (codes - zero)


def check_act_group(act_group):
    """Raise unless act_group is -1 or a positive multiple of 16."""
    whole = isinstance(act_group, (int, np.integer)) and not isinstance(act_group, bool)
    if not whole or (act_group != -1 and (act_group < 16 or act_group % 16)):
        raise ValueError(
            f"act_group must be -1 (the whole row) or a positive multiple of 16, got {act_group!r}."
        )


def _check_floats(array, name, expected):
    array = np.ascontiguousarray(array)
    if array.shape != expected or array.dtype not in _FLOATS:
        raise ValueError(
            f"{name} must be a float16, float32 or float64 array of shape {expected}, got "
            f"{array.dtype} of shape {array.shape}."
        )
    # Padding multiplies levels with zero, and zero times infinity would spoil the sums.
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    return array


def _check_outliers(outliers, shape):
    if not sparse.issparse(outliers) or outliers.shape != shape:
        raise ValueError(
            f"outliers must be a sparse matrix of shape {shape}, got "
            f"{type(outliers).__name__} of shape {np.shape(outliers)}."
        )
    return sparse.csr_array(outliers)


def _aligned(array):
    """The array itself if it starts on a cache line, else a copy that does."""
    array = np.ascontiguousarray(array)
    if array.ctypes.data % 64 == 0:
        return array
    copy = _gemm.aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
