"""Sequences, built by appending letters, or by appending and prepending."""

from itertools import accumulate

import numpy as np

from ._growing import GrowingProcess
from ._process import IndexedProcess, check_count, digits_of, mixed_radix


class AutoregressiveProcess(GrowingProcess):
    """Sequences, built letter by letter from the left.

    The paths form a tree: B(s) = 1 everywhere. A state holds, for each position, 0 while it is
    empty and 1 + letter afterwards; with `stop` there is one more entry, 1 when it is over.

    Parameters
    ----------
    n_categories : array-like of int, default=None
        Number of letters at each position. None: learnt from the columns of X. If given, X
        holds integers from 0.
    stop : bool, default=False
        Whether a sequence may end before the last position. In X the positions after its end are
        missing: NaN, None or ``""``; where X holds integers, -1.

    Attributes
    ----------
    path_invariant : bool
        True.

    See Also
    --------
    PrependAppendProcess : Sequences that grow at both ends.

    References
    ----------
    .. [1] H. He, E. Bengio, Q. Cai, L. Pan. "Random policy evaluation uncovers policies of
       generative flow networks." ICML 2025. https://arxiv.org/abs/2406.02213

    Examples
    --------
    >>> from skml.gflownet import AutoregressiveProcess
    >>> process = AutoregressiveProcess([2, 3], stop=True)
    >>> process.actions(process.initial_state()[None]).astype(int)
    array([[1, 1, 0, 1]])
    """

    path_invariant = True
    _has_categories = True

    def __init__(self, n_categories=None, *, stop=False):
        self.n_categories = n_categories
        self.stop = stop

    def _configured(self, n_values, objects):
        if self.n_categories is None:
            return self._with(n_categories=[int(n) for n in n_values])
        for n in self.n_categories:
            check_count(self, "n_categories", n)
        if len(self.n_categories) != objects.shape[1]:
            raise ValueError(
                f"n_categories names {len(self.n_categories)} positions, but X has "
                f"{objects.shape[1]} columns."
            )
        return self._with(n_categories=[int(n) for n in self.n_categories])

    @property
    def n_actions(self):
        return max(self.n_categories) + bool(self.stop)

    @property
    def state_sizes(self):
        return tuple(n + 1 for n in self.n_categories) + ((2,) if self.stop else ())

    def actions(self, states):
        available = np.zeros((len(states), self.n_actions), dtype=bool)
        length = self._sizes_of(states)
        sizes = np.array([*self.n_categories, 0])
        letters = np.arange(max(self.n_categories))
        available[:, : len(letters)] = letters < sizes[length][:, None]
        self._allow_stop(available, states)
        return available

    def step(self, states, actions):
        states = np.array(states)
        rows = np.arange(len(states))
        if self.stop:
            ends = actions == self.n_actions - 1
            states[ends, -1] = 1
            rows, states_, actions = rows[~ends], states[~ends], actions[~ends]
        else:
            states_ = states
        states[rows, self._sizes_of(states_)] = actions + 1
        return states

    def parents(self, states):
        length, over = self._sizes_of(states), self._is_over(states)
        rows = np.flatnonzero(over | (length > 0))
        parents = np.array(states[rows])
        last = np.where(over[rows], len(self.n_categories), length[rows] - 1)
        actions = np.where(over[rows], self.n_actions - 1, parents[np.arange(len(rows)), last] - 1)
        parents[np.arange(len(rows)), last] = 0
        return rows, parents, actions

    def n_parents(self, states):
        return (states[:, 0] > 0) | self._is_over(states)

    def objects(self, states):
        return states[:, : len(self.n_categories)] - 1

    def terminals(self, objects):
        return self._ended(objects + 1)

    @property
    def _object_sizes(self):
        return tuple(self.n_categories)

    def _sizes_of(self, states):
        return np.count_nonzero(states[:, : len(self.n_categories)], axis=1)

    def _can_be_built(self, states):
        return _has_no_gap(states[:, : len(self.n_categories)])

    @property
    def _level_sizes(self):
        return list(accumulate(self.n_categories, lambda a, b: a * b, initial=1))

    def _index(self, states):
        lengths = self._sizes_of(states)
        places = np.empty(len(states), dtype=np.int64)
        for length in np.unique(lengths):
            rows = lengths == length
            digits = states[rows, :length] - 1
            places[rows] = mixed_radix(digits, self.n_categories[:length])
        return self._numbered(states, lengths, places)

    def _states_at(self, indices):
        over, lengths, places = self._locate(indices)
        states = np.zeros((len(indices), len(self.state_sizes)), dtype=np.int64)
        for length in np.unique(lengths):
            rows = lengths == length
            states[rows, :length] = digits_of(places[rows], self.n_categories[:length]) + 1
        if self.stop:
            states[:, -1] = over
        return states

    def _child_indices(self, indices):
        offsets = self._offsets()
        over, lengths, places = self._locate(indices)
        sizes = np.array([*self.n_categories, 0])[lengths]
        letters = np.arange(max(self.n_categories))
        first = np.append(offsets[1:], 0)[lengths] + places * sizes
        children = np.full((len(indices), self.n_actions), -1)
        children[:, : len(letters)] = np.where(
            letters < sizes[:, None], first[:, None] + letters, -1
        )
        if self.stop:
            children[:, -1] = indices + offsets[-1]
            children[over == 1] = -1
        return children

    def _log_branching(self, states):
        """Logarithm of g(s): all letters that could have been chosen, counting to stop as one."""
        log_a = np.log(np.array(self.n_categories) + bool(self.stop))
        log_g = np.concatenate([[0.0], np.cumsum(log_a)])
        # At full length to stop is the only action.
        return self._log_branching_by_size(states, log_g, np.append(log_a, 0.0))


class PrependAppendProcess(IndexedProcess):
    """Strings of a fixed length, which grow at both ends.

    The first letter is appended to the empty string. From then on every letter can be appended
    (action a) or prepended (action n_letters + a), so A = 2 n_letters and B = 2, except B = 1 for
    one letter. Where both give the same string they are still two edges. A state holds the string,
    left-aligned, as 1 + letter, and 0 where there is none.

    Parameters
    ----------
    n_letters : int or None, default=None
        Size of the alphabet. None: learnt from X, whose columns share it. If given, X holds
        integers from 0.
    length : int or None, default=None
        Length of the strings. None: the number of columns of X.

    Attributes
    ----------
    path_invariant : bool
        True: g = n_letters ** length of the string.

    See Also
    --------
    AutoregressiveProcess : Sequences that grow on the right.

    References
    ----------
    .. [1] H. He, E. Bengio, Q. Cai, L. Pan. "Random policy evaluation uncovers policies of
       generative flow networks." ICML 2025. https://arxiv.org/abs/2406.02213

    Examples
    --------
    >>> from skml.gflownet import PrependAppendProcess
    >>> process = PrependAppendProcess(4, 8)
    >>> process.n_actions, process.n_states
    (8, 87381)
    """

    path_invariant = True
    _has_categories = True
    _shared_alphabet = True

    def __init__(self, n_letters=None, length=None):
        self.n_letters = n_letters
        self.length = length

    def _configured(self, n_values, objects):
        n_letters = n_values[0] if self.n_letters is None else self.n_letters
        length = objects.shape[1] if self.length is None else self.length
        check_count(self, "n_letters", n_letters)
        check_count(self, "length", length)
        if length != objects.shape[1]:
            raise ValueError(f"length is {length}, but X has {objects.shape[1]} columns.")
        return self._with(n_letters=int(n_letters), length=int(length))

    @property
    def n_actions(self):
        return 2 * self.n_letters

    @property
    def state_sizes(self):
        return (self.n_letters + 1,) * self.length

    def actions(self, states):
        length = np.count_nonzero(states, axis=1)
        available = np.empty((len(states), 2 * self.n_letters), dtype=bool)
        available[:, : self.n_letters] = (length < self.length)[:, None]
        available[:, self.n_letters :] = ((length < self.length) & (length > 0))[:, None]
        return available

    def step(self, states, actions):
        rows = np.arange(len(states))
        children = np.array(states)
        prepends = actions >= self.n_letters
        children[prepends, 1:] = states[prepends, :-1]
        place = np.where(prepends, 0, np.count_nonzero(states, axis=1))
        children[rows, place] = actions % self.n_letters + 1
        return children

    def parents(self, states):
        length = np.count_nonzero(states, axis=1)
        appended, prepended = np.flatnonzero(length > 0), np.flatnonzero(length > 1)
        without_last = np.array(states[appended])
        places = np.arange(len(appended)), length[appended] - 1
        last = without_last[places] - 1
        without_last[places] = 0
        without_first = np.zeros_like(states[prepended])
        without_first[:, :-1] = states[prepended, 1:]
        return (
            np.concatenate([appended, prepended]),
            np.concatenate([without_last, without_first]),
            np.concatenate([last, states[prepended, 0] - 1 + self.n_letters]),
        )

    def n_parents(self, states):
        return np.minimum(np.count_nonzero(states, axis=1), 2)

    def objects(self, states):
        return states - 1

    def terminals(self, objects):
        return objects + 1

    @property
    def n_states(self):
        return sum(self.n_letters**length for length in range(self.length + 1))

    @property
    def _object_sizes(self):
        return (self.n_letters,) * self.length

    def _can_be_built(self, states):
        return _has_no_gap(states)

    def _prefixes(self):
        # A string has the number that it has among sequences that are only appended to.
        return AutoregressiveProcess([self.n_letters] * self.length)

    def _index(self, states):
        return self._prefixes()._index(states)

    def _states_at(self, indices):
        return self._prefixes()._states_at(indices)

    def _depths(self, indices):
        return self._prefixes()._depths(indices)

    def _child_indices(self, indices):
        prefixes = self._prefixes()
        appended = prefixes._child_indices(indices)
        _, depths, places = prefixes._locate(indices)
        step = self.n_letters**depths
        first = np.append(prefixes._offsets()[1:], 0)[depths] + places
        prepended = first[:, None] + step[:, None] * np.arange(self.n_letters)
        may_prepend = (depths > 0) & (depths < self.length)
        return np.hstack([appended, np.where(may_prepend[:, None], prepended, -1)])

    def _log_branching(self, states):
        """Logarithm of g(s): n_letters for each letter."""
        return np.count_nonzero(states, axis=1) * np.log(self.n_letters)


def _has_no_gap(letters):
    """Whether rows of 1 + letter hold nothing after the first 0."""
    return ~((letters[:, :-1] == 0) & (letters[:, 1:] > 0)).any(axis=1)
