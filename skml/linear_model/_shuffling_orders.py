"""Orders in which an epoch visits the rows, each row once."""

from numbers import Integral

import numpy as np

__all__ = ["NAMED_ORDERS", "Orders", "check_permutation", "is_drawn_anew"]

NAMED_ORDERS = ("reshuffle", "shuffle_once", "incremental")


class Orders:
    """Source of one permutation for each epoch.

    Parameters
    ----------
    order : {"reshuffle", "shuffle_once", "incremental"}, array-like or callable
        The parameter of the estimators.
    n : int
        Number of rows.
    rng : RandomState
        Stream that random orders are drawn from.

    Attributes
    ----------
    n_available : int or None
        Number of epochs that a table of permutations suffices for.
    """

    def __init__(self, order, n, rng):
        self.n = n
        self._rng = rng
        self._make = None
        self._table = None
        self.n_available = None
        if callable(order):
            self._make = order
        elif isinstance(order, str):
            if order not in NAMED_ORDERS:
                raise ValueError(
                    f"order must be one of {NAMED_ORDERS}, permutations or a callable, got "
                    f"{order!r}"
                )
            if order != "reshuffle":
                once = order == "shuffle_once"
                self._table = [rng.permutation(n) if once else np.arange(n)]
        else:
            self._table = self._check_table(order)

    def _check_table(self, order):
        table = np.asarray(order)
        if table.ndim not in (1, 2):
            raise ValueError(
                f"order must have shape ({self.n},) or (n_epochs, {self.n}), got {table.shape}"
            )
        if table.ndim == 2:
            self.n_available = len(table)
        return [check_permutation(row, self.n) for row in np.atleast_2d(table)]

    def __call__(self, epoch):
        """Return the permutation of an epoch; epochs count from 1."""
        if self._make is not None:
            return check_permutation(self._make(epoch, self._rng, self.n), self.n)
        if self._table is None:
            return self._rng.permutation(self.n)
        if self.n_available is None:
            return self._table[0]
        if epoch > self.n_available:
            raise ValueError(
                f"order has permutations for {self.n_available} epochs, epoch {epoch} has none"
            )
        return self._table[epoch - 1]


def check_permutation(order, n):
    """Return the order as an array of row numbers, or refuse it."""
    order = np.asarray(order)
    if order.shape != (n,):
        raise ValueError(f"order must be a permutation of {n} rows, got shape {order.shape}")
    if not np.issubdtype(order.dtype, np.integer):
        raise ValueError(f"order must hold integers, got dtype {order.dtype}")
    counts = np.zeros(n, dtype=np.intp)
    inside = (order >= 0) & (order < n)
    np.add.at(counts, order[inside], 1)
    if not np.all(counts == 1):
        missing = int(np.flatnonzero(counts != 1)[0])
        raise ValueError(
            f"order must be a permutation of the numbers 0 to {n - 1}: {missing} occurs "
            f"{counts[missing]} times"
        )
    return np.ascontiguousarray(order, dtype=np.intp)


def is_drawn_anew(order):
    """Whether each epoch has an independent uniform order, which the better bounds need."""
    return isinstance(order, str) and order == "reshuffle"


def check_horizon(order, max_iter):
    """Refuse a table of permutations that is shorter than the training."""
    if isinstance(max_iter, Integral) and order.n_available is not None:
        if order.n_available < max_iter:
            raise ValueError(
                f"order has permutations for {order.n_available} epochs, but max_iter={max_iter}"
            )
