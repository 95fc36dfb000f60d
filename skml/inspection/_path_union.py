"""How the missing values that a forest reads add up over its trees."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skml.utils._missing_cells import combine_missing_mask
from skml.utils._weights import validated_weight

from ._display import AxesMixin, check_one_entry_each


class PathUnionDisplay(AxesMixin):
    """Reliance of the first t trees of a forest together, and of each tree alone.

    Make it by :meth:`from_estimator`; the constructor takes the shares.

    Parameters
    ----------
    union : array-like of shape (n_trees,)
        Share of the rows for which one of the first t trees reads a missing value, for
        t = 1, 2, ...
    single : array-like of shape (n_trees,)
        The same share for each tree alone.
    bound : float or None, default=None
        Share of the rows that miss anything, which no reliance can exceed.

    Attributes
    ----------
    union, single : ndarray of shape (n_trees,)
        The shares.
    bound : float or None
        The greatest possible reliance.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    line_ : matplotlib Line2D
        The curve of the union, after :meth:`plot`.

    See Also
    --------
    skml.ensemble.MARandomForestClassifier : A forest that keeps the union small.
    FeatureRelianceDisplay : The features that are to blame.

    Notes
    -----
    A forest reads what any of its trees reads, so the curve
    :math:`\\hat\\rho_t = \\frac{1}{n} \\sum_i \\max_{s \\le t} \\max_j m_{ij} a_{h_s}(i, j)` never
    falls. Where it levels off, further trees ask for nothing new.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
       avoid missing values." ICML 2025. https://arxiv.org/abs/2505.03393

    Examples
    --------
    >>> from skml.datasets import make_contextual_missingness
    >>> from skml.ensemble import MARandomForestClassifier
    >>> from skml.inspection import PathUnionDisplay
    >>> X, y = make_contextual_missingness(500, random_state=0)
    >>> forest = MARandomForestClassifier(5, max_depth=3, alpha=1.0, random_state=0).fit(X, y)
    >>> PathUnionDisplay.from_estimator(forest, X).union.round(3).tolist()
    [0.0, 0.016, 0.016, 0.016, 0.016]
    """

    def __init__(self, *, union, single, bound=None):
        self.union = np.asarray(union, dtype=np.float64)
        self.single = np.asarray(single, dtype=np.float64)
        self.bound = bound
        check_one_entry_each(self.union.shape, "trees of union", single=self.single)

    @classmethod
    def from_estimator(
        cls, estimator, X, *, missing_mask=None, sample_weight=None, ax=None, **plot_params
    ):
        """Go through the trees of a forest and plot how their reliance adds up.

        Parameters
        ----------
        estimator : fitted forest
            Its ``estimators_`` are trees with a method ``missingness_reliance``.
        X : array-like of shape (n_samples, n_features)
            Rows to predict, with NaN for what was not observed.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        PathUnionDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If the estimator is no forest of missingness-avoiding trees.
        """
        check_is_fitted(estimator)
        members = getattr(estimator, "estimators_", ())
        if not len(members) or not hasattr(members[0], "missingness_reliance"):
            raise TypeError(
                "estimator must be a fitted forest of missingness-avoiding trees, such as "
                f"MARandomForestClassifier, got {type(estimator).__name__}"
            )
        missing = combine_missing_mask(X, missing_mask).any(axis=1)
        weight = validated_weight(sample_weight, missing)
        reached = np.zeros(len(missing), dtype=bool)
        union, single = [], []
        for member in members:
            rows = member.missingness_reliance(X, missing_mask=missing_mask, reduce=True)
            reached |= rows
            single.append(np.average(rows, weights=weight))
            union.append(np.average(reached, weights=weight))
        display = cls(union=union, single=single, bound=float(np.average(missing, weights=weight)))
        return display.plot(ax=ax, **plot_params)

    def plot(self, ax=None, **line_params):
        """Draw the curve of the union and a point for each tree.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **line_params : dict
            Passed to `Axes.plot` for the curve.

        Returns
        -------
        PathUnionDisplay
            The display itself.
        """
        ax = self._open_axes(ax)
        trees = np.arange(1, len(self.union) + 1)
        style = {"label": "trees so far", **line_params}
        (self.line_,) = ax.plot(trees, self.union, **style)
        ax.plot(
            trees,
            self.single,
            ".",
            color=self.line_.get_color(),
            alpha=0.5,
            label="each tree alone",
        )
        if self.bound is not None:
            ax.axhline(self.bound, color="0.5", linestyle=":", label="rows that miss anything")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set(xlabel="Number of trees", ylabel="Missingness reliance")
        ax.legend()
        return self
