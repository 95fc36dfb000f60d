"""Bootstrap samples as weights of the rows, so that all trees share one sorted data set."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["Bootstrap"]


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Draws rows with replacement.

    Parameters
    ----------
    n_samples : int
        Number of rows of the training set.
    n_drawn : int
        Number of draws.
    rows : int ndarray or None
        The rows that can be drawn, those of positive weight; None: all.
    probabilities : float64 ndarray like `rows`, or None
        Probability of each of them; None: all the same.
    """

    n_samples: int
    n_drawn: int
    rows: np.ndarray | None = None
    probabilities: np.ndarray | None = None

    @classmethod
    def from_weights(cls, weight, n_samples, max_samples):
        """Draw rows with a probability proportional to their weight.

        As rows of weight 0 do not count either for the number of draws, a fit without them is the
        same fit; nor does it matter in which unit the weights come.

        Parameters
        ----------
        weight : float64 ndarray of shape (n_samples,) or None
        n_samples : int
        max_samples : int, float or None
            Number of draws, or their share of the rows of positive weight; None: 1.0.
        """
        rows = probabilities = None
        if weight is not None:
            rows = np.flatnonzero(weight > 0)
            drawable = weight[rows]
            if len(rows) == n_samples:
                rows = None
            if drawable.min() < drawable.max():
                probabilities = drawable / drawable.sum()
        n_rows = n_samples if rows is None else len(rows)
        if max_samples is None:
            n_drawn = n_rows
        elif isinstance(max_samples, Integral):
            n_drawn = int(max_samples)
        else:
            n_drawn = max(1, round(max_samples * n_rows))
        return cls(n_samples, n_drawn, rows, probabilities)

    def draw(self, seed):
        """Row numbers of the sample of the tree with this seed, shape (n_drawn,)."""
        generator = check_random_state(seed)
        n_rows = self.n_samples if self.rows is None else len(self.rows)
        if self.probabilities is None:
            drawn = generator.randint(0, n_rows, self.n_drawn)
        else:
            drawn = generator.choice(n_rows, self.n_drawn, p=self.probabilities)
        return drawn if self.rows is None else self.rows[drawn]

    def counts(self, seed):
        """How often each row is in that sample, float64 of shape (n_samples,)."""
        return np.bincount(self.draw(seed), minlength=self.n_samples).astype(np.float64)

    def left_out(self, seed):
        """Drawable rows that are not in that sample."""
        absent = self.counts(seed) == 0
        if self.rows is None:
            return np.flatnonzero(absent)
        return self.rows[absent[self.rows]]
