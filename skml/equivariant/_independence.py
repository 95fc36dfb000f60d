"""Which diagrams are linearly independent at a given n, and a basis where they are not."""

import numpy as np

from ._partitions import n_blocks

_TOLERANCE = 1e-9
# Numbers in the factor of a Gram matrix, each of which is read for every vector that is kept.
_LARGEST_FACTOR = 2**26


def independent_rows(group, n, labels):
    """Choose partitions whose matrices form a basis of the span of all.

    Parameters
    ----------
    group : EasyGroup
        The group that the partitions belong to, all of one number of points.
    n : int
        Dimension of the base space.
    labels : ndarray of shape (n_partitions, m)
        Labels, few blocks first.

    Returns
    -------
    ndarray of int
        Row numbers, in order. A Gram matrix is formed only where no theorem answers.
    """
    n_partitions, m = labels.shape
    if n == 1:
        return np.arange(min(n_partitions, 1))
    if is_independent(group, n, m):
        return np.arange(n_partitions)
    bound = most_blocks(group, n, m)
    if bound is not None:
        return np.flatnonzero(n_blocks(labels) <= bound)
    return select_independent(n_partitions, scaled_gram_rows(labels, n))


def most_blocks(group, n, m):
    """Largest number of blocks in a basis, where the diagrams with so many are one; else None."""
    if group.sizes not in {"any", "even"} or n >= m:
        return None
    if n == 1:  # all maps are the same number
        return 1
    return n if group.charges is None and not group.noncrossing else None


def is_independent(group, n, m):
    """Whether a theorem says that the diagrams of a group on m points are independent at n.

    The diagrams of a half-liberated, a primed or a unitary group are among those of the group
    whose rule stands for it here.
    """
    if m == 0:
        return True
    if group.sizes == "any":
        return n >= (4 if group.noncrossing else m) or (n >= m)
    if group.sizes == "even":
        return 2 * n >= m or (group.noncrossing and n >= 3)
    if group.sizes == "pair":
        return 2 * n >= m or (group.noncrossing and n >= 2)
    return n - 1 >= m // 2 or (group.noncrossing and n >= 3)


def scaled_gram_rows(labels, n):
    """Give the function that computes rows of the Gram matrix, scaled to a diagonal of ones.

    Parameters
    ----------
    labels : ndarray of shape (n_partitions, m)
        Labels.
    n : int
        Dimension of the base space.

    Returns
    -------
    callable
        ``row(i)`` is an ndarray of shape (n_partitions,).
    """
    counts = n_blocks(labels)

    def row(i):
        joint = blocks_of_joins(labels[i], labels, counts)
        return float(n) ** (joint - (counts + counts[i]) / 2)

    return row


def blocks_of_joins(single, labels, counts):
    """Number of blocks of the join of one partition with each of many.

    Parameters
    ----------
    single : ndarray of shape (m,)
        Labels of the one.
    labels : ndarray of shape (n_partitions, m)
        Labels of the others.
    counts : ndarray of shape (n_partitions,)
        Their numbers of blocks.

    Returns
    -------
    ndarray of shape (n_partitions,), dtype int64
        The numbers.
    """
    merged, counts = labels.copy(), counts.copy()
    last_of_block = {}
    for point, label in enumerate(single.tolist()):
        if label in last_of_block:
            kept, gone = merged[:, last_of_block[label]].copy(), merged[:, point].copy()
            counts -= kept != gone
            np.copyto(merged, kept[:, None], where=merged == gone[:, None])
        last_of_block[label] = point
    return counts


def select_independent(n_vectors, gram_row, tolerance=_TOLERANCE):
    """Go through vectors in order and keep each that the kept ones do not span.

    Parameters
    ----------
    n_vectors : int
        Number of vectors.
    gram_row : callable
        ``gram_row(i)`` gives the scalar products of unit vector i with all.
    tolerance : float
        Squared distance from the span of the kept ones below which a vector is dropped.

    Returns
    -------
    ndarray of int
        Numbers of the vectors that are kept. This is a Cholesky factorisation that skips.

    Raises
    ------
    ValueError
        If there are too many.
    """
    factor = np.empty((16, n_vectors))
    residual = np.ones(n_vectors)
    chosen = []
    for i in range(n_vectors):
        if residual[i] <= tolerance:
            continue
        rank = len(chosen)
        if (rank + 1) * n_vectors > _LARGEST_FACTOR:
            raise ValueError(
                f"{n_vectors} diagrams are dependent at this n, and a basis has more than {rank} "
                "of them: to choose it would take minutes or hours. Lower the orders (of tensor "
                "powers, of hidden layers, or the degree, where there are such), or take n so "
                "large that the diagrams are independent."
            )
        if rank == len(factor):
            factor = np.concatenate([factor, np.empty_like(factor)])
        # Computed afresh: the running value has lost digits where it is small.
        row = gram_row(i) - factor[:rank, i] @ factor[:rank]
        if row[i] <= tolerance:
            residual[i] = 0.0
            continue
        factor[rank] = row / np.sqrt(row[i])
        residual -= factor[rank] ** 2
        chosen.append(i)
    return np.array(chosen, dtype=np.intp)
