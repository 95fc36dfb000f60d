"""Sets, built by adding items."""

import numpy as np
from scipy.special import comb

from ._growing import GrowingProcess
from ._process import check_count


class SetProcess(GrowingProcess):
    """Subsets of a number of items, built by adding one item after the other.

    A set of j items has B = j parents. A state is the 0/1 row of the set; with `stop` there is one
    more entry, 1 when it is over.

    Parameters
    ----------
    max_size : int or None, default=None
        Size of the largest sets. None: the largest in X.
    n_items : int or None, default=None
        Number of items. None: the number of columns of X.
    stop : bool or None, default=None
        Whether smaller sets, the empty one among them, are objects as well. None: whether X holds
        sets of several sizes.

    Attributes
    ----------
    path_invariant : bool
        True: of the sets with j items, g is the product over i < j of (n_items - i + stop) /
        (i + 1), and the last factor is A = n_items - j + 1 of the action to stop.

    See Also
    --------
    HypergridProcess : Where an item may be added several times.

    References
    ----------
    .. [1] H. He, E. Bengio, Q. Cai, L. Pan. "Random policy evaluation uncovers policies of
       generative flow networks." ICML 2025. https://arxiv.org/abs/2406.02213

    Examples
    --------
    >>> from skml.gflownet import SetProcess
    >>> process = SetProcess(4, n_items=8, stop=True)
    >>> process.n_states  # 163 sets, each before and after stopping
    326
    """

    path_invariant = True

    def __init__(self, max_size=None, *, n_items=None, stop=None):
        self.max_size = max_size
        self.n_items = n_items
        self.stop = stop

    def _configured(self, n_values, objects):
        n_items = objects.shape[1] if self.n_items is None else self.n_items
        check_count(self, "n_items", n_items)
        if n_items != objects.shape[1]:
            raise ValueError(f"n_items is {n_items}, but X has {objects.shape[1]} columns.")
        sizes = np.count_nonzero(objects, axis=1)
        max_size = int(sizes.max()) if self.max_size is None else self.max_size
        stop = bool(sizes.min() < max_size) if self.stop is None else bool(self.stop)
        check_count(self, "max_size", max_size, low=0 if stop else 1)
        if max_size > n_items:
            raise ValueError(f"max_size must be at most n_items = {n_items}, got {max_size}.")
        return self._with(max_size=int(max_size), n_items=int(n_items), stop=stop)

    @property
    def n_actions(self):
        return self.n_items + bool(self.stop)

    @property
    def state_sizes(self):
        return (2,) * self.n_actions

    def actions(self, states):
        members = states[:, : self.n_items]
        available = np.zeros((len(states), self.n_actions), dtype=bool)
        grows = np.count_nonzero(members, axis=1) < self.max_size
        available[:, : self.n_items] = (members == 0) & grows[:, None]
        self._allow_stop(available, states)
        return available

    def step(self, states, actions):
        states = np.array(states)
        states[np.arange(len(states)), actions] = 1
        return states

    def parents(self, states):
        removable = states == 1
        if self.stop:
            removable[self._is_over(states), :-1] = False
        rows, actions = np.nonzero(removable)
        parents = np.array(states[rows])
        parents[np.arange(len(rows)), actions] = 0
        return rows, parents, actions

    def n_parents(self, states):
        return np.where(self._is_over(states), 1, self._sizes_of(states))

    def objects(self, states):
        return states[:, : self.n_items]

    def terminals(self, objects):
        return self._ended(objects)

    def _sizes_of(self, states):
        return np.count_nonzero(states[:, : self.n_items], axis=1)

    def _can_be_built(self, states):
        return self._sizes_of(states) <= self.max_size

    @property
    def _object_sizes(self):
        return (2,) * self.n_items

    @property
    def _level_sizes(self):
        return [comb(self.n_items, size, exact=True) for size in range(self.max_size + 1)]

    # Within a size sets are numbered by the combinatorial number system: the set with members
    # c_0 < c_1 < ... has the number sum_k binomial(c_k, k + 1).

    def _binomials(self):
        counts = comb(np.arange(self.n_items + 1)[:, None], np.arange(self.max_size + 3)[None])
        return counts.astype(np.int64)

    def _index(self, states):
        members = states[:, : self.n_items]
        rank = np.cumsum(members, axis=1)
        places = (members * self._binomials()[np.arange(self.n_items), rank]).sum(axis=1)
        return self._numbered(states, rank[:, -1], places)

    def _states_at(self, indices):
        binomials = self._binomials()
        over, left, number = self._locate(indices)
        states = np.zeros((len(indices), self.n_actions), dtype=np.int64)
        for item in range(self.n_items - 1, -1, -1):
            count = binomials[item, left]
            is_member = (left > 0) & (number >= count)
            states[:, item] = is_member
            number = number - np.where(is_member, count, 0)
            left = left - is_member
        if self.stop:
            states[:, -1] = over
        return states

    def _child_indices(self, indices):
        states, offsets, binomials = self._states_at(indices), self._offsets(), self._binomials()
        members, items = states[:, : self.n_items], np.arange(self.n_items)
        through = np.cumsum(members, axis=1)
        below = through - members
        # A new item leaves the members below it where they are and moves those above up by one.
        terms_below = members * binomials[items, np.minimum(below + 1, self.max_size + 2)]
        terms_above = members * binomials[items, np.minimum(below + 2, self.max_size + 2)]
        sum_below = np.cumsum(terms_below, axis=1)
        sum_above = np.cumsum(terms_above[:, ::-1], axis=1)[:, ::-1]
        own = binomials[items, np.minimum(below + 1, self.max_size + 2)]
        number = sum_below - terms_below + own + sum_above - terms_above
        size = through[:, -1]
        next_offset = offsets[np.minimum(size + 1, self.max_size)][:, None]
        may_add = (members == 0) & (size < self.max_size)[:, None]
        children = np.where(may_add, next_offset + number, -1)
        if self.stop:
            children = np.column_stack([children, indices + offsets[-1]])
            children[states[:, -1] == 1] = -1
        return children

    def _log_branching(self, states):
        """Logarithm of g(s)."""
        n, stop = self.n_items, bool(self.stop)
        i = np.arange(self.max_size)
        log_g = np.concatenate([[0.0], np.cumsum(np.log((n - i + stop) / (i + 1)))])
        # At the full size to stop is the only action.
        return self._log_branching_by_size(states, log_g, np.append(np.log(n - i + 1.0), 0.0))
