"""Groups of neighbouring points, in each of which the points stand in the same order."""

import itertools
import math
import warnings

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

GROUPINGS = ("auto", "grid", "kdtree", "order", "given")
_TARGET_GROUPS = 256
_MAX_SHAPES = 200_000


def group_points(X, grouping="auto", group_size="auto", point_groups=None):
    """Divide points into groups of equal size.

    Parameters
    ----------
    X : ndarray of shape (n_points, n_features)
        Coordinates, on comparable scales.
    grouping : {"auto", "grid", "kdtree", "order", "given"}
        As in `INRRegressor`.
    group_size : "auto" or int
        Number p of points in a group.
    point_groups : array-like of shape (n_points,) or None
        Labels of the groups, for "given".

    Returns
    -------
    groups : ndarray of shape (n_groups, group_size), dtype int64
        Row numbers.
    leftovers : ndarray of shape (n_left,), dtype int64
        Row numbers of the points that belong to no group.
    """
    n_points = len(X)
    if point_groups is not None:
        if grouping not in ("auto", "given"):
            raise ValueError(
                "point_groups may be passed with grouping='given' or 'auto' only, got "
                f"grouping={grouping!r}"
            )
        return _given_groups(point_groups, X)
    if grouping == "given":
        raise ValueError("grouping='given' needs the labels point_groups in fit(X, y)")
    if group_size != "auto" and group_size > n_points:
        raise ValueError(f"group_size={group_size} is larger than the number of points, {n_points}")
    if grouping in ("auto", "grid"):
        groups = _grid_groups(X, group_size)
        if groups is not None:
            return _with_leftovers(groups, n_points)
        if grouping == "grid":
            raise ValueError(_no_grid_message(X, group_size))
    size = _auto_size(n_points) if group_size == "auto" else group_size
    if grouping == "order":
        n_groups = n_points // size
        return _with_leftovers(np.arange(n_groups * size).reshape(n_groups, size), n_points)
    return _with_leftovers(kdtree_groups(X, size), n_points)


def _auto_size(n_points):
    return max(1, round(n_points / _TARGET_GROUPS))


def _with_leftovers(groups, n_points):
    is_left = np.ones(n_points, dtype=bool)
    is_left[groups] = False
    return groups, np.flatnonzero(is_left)


def _given_groups(point_groups, X):
    if np.ndim(point_groups) == 0:
        raise ValueError(f"point_groups must have a label for each point, got {point_groups!r}")
    if np.ndim(point_groups) != 1 and np.shape(point_groups)[1:] != (1,):
        raise ValueError(
            f"point_groups should be a 1d array, got an array of shape {np.shape(point_groups)}"
        )
    labels = column_or_1d(point_groups, input_name="point_groups")
    check_consistent_length(X, labels)
    if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.floor(labels))).all():
        raise ValueError(
            "point_groups must hold whole numbers or strings, got fractions, infinity or NaN"
        )
    try:
        _, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise TypeError(
            "point_groups must hold whole numbers or strings, and not both, got a mixture or None"
        ) from error
    size = sizes.min()
    order = np.argsort(codes, kind="stable")
    starts = np.cumsum(sizes) - sizes
    groups, leftovers = _with_leftovers(order[starts[:, None] + np.arange(size)], len(X))
    if len(leftovers) > len(X) / 2:
        warnings.warn(
            f"The smallest of the groups has {size} points, so that {len(leftovers)} of "
            f"{len(X)} points belong to no group and are not balanced; groups of similar size "
            "use more of them.",
            UserWarning,
            stacklevel=2,
        )
    return groups, leftovers


def detect_grid(X):
    """Row numbers arranged as the grid that the points form.

    Parameters
    ----------
    X : ndarray of shape (n_points, n_features)
        Coordinates, in any order.

    Returns
    -------
    ndarray of int64 with n_features axes, or None
        The row at each place of the grid; None if the points are not a full grid.
    """
    shape, places = [], []
    for column in X.T:
        values, place = np.unique(column, return_inverse=True)
        shape.append(len(values))
        places.append(place)
        if math.prod(shape) > len(X):
            return None
    if math.prod(shape) != len(X):
        return None
    flat = np.ravel_multi_index(places, shape)
    rows = np.full(len(X), -1)
    rows[flat] = np.arange(len(X))
    return None if (rows < 0).any() else rows.reshape(shape)


def _grid_groups(X, group_size):
    rows = detect_grid(X)
    if rows is None:
        return None
    sides = patch_sides(rows.shape, group_size)
    return None if sides is None else _patches(rows, sides)


def _no_grid_message(X, group_size):
    if detect_grid(X) is None:
        return (
            "grouping='grid' needs the points of a full grid, each once; X is none. Choose "
            "grouping='auto' or 'kdtree'."
        )
    return (
        f"group_size={group_size} cannot be laid out as a patch of the grid: no product of side "
        f"lengths within {detect_grid(X).shape} gives it"
    )


def _patches(rows, sides):
    """Non-overlapping patches in row-major order, each flattened in row-major order."""
    counts = [length // side for length, side in zip(rows.shape, sides, strict=True)]
    whole = [slice(0, count * side) for count, side in zip(counts, sides, strict=True)]
    blocks = rows[tuple(whole)].reshape(
        [n for pair in zip(counts, sides, strict=True) for n in pair]
    )
    axes = [*range(0, 2 * len(sides), 2), *range(1, 2 * len(sides), 2)]
    return blocks.transpose(axes).reshape(math.prod(counts), math.prod(sides))


def patch_sides(shape, group_size="auto"):
    """Choose the side lengths of the patches of a grid.

    Parameters
    ----------
    shape : tuple of int
        Shape of the grid.
    group_size : "auto" or int
        Number of points in a patch. "auto" seeks about 256 patches that are nearly cubes and
        leave few points over; a point that is left over keeps its full gradient while those in
        patches are held back, and so counts too much.

    Returns
    -------
    tuple of int, or None
        Side lengths; None if no patch within the grid has `group_size` points.
    """
    if group_size == "auto":
        return _auto_sides(shape)
    fitting = list(_factorisations(group_size, shape))
    if not fitting:
        return None

    def cost(sides):
        covered = math.prod(n // s * s for n, s in zip(shape, sides, strict=True))
        extent = [s for n, s in zip(shape, sides, strict=True) if n > 1]
        return sum(extent), -covered, sides

    return min(fitting, key=cost)


def _factorisations(number, limits):
    """All ways to write a number as a product of one factor for each limit, none above it."""
    if not limits:
        if number == 1:
            yield ()
        return
    for factor in range(1, min(number, limits[0]) + 1):
        if number % factor == 0:
            for rest in _factorisations(number // factor, limits[1:]):
                yield (factor, *rest)


def _auto_sides(shape):
    long = [n for n in shape if n > 1]
    if not long:
        return (1,) * len(shape)
    side = (math.prod(long) / _TARGET_GROUPS) ** (1 / len(long))
    candidates = [_candidate_sides(n, side) for n in shape]
    if math.prod(len(c) for c in candidates) > _MAX_SHAPES:
        candidates = [
            [s for s in c if n % s == 0 or abs(s - side) < 1]
            for n, c in zip(shape, candidates, strict=True)
        ]
    n_points = math.prod(shape)

    def cost(sides):
        counts = [n // s for n, s in zip(shape, sides, strict=True)]
        n_groups = math.prod(counts)
        left = 1 - n_groups * math.prod(sides) / n_points
        extent = [s for n, s in zip(shape, sides, strict=True) if n > 1]
        aspect = math.log2(max(extent) / min(extent))
        return abs(math.log2(n_groups / _TARGET_GROUPS)) + 10 * left + 0.5 * aspect

    return min(itertools.product(*candidates), key=cost)


def _candidate_sides(length, side):
    if length == 1:
        return [1]
    low = max(1, min(length, math.floor(side / 2)))
    return list(range(low, max(low, min(length, math.ceil(2 * side))) + 1))


def kdtree_groups(X, group_size):
    """Groups of near points by median splits along the widest coordinate.

    Parameters
    ----------
    X : ndarray of shape (n_points, n_features)
        Coordinates.
    group_size : int
        Points in a group, at most n_points.

    Returns
    -------
    ndarray of shape (n_points // group_size, group_size), dtype int64
        Row numbers, in each group in lexicographic order of the coordinates. The points that are
        left over lie at the rims of groups all over the domain.
    """
    groups = []
    pending = [(np.arange(len(X)), len(X) // group_size)]
    while pending:
        rows, n_groups = pending.pop()
        if n_groups == 1:
            groups.append(_leaf(X, rows, group_size))
            continue
        n_left = n_groups // 2
        surplus = len(rows) - n_groups * group_size
        cut = n_left * group_size + surplus * n_left // n_groups
        points = X[rows]
        widest = np.argmax(points.max(axis=0) - points.min(axis=0))
        rows = rows[np.argsort(points[:, widest], kind="stable")]
        pending += [(rows[cut:], n_groups - n_left), (rows[:cut], n_left)]
    return np.array(groups)


def _leaf(X, rows, group_size):
    points = X[rows]
    if len(rows) > group_size:
        distance = ((points - points.mean(axis=0)) ** 2).sum(axis=1)
        rows = rows[np.argsort(distance, kind="stable")[:group_size]]
        points = X[rows]
    return rows[np.lexsort((rows, *points.T[::-1]))]
