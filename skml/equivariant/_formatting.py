"""Partitions and general equivariant matrices as text and LaTeX."""

from string import ascii_lowercase

from ._basis import basis_labels, check_dimension, dense_maps, spanning_labels
from ._groups import get_group
from ._partitions import as_blocks

_STYLES = ("text", "latex")


def format_partition(partition, order_in, *, style="text"):
    """Write a partition with its upper points 1, 2, ... and its lower points 1', 2', ...

    Parameters
    ----------
    partition : iterable of iterable of int
        Blocks of points, as :func:`equivariant_basis` returns them.
    order_in : int
        Number of upper points.
    style : {"text", "latex"}, default="text"
        How to write it.

    Returns
    -------
    str
        Such as ``{1,1'}{2}``.

    See Also
    --------
    format_basis : The matrix that the partitions span.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    >>> from skml.equivariant import format_partition
    >>> format_partition([(0, 2), (1,)], 2)
    "{1,1'}{2}"
    """
    _check_style(style)
    opening, closing = ("{", "}") if style == "text" else (r"\{", r"\}")
    return "".join(
        opening + ",".join(_point_name(point, order_in) for point in block) + closing
        for block in partition
    )


def format_basis(group, n, order_in, order_out, *, independent=True, style="text"):
    """Write the general equivariant matrix, a letter for each partition.

    Parameters
    ----------
    group : str
        Name of the group, as in :func:`equivariant_basis`; not a unitary one.
    n : int
        Dimension of the base space.
    order_in, order_out : int
        Orders of the tensors that go in and come out.
    independent : bool, default=True
        Whether only a basis gets letters, or every partition of the group.
    style : {"text", "latex"}, default="text"
        How to write it.

    Returns
    -------
    str
        The matrix, then the partition of each letter. Rows and columns are in C order of the
        tensors' indices.

    See Also
    --------
    equivariant_basis : The matrices themselves.
    skml.inspection.PartitionDisplay : The partitions drawn.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    >>> from skml.equivariant import format_basis
    >>> print(format_basis("S", 2, 1, 1))
    [ a+b  b    ]
    [ b    a+b  ]
    a = {1,1'}
    b = {1}{1'}
    """
    _check_style(style)
    group = get_group(group, real_only=True)
    n = check_dimension(n)
    find = basis_labels if independent else spanning_labels
    labels = find(group, n, order_in, order_out)
    letters = [_letter(i, len(labels), style) for i in range(len(labels))]
    maps = dense_maps(labels, n, order_in)
    cells = [
        ["+".join(letters[i] for i in maps[:, j, i_].nonzero()[0]) or "0" for i_ in range(n_in)]
        for n_in in [maps.shape[2]]
        for j in range(maps.shape[1])
    ]
    names = [
        format_partition(as_blocks(row), order_in, style=style) or r"1" for row in labels.tolist()
    ]
    if style == "latex":
        rows = " \\\\\n".join(" & ".join(row) for row in cells)
        lines = [r"\begin{pmatrix}", rows, r"\end{pmatrix}"]
        pairs = [f"{letter} = {name}" for letter, name in zip(letters, names, strict=True)]
        return "\n".join([*lines, r",\quad " + r",\ ".join(pairs)] if pairs else lines)
    width = max(len(cell) for row in cells for cell in row)
    lines = ["[ " + "  ".join(cell.ljust(width) for cell in row) + "  ]" for row in cells]
    pairs = [f"{letter} = {name}" for letter, name in zip(letters, names, strict=True)]
    return "\n".join(lines + pairs)


def _point_name(point, order_in):
    return str(point + 1) if point < order_in else f"{point - order_in + 1}'"


def _letter(number, n_letters, style):
    if n_letters <= len(ascii_lowercase):
        return ascii_lowercase[number]
    return f"w{number + 1}" if style == "text" else f"w_{{{number + 1}}}"


def _check_style(style):
    if style not in _STYLES:
        raise ValueError(f"style must be one of {_STYLES}, got {style!r}.")
