"""What sequences and sets share: they grow by one at a time, and may stop before they are full."""

from abc import abstractmethod
from itertools import accumulate

import numpy as np

from ._process import IndexedProcess


class GrowingProcess(IndexedProcess):
    """A process whose objects grow by one letter or item; its parameter `stop` lets them end early.

    With `stop` a state has one more entry, 1 when it is over, and the last action is to stop.
    States are numbered by size, within a size by the subclass; those that are over come after all
    others, in the same order.
    """

    @property
    @abstractmethod
    def _level_sizes(self):
        """Number of sequences or sets of each size from 0, as Python ints."""

    @abstractmethod
    def _sizes_of(self, states):
        """Number of letters or items, shape (n,)."""

    @property
    def n_states(self):
        return sum(self._level_sizes) * (2 if self.stop else 1)

    def _is_over(self, states):
        return states[:, -1] == 1 if self.stop else np.zeros(len(states), dtype=bool)

    def _ended(self, states):
        """States with the entry that says that they are over, where there is one."""
        if not self.stop:
            return states
        return np.column_stack([states, np.ones(len(states), dtype=states.dtype)])

    def _allow_stop(self, available, states):
        """Add the action to stop, in place, and take all actions away where it was taken."""
        if self.stop:
            available[:, -1] = True
            available[states[:, -1] == 1] = False

    def _offsets(self):
        """Number of the first state of each size; the last is the number of all."""
        return np.array([0, *accumulate(self._level_sizes)])

    def _locate(self, indices):
        """Whether states are over, their sizes, and their numbers within a size."""
        offsets = self._offsets()
        over, number = np.divmod(indices, offsets[-1])
        sizes = np.searchsorted(offsets, number, side="right") - 1
        return over, sizes, number - offsets[sizes]

    def _numbered(self, states, sizes, places):
        """Inverse of :meth:`_locate`."""
        offsets = self._offsets()
        return offsets[sizes] + places + offsets[-1] * self._is_over(states)

    def _depths(self, indices):
        over, sizes, _ = self._locate(indices)
        return sizes + over

    def _log_branching_by_size(self, states, log_g, log_n_actions):
        """log g(s) from that of each size, and the last action if it was to stop."""
        sizes = self._sizes_of(states)
        return log_g[sizes] + np.where(self._is_over(states), log_n_actions[sizes], 0.0)
