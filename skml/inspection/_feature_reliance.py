"""Which features' missing values the predictions of a model read."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skml.utils._missing_cells import combine_missing_mask
from skml.utils._weights import validated_weight

from ._display import AxesMixin, check_one_entry_each


class FeatureRelianceDisplay(AxesMixin):
    """Bars per feature: how often it is missing, and how often a missing value of it is read.

    Make it by :meth:`from_estimator`; the constructor takes the shares.

    Parameters
    ----------
    missing, reliance : array-like of shape (n_features,)
        Share of the rows that miss the feature, and whose prediction reads it although it is
        missing; from 0 to 1.
    feature_names : sequence of str of length n_features or None, default=None
        Names; None: ``feature_0``, ``feature_1`` and so on.

    Attributes
    ----------
    missing, reliance : ndarray of shape (n_features,)
        The shares.
    feature_names : ndarray of shape (n_features,), dtype str
        The names.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    bars_ : matplotlib BarContainer
        The bars of the reliance, after :meth:`plot`, one for each shown feature.

    See Also
    --------
    RelianceCurveDisplay : Score against reliance over the price.
    PathUnionDisplay : Reliance of a forest by its number of trees.

    Notes
    -----
    With :math:`m_{ij} = 1` where a cell is missing and :math:`a_h(i, j) = 1` where the model reads
    feature j to predict row i, the two bars of a feature are the weighted means over the rows of
    :math:`m_{ij}` and of :math:`m_{ij} a_h(i, j)`. The reliance of the model is at least the
    longest bar and at most the sum of all: a row that reads two missing values counts once.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
       avoid missing values." ICML 2025. https://arxiv.org/abs/2505.03393

    Examples
    --------
    >>> from skml.datasets import make_contextual_missingness
    >>> from skml.inspection import FeatureRelianceDisplay
    >>> from skml.tree import MADecisionTreeClassifier
    >>> X, y = make_contextual_missingness(500, random_state=0)
    >>> tree = MADecisionTreeClassifier(max_depth=3, alpha=1.0, random_state=0).fit(X, y)
    >>> display = FeatureRelianceDisplay.from_estimator(tree, X)
    >>> display.reliance.round(3).tolist()
    [0.0, 0.018, 0.016]
    """

    def __init__(self, *, missing, reliance, feature_names=None):
        self.missing = np.asarray(missing, dtype=np.float64)
        self.reliance = np.asarray(reliance, dtype=np.float64)
        if feature_names is None:
            feature_names = [f"feature_{j}" for j in range(self.missing.size)]
        self.feature_names = np.asarray(feature_names, dtype=str)
        check_one_entry_each(
            self.missing.shape,
            "features",
            reliance=self.reliance,
            feature_names=self.feature_names,
        )

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        missing_mask=None,
        sample_weight=None,
        feature_names=None,
        ax=None,
        **plot_params,
    ):
        """Find out which missing values the predictions read, and plot the shares.

        Parameters
        ----------
        estimator : fitted estimator
            A model with a method ``missingness_reliance(X, missing_mask)``, as all
            missingness-avoiding learners have.
        X : array-like of shape (n_samples, n_features)
            Rows to predict, with NaN for what was not observed.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        feature_names : sequence of str of length n_features or None, default=None
            Names; None: ``feature_names_in_`` of the estimator, if it has them.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        FeatureRelianceDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If the estimator cannot tell which cells it reads.
        """
        if not hasattr(estimator, "missingness_reliance"):
            raise TypeError(
                "estimator must have a method missingness_reliance(X); "
                f"{type(estimator).__name__} has none (of a pipeline, pass the last step, and X as "
                "the other steps transform it)"
            )
        check_is_fitted(estimator)
        cells = estimator.missingness_reliance(X, missing_mask=missing_mask)
        weight = validated_weight(sample_weight, cells)
        if feature_names is None:
            feature_names = getattr(estimator, "feature_names_in_", None)
        display = cls(
            missing=np.average(combine_missing_mask(X, missing_mask), axis=0, weights=weight),
            reliance=np.average(cells, axis=0, weights=weight),
            feature_names=feature_names,
        )
        return display.plot(ax=ax, **plot_params)

    def plot(self, ax=None, *, max_features=20, **bar_params):
        """Draw the bars, most missing feature first.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        max_features : int, default=20
            Largest number of features to show; those without a missing value are left out, unless
            none has one.
        **bar_params : dict
            Passed to `Axes.barh` for the bars of the reliance.

        Returns
        -------
        FeatureRelianceDisplay
            The display itself.
        """
        ax = self._open_axes(ax)
        shown = np.argsort(-self.missing, kind="stable")
        if (self.missing > 0).any():
            shown = shown[self.missing[shown] > 0]
        shown = shown[:max_features]
        position = np.arange(len(shown))
        ax.barh(position, self.missing[shown], height=0.8, color="0.88", label="missing")
        style = {"height": 0.5, "label": "missing and read", **bar_params}
        self.bars_ = ax.barh(position, self.reliance[shown], **style)
        ax.set_yticks(position, self.feature_names[shown])
        ax.invert_yaxis()
        ax.set_xlabel("Share of rows")
        ax.legend()
        return self
