"""Which non-linearities commute with a group, read off the partitions behind them."""

from functools import lru_cache

from ._groups import get_group
from ._partitions import contains

NONLINEARITIES = ("auto", "gated", "pointwise", "matmul", "identity")


def resolve_nonlinearity(group, nonlinearity, order):
    """Choose what is done to tensors of one order, or refuse.

    Parameters
    ----------
    group : str
        Name of a group without colours.
    nonlinearity : {"auto", "gated", "pointwise", "matmul", "identity"}
        What the user asks for.
    order : int
        Order of the tensors.

    Returns
    -------
    {"identity", "any", "odd", "gated", "matmul"}
        "any" and "odd" stand for functions of each entry.

    Raises
    ------
    ValueError
        If that would not be equivariant.
    """
    if nonlinearity == "identity":
        return "identity"
    if order == 0:
        return "any"
    if nonlinearity == "gated":
        return "gated"
    kind = pointwise_kind(group, order)
    if nonlinearity == "auto":
        if order == 1:
            return kind or "gated"
        return "matmul" if order == 2 else "gated"
    if nonlinearity == "pointwise":
        if kind is None:
            raise ValueError(
                f"nonlinearity='pointwise' on tensors of order {order} is not equivariant under "
                f"group {group!r}; use 'gated'{', or matmul' if order == 2 else ''}."
            )
        return kind
    if order != 2 or not allows_matmul(group):
        raise ValueError(
            f"nonlinearity='matmul' multiplies tensors of order 2; for order {order} it is not "
            f"defined under group {group!r}. Use hidden_layer_sizes of orders 0 and 2, or 'gated'."
        )
    return "matmul"


@lru_cache(maxsize=256)
def pointwise_kind(group, order):
    """Which functions of each entry of a tensor are equivariant.

    A power d of every entry is the diagram whose block of index a holds that index of all d
    copies and of the output. With the second power come all powers, with the third the odd ones.

    Parameters
    ----------
    group : str
        Name of a group without colours.
    order : int
        Order of the tensor.

    Returns
    -------
    {"any", "odd", None}
        None if only linear functions are.
    """
    belongs = {
        degree: contains(group, [*range(order)] * (degree + 1), degree * order)
        for degree in (0, 2, 3)
    }
    if belongs[0] and belongs[2]:
        return "any"
    return "odd" if belongs[3] else None


def allows_matmul(group):
    """Whether the product of two matrices, the diagram {1,1'}{2,3}{4,2'}, is equivariant."""
    return contains(get_group(group), [0, 1, 1, 2, 0, 2], 4)
