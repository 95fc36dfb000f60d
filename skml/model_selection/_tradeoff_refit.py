"""Choice of the candidate that relies least on missing values among the good ones."""

from numbers import Real

import numpy as np


class TradeoffRefit:
    """Choose the least reliant among the candidates whose score is near the best.

    An instance is passed as `refit` to a search with several scorers, one of which is
    `skml.metrics.missingness_reliance_scorer`.

    Parameters
    ----------
    score : str
        Key in `scoring` of the score to keep up; the higher, the better.
    reliance : str
        Key in `scoring` of the negated missingness reliance; the higher, the better.
    gamma : float, default=0.95
        Share of the best score that a candidate must reach, in [0, 1]. 1: only candidates with
        the best score; 0: all candidates, so that the lowest reliance wins.

    Raises
    ------
    ValueError
        If `gamma` is not in [0, 1]; in a call, if the results lack one of the keys, or no
        candidate has both scores.

    See Also
    --------
    skml.metrics.missingness_reliance_scorer : The scorer that `reliance` names.
    skml.inspection.RelianceCurveDisplay : The trade-off as a curve.

    Notes
    -----
    With the mean test scores s and reliances rho of the candidates and
    :math:`s^* = \\max_k s_k`, the choice is

    .. math:: \\arg\\min_k \\rho_k \\text{ subject to } s_k \\ge s^* - (1 - \\gamma) |s^*|,

    which is :math:`s_k \\ge \\gamma s^*` for a positive best score. Of equally reliant
    candidates the one of higher score is chosen, of those the first. Candidates with a score
    of NaN are skipped. With gamma = 0 there is no bound, also where scores are negative.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
       avoid missing values." ICML 2025. https://arxiv.org/abs/2505.03393

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skml.datasets import make_contextual_missingness
    >>> from skml.metrics import missingness_reliance_scorer
    >>> from skml.model_selection import TradeoffRefit
    >>> X, y = make_contextual_missingness(1000, random_state=0)
    >>> scoring = {"auc": "roc_auc", "reliance": missingness_reliance_scorer}
    >>> search = GridSearchCV(
    ...     DecisionTreeClassifier(random_state=0),
    ...     {"max_features": [1, 3], "max_depth": [1, 3]},
    ...     scoring=scoring,
    ...     refit=TradeoffRefit("auc", "reliance", gamma=0.8),
    ...     cv=3,
    ... ).fit(X, y)
    >>> search.best_params_
    {'max_depth': 1, 'max_features': 1}
    """

    def __init__(self, score, reliance, gamma=0.95):
        if not isinstance(gamma, Real) or not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be a number in [0, 1], got {gamma!r}")
        self.score = score
        self.reliance = reliance
        self.gamma = gamma

    def __call__(self, cv_results):
        """Choose a candidate.

        Parameters
        ----------
        cv_results : dict of str to array-like
            The `cv_results_` of a search.

        Returns
        -------
        int
            Index of the candidate, which becomes `best_index_`.
        """
        scores = self._mean_test(cv_results, "score")
        reliances = self._mean_test(cv_results, "reliance")
        valid = ~(np.isnan(scores) | np.isnan(reliances))
        if not valid.any():
            raise ValueError(
                f"TradeoffRefit found no candidate with both scores: each of the {len(scores)} "
                f"candidates has NaN as {self.score!r} or {self.reliance!r}"
            )
        eligible = np.flatnonzero(valid & (scores >= self._least_score(scores[valid].max())))
        eligible = eligible[reliances[eligible] == reliances[eligible].max()]
        # argmax returns the first of equal scores.
        return int(eligible[np.argmax(scores[eligible])])

    def __repr__(self):
        return f"TradeoffRefit({self.score!r}, {self.reliance!r}, gamma={self.gamma!r})"

    def __eq__(self, other):
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self):
        return hash((self.score, self.reliance, self.gamma))

    def _mean_test(self, cv_results, argument):
        key = f"mean_test_{getattr(self, argument)}"
        if key not in cv_results:
            prefix = "mean_test_"
            known = sorted(name[len(prefix) :] for name in cv_results if name.startswith(prefix))
            raise ValueError(
                f"{argument} must be a key of scoring, one of {known}, got "
                f"{getattr(self, argument)!r}"
            )
        return np.asarray(cv_results[key], dtype=np.float64)

    def _least_score(self, best):
        if self.gamma == 0:
            return -np.inf
        if best >= 0:
            return self.gamma * best
        return best - (1 - self.gamma) * abs(best)
