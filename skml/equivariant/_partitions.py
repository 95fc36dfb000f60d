"""Enumeration and counting of the partitions that belong to a group.

The points are the inputs 0, ..., k - 1 (the upper row) and the outputs k, ..., k + l - 1 (the
lower row). A partition is stored as the labels of its points, numbered by first appearance.
Whether it is noncrossing, and the charges of half-liberated groups, are read in the cyclic order:
the upper row from left to right, then the lower row from right to left.
"""

from functools import lru_cache
from math import comb, factorial, prod
from numbers import Integral
from operator import index

import numpy as np

from ._groups import get_group

_CHARGE_OF_COLOR = {"u": 1, "c": -1}
# Listing takes about ten microseconds for each.
_MOST_PARTITIONS = 2**22


def count_partitions(group, m, *, colors=None):
    """Count the partitions of m points that belong to a group.

    This is the number of diagrams behind the equivariant maps from order k to order l, for every
    split m = k + l. It is the dimension of the space of maps where n is large enough.

    Parameters
    ----------
    group : str
        Name of the group, as in :func:`equivariant_basis`.
    m : int
        Number of points.
    colors : str of length m or None, default=None
        For "U" and "U+" only: the colours of the points of one row, "u" for the fundamental
        representation and "c" for its conjugate. None: all "u".

    Returns
    -------
    int
        The count, exact for every m.

    Raises
    ------
    ValueError
        If the group is unknown, m is negative, or the colours do not fit.

    See Also
    --------
    equivariant_basis : The maps themselves.

    Notes
    -----
    The counts are the Bell numbers for "S", Catalan numbers for "S+", double factorials for "O",
    Motzkin numbers for "B+", Fuss-Catalan numbers for "H+", and so on; see [1]_.

    References
    ----------
    .. [1] T. Banica, R. Speicher. "Liberation of orthogonal Lie groups." Advances in Mathematics
       222 (2009), 1461-1501. https://arxiv.org/abs/0808.2628

    Examples
    --------
    >>> from skml.equivariant import count_partitions
    >>> [count_partitions("S", m) for m in range(6)]
    [1, 1, 2, 5, 15, 52]
    >>> [count_partitions("S+", m) for m in range(6)]
    [1, 1, 2, 5, 14, 42]
    """
    group = get_group(group)
    m = check_order(m, "m")
    if group.is_colored:
        return _count_coloured_pairings(_charges_of(colors, m, "colors"), group.noncrossing)
    if colors is not None:
        raise ValueError(f"colors is for the groups 'U' and 'U+', got group {group.name!r}.")
    if m % 2 and (group.even_total or group.sizes in {"pair", "even"}):
        return 0
    half = m // 2
    if group.name in _COUNTS_BY_HALF:
        return _COUNTS_BY_HALF[group.name](half)
    return _COUNTS[group.sizes, group.noncrossing](m)


def enumerate_partitions(
    group, order_in, order_out, *, colors_in=None, colors_out=None, max_blocks=None
):
    """Find all partitions that belong to a group.

    Parameters
    ----------
    group : str or EasyGroup
        The group.
    order_in, order_out : int
        Number of upper and of lower points.
    colors_in, colors_out : str or None
        Colours of the points, for "U" and "U+".
    max_blocks : int or None
        Only those with at most so many blocks, for groups that allow any sizes or the even ones.

    Returns
    -------
    ndarray of shape (n_partitions, order_in + order_out), dtype int8
        Labels, few blocks first. The array is shared, and so it is read-only.

    Raises
    ------
    ValueError
        If there are too many to list.
    """
    group = get_group(group)
    k, l = check_order(order_in, "order_in"), check_order(order_out, "order_out")
    if group.is_colored:
        above, below = (
            _charges_of(colors_in, k, "colors_in"),
            _charges_of(colors_out, l, "colors_out"),
        )
        charges = above + tuple(-charge for charge in reversed(below))
    elif colors_in is not None or colors_out is not None:
        raise ValueError(
            f"colors_in and colors_out are for the groups 'U' and 'U+', got group {group.name!r}."
        )
    else:
        charges = None
    if max_blocks is not None:
        n_partitions = _count_bounded(group, k + l, max_blocks)
    elif charges is not None:
        n_partitions = _count_coloured_pairings(charges, group.noncrossing)
    else:
        n_partitions = count_partitions(group, k + l)
    if n_partitions > _MOST_PARTITIONS:
        raise ValueError(
            f"The maps from order {k} to order {l} of group {group.name!r} are sums of "
            f"{n_partitions} diagrams, and at most {_MOST_PARTITIONS} can be listed; lower these "
            "orders (of tensor powers and of hidden layers where a model has them)."
        )
    return _enumerate(group, k, l, charges, max_blocks)


def contains(group, labels, order_in):
    """Whether one partition belongs to a group without colours.

    Parameters
    ----------
    group : str or EasyGroup
        The group.
    labels : sequence of int
        Labels of the points.
    order_in : int
        Number of upper points.

    Returns
    -------
    bool
        Whether it belongs to the category of the group.
    """
    group = get_group(group, real_only=True)
    labels = list(labels)
    word = labels[:order_in] + labels[order_in:][::-1]
    blocks = [[p for p, b in enumerate(word) if b == block] for block in dict.fromkeys(word)]
    sizes = [len(block) for block in blocks]
    if group.even_total and len(word) % 2:
        return False
    if not all(_SIZE_RULES[group.sizes](size) for size in sizes):
        return False
    if group.charges and any(
        len(block) > 1 and sum((-1) ** p for p in block) != 0 for block in blocks
    ):
        return False
    return not (group.noncrossing and _crosses(blocks))


def as_blocks(labels):
    """Turn labels into a tuple of blocks, each a tuple of points, ordered by their first point."""
    blocks = {}
    for point, label in enumerate(labels):
        blocks.setdefault(int(label), []).append(point)
    return tuple(tuple(block) for block in blocks.values())


def as_labels(blocks, n_points, name="partition"):
    """Turn blocks into labels in canonical order.

    Parameters
    ----------
    blocks : iterable of iterable of int
        Disjoint blocks that cover all points.
    n_points : int
        Number of points.
    name : str
        How the blocks are called, for the message.

    Returns
    -------
    ndarray of shape (n_points,), dtype int8
        The labels.

    Raises
    ------
    ValueError
        If the blocks are no partition of the points.
    """
    labels = np.full(n_points, -1, dtype=np.int8)
    given = blocks
    try:
        blocks = [tuple(index(point) for point in block) for block in blocks]
    except TypeError:
        blocks = [()]
    points = sorted(point for block in blocks for point in block)
    if points != list(range(n_points)) or not all(blocks):
        expected = f"each of the points 0, ..., {n_points - 1} once" if n_points else "no points"
        raise ValueError(f"{name} must be blocks that hold {expected}, got {given!r}.")
    for label, block in enumerate(sorted(blocks, key=min)):
        labels[list(block)] = label
    return labels


def check_order(value, name):
    """Check that a tensor order is an int that is not negative, and return it."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be an int that is not negative, got {value!r}.")
    return int(value)


def canonical(labels):
    """Number the labels of each row by first appearance."""
    labels = np.asarray(labels)
    n_rows, n_points = labels.shape
    rows = np.arange(n_rows)
    new_of_old = np.full((n_rows, max(int(labels.max(initial=-1)) + 1, 1)), -1, dtype=np.int8)
    result = np.empty((n_rows, n_points), dtype=np.int8)
    n_seen = np.zeros(n_rows, dtype=np.int8)
    for point in range(n_points):
        old = labels[:, point]
        new = new_of_old[rows, old]
        is_first = new < 0
        new = np.where(is_first, n_seen, new)
        new_of_old[rows, old] = new
        n_seen += is_first
        result[:, point] = new
    return result


def n_blocks(labels):
    """Number of blocks of each row of labels."""
    return labels.max(axis=1, initial=-1).astype(np.int64) + 1


@lru_cache(maxsize=256)
def _enumerate(group, order_in, order_out, charges, max_blocks=None):
    m = order_in + order_out
    if group.charges == "alternating":
        charges = tuple((-1) ** p for p in range(m))
    words = _Search(group, m, charges, max_blocks).run()
    labels = np.array(words, dtype=np.int8).reshape(len(words), m)
    labels[:, order_in:] = labels[:, order_in:][:, ::-1].copy()
    labels = canonical(labels)
    labels = labels[np.lexsort((*labels.T[::-1], n_blocks(labels)))] if m else labels
    labels.setflags(write=False)
    return labels


class _Search:
    """Depth-first search over the points in the cyclic order, with hardly a dead end.

    A point joins an open block or opens one. In a noncrossing partition only the blocks on a
    stack can be joined, and those above the chosen one are closed by it. A branch is left as soon
    as the points that are to come cannot complete the open blocks.
    """

    def __init__(self, group, m, charges, max_blocks=None):
        self.m = m
        self.max_blocks = m if max_blocks is None else max_blocks
        self.charges = charges
        self.noncrossing = group.noncrossing
        self.sizes = group.sizes
        self.largest = 2 if group.sizes in {"pair", "one or two"} else m
        self.must_complete = group.sizes in {"pair", "even"}
        self.is_empty = group.even_total and m % 2 == 1
        self.labels = [0] * m
        self.size, self.charge, self.open = [], [], []
        self.found = []
        if charges is not None:
            # Of each sign, how many points there are from a position on.
            self.plus = [sum(c > 0 for c in charges[p:]) for p in range(m + 1)]
            self.minus = [sum(c < 0 for c in charges[p:]) for p in range(m + 1)]

    def run(self):
        if not self.is_empty and self._can_be_completed(0):
            self._extend(0)
        return self.found

    def _extend(self, p):
        if p == self.m:
            self.found.append(tuple(self.labels))
            return
        charge = 0 if self.charges is None else self.charges[p]
        stack = self.open
        for depth in range(len(stack) - 1, -1, -1):
            block = stack[depth]
            if self._may_join(block, charge):
                if self.noncrossing:
                    self.open = stack[: depth + 1]
                self._place(p, block, charge)
                self.open = stack
            if self.noncrossing and not self._is_complete(block):
                break  # a block below it would close it
        if len(self.size) == self.max_blocks:
            return
        self.size.append(0)
        self.charge.append(0)
        self.open = [*stack, len(self.size) - 1]
        self._place(p, len(self.size) - 1, charge)
        self.open = stack
        self.size.pop()
        self.charge.pop()

    def _place(self, p, block, charge):
        self.labels[p] = block
        self.size[block] += 1
        self.charge[block] += charge
        if self._can_be_completed(p + 1):
            self._extend(p + 1)
        self.size[block] -= 1
        self.charge[block] -= charge

    def _may_join(self, block, charge):
        if self.size[block] >= self.largest:
            return False
        return self.largest > 2 or self.charges is None or self.charge[block] == -charge

    def _is_complete(self, block):
        if not self.must_complete:
            return True
        return self.size[block] % 2 == 0 and self.charge[block] == 0

    def _can_be_completed(self, p):
        if not self.must_complete:
            return True
        if self.charges is None:
            n_odd = sum(size % 2 for size in self.size)
            return n_odd <= self.m - p and (self.m - p - n_odd) % 2 == 0
        plus = sum(charge for charge in self.charge if charge > 0)
        minus = -sum(charge for charge in self.charge if charge < 0)
        to_come = self.plus[p], self.minus[p]
        return (
            plus <= to_come[1] and minus <= to_come[0] and (to_come[1] - plus == to_come[0] - minus)
        )


_SIZE_RULES = {
    "any": lambda size: True,
    "even": lambda size: size % 2 == 0,
    "pair": lambda size: size == 2,
    "one or two": lambda size: size <= 2,
}


def _crosses(blocks):
    """Whether two blocks of positions cross.

    They do not if the whole second block lies between two neighbours, in the cyclic sense, of
    the first.
    """
    for i, first in enumerate(blocks):
        for second in blocks[i + 1 :]:
            gaps = {sum(a < b for a in first) % len(first) for b in second}
            if len(gaps) > 1:
                return True
    return False


def _charges_of(colors, n_points, name):
    if colors is None:
        colors = "u" * n_points
    is_text = isinstance(colors, str) and set(colors) <= set(_CHARGE_OF_COLOR)
    if not is_text or len(colors) != n_points:
        raise ValueError(
            f"{name} must be a str of {n_points} letters, 'u' or 'c' (conjugate), got {colors!r}."
        )
    return tuple(_CHARGE_OF_COLOR[color] for color in colors)


def _catalan(p):
    return comb(2 * p, p) // (p + 1)


def _bell(m):
    row = [1]
    for _ in range(m):
        nxt = [row[-1]]
        for value in row:
            nxt.append(nxt[-1] + value)
        row = nxt
    return row[0]


def _involutions(m):
    return sum(comb(m, 2 * j) * prod(range(1, 2 * j, 2)) for j in range(m // 2 + 1))


def _motzkin(m):
    return sum(comb(m, 2 * j) * _catalan(j) for j in range(m // 2 + 1))


def _even_blocks(m):
    counts = [1]
    for p in range(1, m // 2 + 1):
        counts.append(sum(comb(2 * p - 1, 2 * q - 1) * counts[p - q] for q in range(1, p + 1)))
    return counts[-1]


def _count_bounded(group, m, max_blocks):
    """At most the number of partitions of m points with at most so many blocks.

    A group that asks for more than sizes of blocks has fewer.
    """
    step = 1 if group.sizes == "any" else 2
    # counts[b] of p points: the block of the last point has q points, the rest b - 1 blocks.
    by_points = [[1] + [0] * max_blocks]
    for p in range(1, m + 1):
        counts = [0] * (max_blocks + 1)
        for q in range(step, p + 1, step):
            for b in range(1, max_blocks + 1):
                counts[b] += comb(p - 1, q - 1) * by_points[p - q][b - 1]
        by_points.append(counts)
    return sum(by_points[m])


def _balanced_blocks(half):
    counts = [1]
    for p in range(1, half + 1):
        counts.append(sum(comb(p, q) * comb(p - 1, q) * counts[q] for q in range(p)))
    return counts[-1]


_COUNTS = {
    ("any", False): _bell,
    ("any", True): _catalan,
    ("pair", False): lambda m: prod(range(1, m, 2)),
    ("pair", True): lambda m: _catalan(m // 2),
    ("even", False): _even_blocks,
    ("even", True): lambda m: comb(3 * (m // 2), m // 2) // (m + 1),
    ("one or two", False): _involutions,
    ("one or two", True): _motzkin,
}
# Charges go by cyclic position here.
_COUNTS_BY_HALF = {
    "B#+": lambda p: comb(3 * p + 1, p) // (p + 1),
    "O*": factorial,
    "H*": _balanced_blocks,
}


def _count_coloured_pairings(charges, noncrossing):
    if sum(charges) != 0:
        return 0
    if not noncrossing:
        return factorial(len(charges) // 2)
    m = len(charges)
    ways = {(p, p): 1 for p in range(m + 1)}
    for length in range(2, m + 1, 2):
        for start in range(m - length + 1):
            end = start + length
            ways[start, end] = sum(
                ways[start + 1, mid] * ways[mid + 1, end]
                for mid in range(start + 1, end, 2)
                if charges[mid] == -charges[start]
            )
    return ways[0, m]
