"""Score against missingness reliance along the price of reliance."""

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV

from skml.metrics import missingness_reliance_scorer

from ._display import AxesMixin, check_one_entry_each, optional_floats, points_by_curve


class RelianceCurveDisplay(AxesMixin):
    """Score against missingness reliance, one point for each price alpha.

    Make it by :meth:`from_estimator`, :meth:`from_estimators` or :meth:`from_results`; the
    constructor takes the points.

    Parameters
    ----------
    alphas : array-like of shape (n_points,)
        Price of reliance of each point.
    scores, reliances : array-like of shape (n_points,)
        Score and missingness reliance (from 0 to 1) of each point.
    scores_std, reliances_std : array-like of shape (n_points,), default=None
        Standard deviations over the splits.
    groups : sequence of str of length n_points or None, default=None
        Label of the curve that each point belongs to; None: one curve.
    score_name : str, default="score"
        Label of the vertical axis.

    Attributes
    ----------
    alphas, scores, reliances : ndarray of shape (n_points,)
        The points.
    scores_std, reliances_std : ndarray of shape (n_points,) or None
        Standard deviations over the splits.
    groups : ndarray of shape (n_points,), dtype str, or None
        The curve of each point.
    ax_ : matplotlib Axes
        The axes, after :meth:`plot`.
    figure_ : matplotlib Figure
        The figure, after :meth:`plot`.
    lines_ : list of matplotlib Line2D
        The curves, in the order in which they first occur in `groups`, after :meth:`plot`.

    See Also
    --------
    skml.metrics.missingness_reliance : The quantity on the horizontal axis.
    skml.model_selection.TradeoffRefit : Choice of one point of the curve.

    Notes
    -----
    A point (rho, s) is the mean over the splits of the reliance and of the score on the test
    part. Points to the upper left are better.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
       avoid missing values." ICML 2025. https://arxiv.org/abs/2505.03393

    Examples
    --------
    >>> from skml.inspection import RelianceCurveDisplay
    >>> display = RelianceCurveDisplay(
    ...     alphas=[0, 0.1, 1], scores=[0.80, 0.78, 0.75], reliances=[0.8, 0.5, 0.0]
    ... )
    >>> _ = display.plot()
    >>> display.ax_.get_xlabel()
    'Missingness reliance'
    """

    def __init__(
        self,
        *,
        alphas,
        scores,
        reliances,
        scores_std=None,
        reliances_std=None,
        groups=None,
        score_name="score",
    ):
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self.scores = np.asarray(scores, dtype=np.float64)
        self.reliances = np.asarray(reliances, dtype=np.float64)
        self.scores_std = optional_floats(scores_std)
        self.reliances_std = optional_floats(reliances_std)
        self.groups = None if groups is None else np.asarray(groups, dtype=str)
        self.score_name = score_name
        check_one_entry_each(
            self.alphas.shape,
            "alphas",
            scores=self.scores,
            reliances=self.reliances,
            scores_std=self.scores_std,
            reliances_std=self.reliances_std,
            groups=self.groups,
        )

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        alphas=(0.0, 0.01, 0.03, 0.1, 0.3, 1.0),
        param_name="alpha",
        scoring=None,
        cv=None,
        X_test=None,
        y_test=None,
        n_jobs=None,
        fit_params=None,
        ax=None,
        **plot_params,
    ):
        """Fit an estimator for each price and plot its score against its reliance.

        Parameters
        ----------
        estimator : estimator
            The model, with a parameter `param_name`; it is cloned.
        X : array-like of shape (n_samples, n_features)
            Training data, with missing values.
        y : array-like of shape (n_samples,)
            Target values.
        alphas : array-like of float, default=(0, 0.01, 0.03, 0.1, 0.3, 1)
            Prices of reliance.
        param_name : str, default="alpha"
            Parameter to set, such as ``"madecisiontreeclassifier__alpha"`` in a pipeline.
        scoring : str, callable or None, default=None
            Score to plot; None: the `score` of the estimator.
        cv : int, splitter, iterable or None, default=None
            How to split the data, as in `GridSearchCV`. Ignored if test data are given.
        X_test, y_test : array-like, default=None
            Test data. If given, each model is fitted on all of `X` and scored on these.
        n_jobs : int or None, default=None
            Number of parallel jobs of the cross-validation.
        fit_params : dict or None, default=None
            Parameters and metadata for `fit`, such as ``{"missing_mask": mask}``. With
            metadata routing they reach the scorers that request them in a cross-validation.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        RelianceCurveDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the estimator has no parameter `param_name`, or only one of `X_test` and `y_test`
            is given.
        """
        scorer_name = _name_of_score(scoring)
        split = {"cv": cv, "X_test": X_test, "y_test": y_test, "n_jobs": n_jobs}
        points = _measure(estimator, X, y, alphas, param_name, scoring, fit_params, **split)
        return cls(**points, score_name=scorer_name).plot(ax=ax, **plot_params)

    @classmethod
    def from_estimators(
        cls,
        estimators,
        X,
        y,
        *,
        alphas=(0.0, 0.01, 0.03, 0.1, 0.3, 1.0),
        param_name="alpha",
        scoring=None,
        cv=None,
        X_test=None,
        y_test=None,
        n_jobs=None,
        fit_params=None,
        ax=None,
        **plot_params,
    ):
        """Plot several estimators in one picture, a curve for each.

        Parameters
        ----------
        estimators : dict of str to estimator
            The models by the label of their curve; they are cloned.
        X : array-like of shape (n_samples, n_features)
            Training data, with missing values.
        y : array-like of shape (n_samples,)
            Target values.
        alphas : array-like or dict of str to array-like, default=(0, 0.01, 0.03, 0.1, 0.3, 1)
            Prices of reliance, the same for all or by label: learners differ in the unit of
            their price.
        param_name : str or dict of str to str, default="alpha"
            Parameter to set, the same for all or by label.
        scoring : str, callable or None, default=None
            Score to plot; None: the `score` of each estimator.
        cv : int, splitter, iterable or None, default=None
            How to split the data, as in `GridSearchCV`. Ignored if test data are given. Give a
            splitter with a fixed `random_state` if it shuffles, so that all see the same splits.
        X_test, y_test : array-like, default=None
            Test data. If given, each model is fitted on all of `X` and scored on these.
        n_jobs : int or None, default=None
            Number of parallel jobs of the cross-validation.
        fit_params : dict or None, default=None
            Parameters and metadata for each `fit`.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        RelianceCurveDisplay
            The display, drawn; `groups` holds the labels.

        Raises
        ------
        ValueError
            If there is no estimator, a label has no entry in `alphas` or `param_name`, an
            estimator has no such parameter, or only one of `X_test` and `y_test` is given.
        """
        if not estimators:
            raise ValueError(f"estimators must hold at least one estimator, got {estimators!r}")
        for name, given in (("alphas", alphas), ("param_name", param_name)):
            if isinstance(given, dict) and not estimators.keys() <= given.keys():
                absent = sorted(estimators.keys() - given.keys())
                raise ValueError(f"{name} must have an entry for each label; none for {absent}")
        split = {"cv": cv, "X_test": X_test, "y_test": y_test, "n_jobs": n_jobs}
        parts, groups = [], []
        for label, estimator in estimators.items():
            prices = alphas[label] if isinstance(alphas, dict) else alphas
            parameter = param_name[label] if isinstance(param_name, dict) else param_name
            parts.append(_measure(estimator, X, y, prices, parameter, scoring, fit_params, **split))
            groups += [str(label)] * len(parts[-1]["alphas"])
        points = {
            name: None if parts[0][name] is None else np.concatenate([part[name] for part in parts])
            for name in parts[0]
        }
        display = cls(**points, groups=groups, score_name=_name_of_score(scoring))
        return display.plot(ax=ax, **plot_params)

    @classmethod
    def from_results(
        cls,
        cv_results,
        *,
        score="score",
        reliance="reliance",
        param_name=None,
        ax=None,
        **plot_params,
    ):
        """Plot the candidates of a search.

        Parameters
        ----------
        cv_results : dict of str to array-like
            The `cv_results_` of a search.
        score : str, default="score"
            Key of the score in `scoring`.
        reliance : str, default="reliance"
            Key of `missingness_reliance_scorer` in `scoring`.
        param_name : str or None, default=None
            The parameter that is the price; None: the one whose name is or ends in "alpha".
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        **plot_params : dict
            Passed to :meth:`plot`.

        Returns
        -------
        RelianceCurveDisplay
            The display, drawn; one curve for each setting of the other parameters.

        Raises
        ------
        ValueError
            If the results lack one of the keys or the parameter.
        """
        for argument, key in (("score", score), ("reliance", reliance)):
            if f"mean_test_{key}" not in cv_results:
                known = [
                    name.removeprefix("mean_test_")
                    for name in cv_results
                    if name.startswith("mean_test_")
                ]
                raise ValueError(f"{argument} must be one of {sorted(known)}, got {key!r}")
        param_name = _find_alpha(cv_results, param_name)
        points = _points_of_search(cv_results, score, reliance, param_name)
        groups = [
            ", ".join(
                f"{name.rpartition('__')[2]}={value}"
                for name, value in sorted(params.items())
                if name != param_name
            )
            for params in cv_results["params"]
        ]
        groups = groups if any(groups) else None
        return cls(**points, groups=groups, score_name=score).plot(ax=ax, **plot_params)

    def plot(self, ax=None, *, annotate=True, error_bars=True, **line_params):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; None: new ones.
        annotate : bool, default=True
            Whether to write alpha beside each point.
        error_bars : bool, default=True
            Whether to draw the standard deviations over the splits, where there are any.
        **line_params : dict
            Passed to `Axes.plot`.

        Returns
        -------
        RelianceCurveDisplay
            The display itself.
        """
        ax = self._open_axes(ax)
        self.lines_ = []
        for label, points in points_by_curve(self.groups, self.alphas):
            style = {"marker": "o", "label": label or None, **line_params}
            (line,) = ax.plot(self.reliances[points], self.scores[points], **style)
            self.lines_.append(line)
            if error_bars and self.scores_std is not None:
                self._plot_error_bars(points, line.get_color())
            if annotate:
                for i in points:
                    ax.annotate(
                        f"{self.alphas[i]:g}",
                        (self.reliances[i], self.scores[i]),
                        textcoords="offset points",
                        xytext=(4, 4),
                        fontsize="small",
                    )
        if self.groups is not None:
            ax.legend()
        ax.set(xlabel="Missingness reliance", ylabel=self.score_name)
        return self

    def _plot_error_bars(self, points, color):
        horizontal = None if self.reliances_std is None else self.reliances_std[points]
        self.ax_.errorbar(
            self.reliances[points],
            self.scores[points],
            xerr=horizontal,
            yerr=self.scores_std[points],
            fmt="none",
            ecolor=color,
            alpha=0.4,
        )


def _measure(
    estimator, X, y, alphas, param_name, scoring, fit_params, *, cv, X_test, y_test, n_jobs
):
    """Score and reliance of an estimator for each price, as arguments of the display."""
    if param_name not in estimator.get_params():
        known = sorted(name for name in estimator.get_params() if name.endswith("alpha"))
        raise ValueError(
            f"param_name must be a parameter of {type(estimator).__name__}, such as one of "
            f"{known}, got {param_name!r}"
        )
    if (X_test is None) != (y_test is None):
        raise ValueError("X_test and y_test must be given together, or neither")
    alphas = np.asarray(alphas, dtype=np.float64)
    scorer = check_scoring(estimator, scoring)
    fit_params = fit_params or {}
    if X_test is not None:
        models = [
            clone(estimator).set_params(**{param_name: alpha}).fit(X, y, **fit_params)
            for alpha in alphas.tolist()
        ]
        return {
            "alphas": alphas,
            "scores": [scorer(model, X_test, y_test) for model in models],
            "reliances": [-missingness_reliance_scorer(model, X_test) for model in models],
            "scores_std": None,
            "reliances_std": None,
        }
    search = GridSearchCV(
        estimator,
        {param_name: alphas.tolist()},
        scoring={"score": scorer, "reliance": missingness_reliance_scorer},
        refit=False,
        cv=cv,
        n_jobs=n_jobs,
        error_score="raise",
    ).fit(X, y, **fit_params)
    return _points_of_search(search.cv_results_, "score", "reliance", param_name)


def _points_of_search(cv_results, score, reliance, param_name):
    return {
        "alphas": [params[param_name] for params in cv_results["params"]],
        "scores": cv_results[f"mean_test_{score}"],
        "reliances": -np.asarray(cv_results[f"mean_test_{reliance}"]),
        "scores_std": cv_results.get(f"std_test_{score}"),
        "reliances_std": cv_results.get(f"std_test_{reliance}"),
    }


def _name_of_score(scoring):
    return scoring if isinstance(scoring, str) else "score"


def _find_alpha(cv_results, param_name):
    """Find the name of the parameter that is the price of reliance."""
    known = sorted({name for params in cv_results["params"] for name in params})
    if param_name is None:
        found = [name for name in known if name.rpartition("__")[2] == "alpha"]
        if len(found) == 1:
            return found[0]
        raise ValueError(
            f"param_name must be given, one of {known}: {len(found)} of them are alpha"
        )
    if param_name not in known:
        raise ValueError(f"param_name must be one of {known}, got {param_name!r}")
    return param_name
