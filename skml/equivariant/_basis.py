"""Bases of the spaces of equivariant linear maps."""

from functools import lru_cache
from numbers import Integral

import numpy as np
from scipy import sparse

from ._groups import get_group
from ._independence import independent_rows, most_blocks
from ._partitions import as_blocks, check_order, enumerate_partitions

_FORMS = ("dense", "sparse", "partitions")


def equivariant_basis(
    group,
    n,
    order_in,
    order_out,
    *,
    independent=True,
    form="dense",
    colors_in=None,
    colors_out=None,
):
    r"""Compute a basis of the linear maps between tensors that are equivariant under a group.

    Parameters
    ----------
    group : str
        "S" (symmetric), "O" (orthogonal), "H" (hyperoctahedral), "B" (bistochastic), their free
        quantum versions "S+", "O+", "H+", "B+"; "S'", "S'+", "B'", "B'+", "B#+"; the
        half-liberated "O*", "H*"; the unitary "U" and its free version "U+".
    n : int
        Dimension of the base space, at least 1.
    order_in, order_out : int
        Orders k and l of the tensors that go in and come out; order 0 is a number.
    independent : bool, default=True
        Whether to return a basis. False returns the maps of all partitions of the group, which
        are dependent where n is small.
    form : {"dense", "sparse", "partitions"}, default="dense"
        What stands for a map.
    colors_in, colors_out : str or None, default=None
        For "U" and "U+": a letter for each index of the tensor, "u" for the fundamental
        representation and "c" for its conjugate. None: all "u".

    Returns
    -------
    maps : ndarray of shape (n_maps, n**order_out, n**order_in) or list
        The maps, between tensors flattened in C order. "sparse" gives a list of
        scipy.sparse.csr_array, "partitions" a list of tuples of blocks, each a tuple of points:
        the indices of the input are the points 0, ..., k - 1, then come those of the output.

    Raises
    ------
    ValueError
        If an argument has no meaning, or there are more than four million diagrams.

    See Also
    --------
    count_partitions : How many there are.
    EquivariantLinear : A layer that learns a combination of them.
    format_basis : The general equivariant matrix as text or LaTeX.

    Notes
    -----
    The space :math:`\mathrm{Hom}(u^{\otimes k}, u^{\otimes l})` of the matrices T with
    :math:`T u^{\otimes k} = u^{\otimes l} T` is spanned by

    .. math::

        (T_\pi)_{J,I} = 1 \text{ if } (i_1, ..., i_k, j_1, ..., j_l) \text{ is constant on each
        block of } \pi, \text{ else } 0

    of the partitions :math:`\pi` that belong to the group. Which those are is read off the
    diagram; no system of equations is solved. Where a theorem says that they are independent,
    nothing is left to do; otherwise a basis is chosen by the Gram matrix
    :math:`\langle T_\pi, T_\sigma \rangle = n^{\#(\pi \vee \sigma)}`, few blocks first.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358
    .. [2] T. Banica, R. Speicher. "Liberation of orthogonal Lie groups." Advances in Mathematics
       222 (2009), 1461-1501. https://arxiv.org/abs/0808.2628

    Examples
    --------
    The maps from vectors to vectors that commute with permutations are the identity and the sum:

    >>> from skml.equivariant import equivariant_basis
    >>> equivariant_basis("S", 2, 1, 1)
    array([[[1., 0.],
            [0., 1.]],
    <BLANKLINE>
           [[1., 1.],
            [1., 1.]]])
    >>> equivariant_basis("O+", 3, 2, 2, form="partitions")
    [((0, 1), (2, 3)), ((0, 2), (1, 3))]
    """
    group = get_group(group)
    n = check_dimension(n)
    if not isinstance(independent, bool | np.bool_):
        raise ValueError(f"independent must be a bool, got {independent!r}.")
    if form not in _FORMS:
        raise ValueError(f"form must be one of {_FORMS}, got {form!r}.")
    find = basis_labels if independent else spanning_labels
    labels = find(group, n, order_in, order_out, colors_in=colors_in, colors_out=colors_out)
    if form == "partitions":
        return [as_blocks(row) for row in labels.tolist()]
    if form == "sparse":
        return [sparse_map(row, n, order_in) for row in labels]
    return dense_maps(labels, n, order_in)


def basis_labels(group, n, order_in, order_out, *, colors_in=None, colors_out=None):
    """Labels of the partitions whose matrices are a basis.

    Returns
    -------
    ndarray of shape (n_maps, order_in + order_out), dtype int8
        Read-only.
    """
    group = get_group(group)
    arguments = group, n, check_order(order_in, "order_in"), check_order(order_out, "order_out")
    arguments = *arguments, colors_in, colors_out
    _candidates(*arguments)  # names what is wrong with the colours
    return _independent_part(*arguments)


def _candidates(group, n, order_in, order_out, colors_in, colors_out):
    # Where the number of blocks decides, the others need not be listed: there may be far more.
    return enumerate_partitions(
        group,
        order_in,
        order_out,
        colors_in=colors_in,
        colors_out=colors_out,
        max_blocks=most_blocks(group, n, order_in + order_out),
    )


@lru_cache(maxsize=256)
def _independent_part(group, n, order_in, order_out, colors_in, colors_out):
    labels = _candidates(group, n, order_in, order_out, colors_in, colors_out)
    rows = independent_rows(group, n, labels)
    if len(rows) == len(labels):
        return labels
    labels = labels[rows]
    labels.setflags(write=False)
    return labels


def invariant_tensors(group, n, order, dtype):
    """Basis of the invariant tensors, ndarray of shape (n_invariants, n**order)."""
    return equivariant_basis(group, n, 0, order)[:, :, 0].astype(dtype)


def spanning_labels(group, n, order_in, order_out, *, colors_in=None, colors_out=None):
    """Labels of all partitions of a group, whatever n."""
    return enumerate_partitions(
        group, order_in, order_out, colors_in=colors_in, colors_out=colors_out
    )


def dense_maps(labels, n, order_in):
    """Matrices of partitions, as one array of shape (n_maps, n**order_out, n**order_in)."""
    n_maps, m = labels.shape
    maps = np.zeros((n_maps, n ** (m - order_in), n**order_in))
    strides = point_strides(n, order_in, m - order_in)
    item = maps.itemsize
    for number, row in enumerate(labels.tolist()):
        block_strides = sums_by_label(row, strides)
        diagonal = np.ndarray(
            (n,) * len(block_strides),
            maps.dtype,
            maps,
            number * n**m * item,
            [stride * item for stride in block_strides],
        )
        diagonal[...] = 1.0
    return maps


def sparse_map(row, n, order_in):
    """Matrix of one partition in compressed rows."""
    row = np.asarray(row).tolist()
    order_out = len(row) - order_in
    above = [n ** (order_in - 1 - i) for i in range(order_in)] + [0] * order_out
    below = [0] * order_in + [n ** (order_out - 1 - j) for j in range(order_out)]
    columns = block_offsets(sums_by_label(row, above), n)
    rows = block_offsets(sums_by_label(row, below), n)
    shape = (n**order_out, n**order_in)
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def point_strides(n, order_in, order_out):
    """Strides of the points in the flat matrix: inputs first, then outputs."""
    above = [n ** (order_in - 1 - i) for i in range(order_in)]
    below = [n ** (order_in + order_out - 1 - j) for j in range(order_out)]
    return above + below


def block_offsets(strides, n):
    """All sums of multiples 0, ..., n - 1 of the strides."""
    offsets = np.zeros(1, dtype=np.int64)
    for stride in strides:
        offsets = (offsets[:, None] + np.arange(n) * stride).ravel()
    return offsets


def sums_by_label(row, values):
    """Sum of the values of the points of each block."""
    sums = [0] * (max(row, default=-1) + 1)
    for label, value in zip(row, values, strict=True):
        sums[label] += value
    return sums


def check_dimension(n):
    """Check that n is a positive int, and return it."""
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n must be an int of at least 1, got {n!r}.")
    return int(n)
