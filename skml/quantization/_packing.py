"""Codes of 1 to 8 bits in 32-bit words, and in bit planes for storage."""

import numpy as np

from . import _gemm

# A code is stored as planes whose widths are powers of two, so that no bit of a byte is unused.
_PLANES = {bits: tuple(w for w in (4, 2, 1) if bits & w) for bits in range(1, 8)} | {8: (8,)}


def pack_codes(codes, bits):
    """Pack integer codes into words of 32 bits, in the order that the kernels read.

    Parameters
    ----------
    codes : array-like of shape (n_rows, n_inputs), dtype int
        Values from 0 to ``2**bits - 1``.
    bits : int
        Bits of a code, 1 to 8.

    Returns
    -------
    words : ndarray of shape (n_rows, n_words), dtype uint32
        Starts on a cache line. ``n_words = 16 * ceil(n_inputs / (16 * J))`` where
        ``J = 32 // bits`` codes share a word.

    Raises
    ------
    ValueError
        If a code does not fit in ``bits``, or ``bits`` is not an integer from 1 to 8.

    See Also
    --------
    unpack_codes : The way back.

    Notes
    -----
    Code ``j`` of word ``l`` in block ``b`` lies in bits ``[bits * j, bits * (j + 1))`` and belongs
    to input ``k = 16 * (b * J + j) + l``. Shifting the 16 words of a block right by ``bits * j``
    brings the codes of 16 consecutive inputs to the low bits of 16 lanes. The last block is
    filled up with code 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.quantization import pack_codes
    >>> words = pack_codes(np.arange(128)[np.newaxis] % 16, bits=4)
    >>> words.shape
    (1, 16)
    >>> hex(words[0, 7])
    '0x77777777'
    """
    bits = check_bits(bits)
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.dtype.kind not in "biu":
        raise ValueError(
            "codes must be a 2-D array of integers (n_rows, n_inputs), got "
            f"{codes.ndim}-D {codes.dtype}."
        )
    if codes.size and (codes.min() < 0 or codes.max() >= 2**bits):
        raise ValueError(
            f"codes must lie between 0 and {2**bits - 1} for bits={bits}, got values from "
            f"{codes.min()} to {codes.max()}."
        )
    return _gemm.pack(np.ascontiguousarray(codes, dtype=np.uint8), bits)


def unpack_codes(words, bits, n):
    """Unpack words of :func:`pack_codes`.

    Parameters
    ----------
    words : ndarray of shape (n_rows, n_words), dtype uint32
        Packed codes.
    bits : int
        Bits of a code, 1 to 8.
    n : int
        Inputs of a row; the rest of the last block is dropped.

    Returns
    -------
    codes : ndarray of shape (n_rows, n), dtype uint8
        The codes.

    Raises
    ------
    ValueError
        If the number of words does not belong to ``n`` inputs of ``bits`` bits.

    See Also
    --------
    pack_codes : The way there.

    Examples
    --------
    >>> from skml.quantization import pack_codes, unpack_codes
    >>> unpack_codes(pack_codes([[3, 0, 1, 2]], bits=2), bits=2, n=4)
    array([[3, 0, 1, 2]], dtype=uint8)
    """
    bits = check_bits(bits)
    return _gemm.unpack(check_words(words, bits, n), bits, n)


def check_bits(bits):
    """Return bits as an int from 1 to 8, or say what is wrong."""
    if isinstance(bits, bool) or not isinstance(bits, (int, np.integer)) or not 1 <= bits <= 8:
        raise ValueError(f"bits must be an integer from 1 to 8, got {bits!r}.")
    return int(bits)


def check_words(words, bits, n_inputs):
    """Return words as a C-ordered uint32 array that holds rows of n_inputs codes."""
    words = np.asarray(words)
    if words.dtype == np.int32:  # torch has no arithmetic on unsigned words
        words = words.view(np.uint32)
    expected = _gemm.words_per_row(n_inputs, bits)
    if words.ndim != 2 or words.dtype != np.uint32 or words.shape[1] != expected:
        raise ValueError(
            f"rows of {n_inputs} codes of {bits} bits are packed as uint32 words of shape "
            f"(n_rows, {expected}), got {words.dtype} of shape {words.shape}."
        )
    return np.ascontiguousarray(words)


def to_planes(codes, bits):
    """Split codes into bit planes without unused bits, for storage.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_inputs), dtype uint8
    bits : int

    Returns
    -------
    dict of str to ndarray of uint8
        ``"plane4"``, ``"plane2"``, ... each a stream of ``ceil(n_rows * n_inputs * width / 8)``
        bytes; 3 bits are a plane of 2 and a plane of 1, the lower bits in the first plane.
    """
    flat, planes, done = codes.ravel(), {}, 0
    for width in _PLANES[bits]:
        part = (flat >> done) & (2**width - 1)
        per_byte = 8 // width
        padded = np.zeros(-(-flat.size // per_byte) * per_byte, dtype=np.uint8)
        padded[: flat.size] = part
        shifts = (width * np.arange(per_byte)).astype(np.uint8)
        shifted = padded.reshape(-1, per_byte) << shifts
        planes[f"plane{width}"] = np.bitwise_or.reduce(shifted, axis=1)
        done += width
    return planes


def from_planes(planes, bits, shape):
    """Codes of the planes that :func:`to_planes` makes.

    Parameters
    ----------
    planes : mapping of str to ndarray of uint8
    bits : int
    shape : tuple of (int, int)

    Returns
    -------
    ndarray of uint8, shape ``shape``
    """
    size, done = shape[0] * shape[1], 0
    codes = np.zeros(size, dtype=np.uint8)
    for width in _PLANES[bits]:
        plane = np.asarray(planes[f"plane{width}"])
        if plane.shape != (-(-size * width // 8),) or plane.dtype != np.uint8:
            raise ValueError(f"plane{width} does not hold {size} codes of {width} bits.")
        shifts = (width * np.arange(8 // width)).astype(np.uint8)
        part = ((plane[:, np.newaxis] >> shifts) & (2**width - 1)).ravel()[:size]
        codes |= part << np.uint8(done)
        done += width
    return codes.reshape(shape)
