"""The easy groups: which partitions belong to each, and which classical group lies inside it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EasyGroup:
    """An easy (quantum) group, given by its category of partitions.

    Attributes
    ----------
    name : str
        The name that users write, such as "S+".
    title : str
        The name in words.
    sizes : {"any", "even", "pair", "one or two"}
        Which block sizes are allowed.
    classical : str
        Name of the classical version: the group whose elements can be sampled.
    noncrossing : bool
        Whether only noncrossing partitions are allowed, in the cyclic order.
    even_total : bool
        Whether the number of points must be even.
    charges : {None, "alternating", "colors"}
        Where the points have a charge of +1 or -1: by their position in the cyclic order, or by
        their colour. The charges of a block of two or more points must then cancel.
    """

    name: str
    title: str
    sizes: str
    classical: str
    noncrossing: bool = False
    even_total: bool = False
    charges: str | None = None

    @property
    def is_quantum(self):
        """Whether the group is not a group of matrices."""
        return self.name != self.classical

    @property
    def is_colored(self):
        """Whether its tensors need a colour for each index."""
        return self.charges == "colors"


_ALL = (
    EasyGroup("S", "symmetric group", "any", "S"),
    EasyGroup("S+", "free symmetric quantum group", "any", "S", noncrossing=True),
    EasyGroup("O", "orthogonal group", "pair", "O"),
    EasyGroup("O+", "free orthogonal quantum group", "pair", "O", noncrossing=True),
    EasyGroup("H", "hyperoctahedral group", "even", "H"),
    EasyGroup("H+", "free hyperoctahedral quantum group", "even", "H", noncrossing=True),
    EasyGroup("B", "bistochastic group", "one or two", "B"),
    EasyGroup("B+", "free bistochastic quantum group", "one or two", "B", noncrossing=True),
    EasyGroup("S'", "modified symmetric group", "any", "S'", even_total=True),
    EasyGroup(
        "S'+", "free modified symmetric quantum group", "any", "S'", noncrossing=True,
        even_total=True,
    ),
    EasyGroup("B'", "modified bistochastic group", "one or two", "B'", even_total=True),
    EasyGroup(
        "B'+", "free modified bistochastic quantum group", "one or two", "B'", noncrossing=True,
        even_total=True,
    ),
    EasyGroup(
        "B#+", "freely modified bistochastic quantum group", "one or two", "B'",
        noncrossing=True, even_total=True, charges="alternating",
    ),
    EasyGroup("O*", "half-liberated orthogonal quantum group", "pair", "O", charges="alternating"),
    EasyGroup(
        "H*", "half-liberated hyperoctahedral quantum group", "even", "H", charges="alternating"
    ),
    EasyGroup("U", "unitary group", "pair", "U", charges="colors"),
    EasyGroup("U+", "free unitary quantum group", "pair", "U", noncrossing=True, charges="colors"),
)  # fmt: skip
GROUPS = {group.name: group for group in _ALL}
REAL_GROUPS = tuple(group.name for group in _ALL if not group.is_colored)


def get_group(name, *, real_only=False):
    """Look a group up by its name.

    Parameters
    ----------
    name : str or EasyGroup
        The name.
    real_only : bool
        Whether the unitary groups, whose tensors have colours, are refused.

    Returns
    -------
    EasyGroup
        The group.

    Raises
    ------
    ValueError
        If there is no such group; the message lists the names.
    """
    if isinstance(name, EasyGroup):
        name = name.name
    valid = REAL_GROUPS if real_only else tuple(GROUPS)
    if not isinstance(name, str) or name not in valid:
        raise ValueError(f"group must be one of {', '.join(map(repr, valid))}, got {name!r}.")
    return GROUPS[name]


def no_map_message(group, order_in, order_out):
    """Say that a space of equivariant maps is empty."""
    return (
        f"There is no equivariant map from order {order_in} to order {order_out} for group "
        f"{get_group(group).name!r}"
    )
