"""How far the distribution of a fitted sampler is from the one that it aims at."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._state_table import TooManyStates


class TargetComparisonMixin:
    """Methods that compare p(x) with R(x) / Z over all objects, without sampling."""

    def distribution(self):
        """Return the sampled and the target distribution over all objects.

        For sequences with scores in a table these are the objects of X.

        Returns
        -------
        objects : ndarray or DataFrame of shape (n_objects, n_features)
            Objects in the form of X.
        probabilities : ndarray of shape (n_objects,)
            What following the policy gives them.
        target : ndarray of shape (n_objects,)
            R(x) / Z.
        """
        objects, p, target = self._distribution()
        return self._encoder.decode(objects), p, target

    def l1_distance(self):
        """Return the sum over all objects of the difference between p(x) and R(x) / Z.

        Returns
        -------
        float
            Between 0 and 2, computed without sampling.
        """
        _, p, target = self._distribution()
        # Objects that the table leaves out are all alike, and so are their differences.
        return float(np.abs(p - target).sum() + abs(p.sum() - target.sum()))

    def accuracy(self):
        """Return the mean reward of samples as a share of that under the target, in percent.

        Returns
        -------
        float
            100 min(1, E_p[R] / E_p*[R]), computed without sampling. It does not see a sampler
            that draws the best objects too often; `l1_distance` does.
        """
        _, p, target = self._distribution()
        # Objects that the table leaves out all have this probability.
        rest = getattr(self._solution, "probability_of_unseen", 0.0)
        sampled, best = (q @ target + max(1 - q.sum(), 0.0) * rest for q in (p, target))
        return float(100 * min(1.0, sampled / best))

    def _distribution(self):
        check_is_fitted(self)
        try:
            return self._solution.distribution()
        except TooManyStates as error:
            raise ValueError(f"The distribution cannot be enumerated: {error}.") from None
