"""Missingness reliance: how often a prediction needs a value that is missing."""

import copy
import warnings

import numpy as np
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import check_is_fitted

from skml.utils._missing_cells import combine_missing_mask
from skml.utils._weights import validated_weight

from ._column_sources import step_sources
from ._read_features import read_features


def missingness_reliance(estimator, X, *, missing_mask=None, sample_weight=None, reduce=True):
    """Share of rows whose prediction reads a missing value.

    Parameters
    ----------
    estimator : estimator or LightGBM Booster
        A fitted model. An estimator with a method `missingness_reliance` answers for itself.
        Understood are further scikit-learn's decision trees, forests, GradientBoosting* and
        HistGradientBoosting*, linear models (with `coef_`), LightGBM models, a fitted search
        (its best estimator), and a Pipeline that ends in one of these and whose earlier steps
        keep the columns apart: imputers, scalers, ordinal encoders, feature selectors,
        `NaNOneHotEncoder`, a ColumnTransformer of such steps, and any transformer that tells
        the input column of each output column in an attribute `source_indices_`.
        Anything else counts as reading every feature, with a warning.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        Input of the model. Its NaN, None and `pandas.NA` are the missing values.
    missing_mask : array-like of shape (n_samples, n_features), default=None
        Cells that count as missing although X holds a value (imputed beforehand).
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows. Used only if `reduce` is True.
    reduce : bool, default=True
        Whether to return the share rather than the rows.

    Returns
    -------
    float or ndarray of shape (n_samples,), dtype bool
        The reliance, from 0 to 1; the rows that rely on a missing value if `reduce` is False.

    Raises
    ------
    ValueError
        If `missing_mask` does not have the shape of `X` or holds other values than 0 and 1, or
        the weights sum to zero.

    See Also
    --------
    missingness_reliance_scorer : The negated share as a scorer.
    skml.tree.MADecisionTreeClassifier : A tree that keeps the share low.

    Notes
    -----
    With :math:`m_{ij} = 1` where cell (i, j) is missing and :math:`a_h(i, j) = 1` where the
    model h reads feature j to compute :math:`h(x_i)`,

    .. math:: \\rho(h) = \\frac{\\sum_i w_i \\max_j m_{ij} a_h(i, j)}{\\sum_i w_i}.

    A tree reads the features that are tested on the path of the row, an ensemble those that
    any of its trees reads, a linear model those with a coefficient other than zero. An imputed
    value counts as missing: an imputer does not lower the reliance. A missing value that is
    routed by a learnt direction counts as read, and so does the indicator column of a feature.

    References
    ----------
    .. [1] L. Stempfle, A. Matsson, N. Mwai, F. D. Johansson. "Prediction models that learn to
       avoid missing values." ICML 2025. https://arxiv.org/abs/2505.03393

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skml.metrics import missingness_reliance
    >>> X = np.array([[0.0, np.nan], [0.0, 1.0], [1.0, 0.0], [1.0, np.nan]])
    >>> tree = DecisionTreeClassifier().fit(X[:, :1], [0, 0, 1, 1])
    >>> missingness_reliance(tree, X[:, :1])
    0.0
    >>> tree = DecisionTreeClassifier(random_state=0).fit(X, [1, 1, 0, 1])
    >>> missingness_reliance(tree, X, reduce=False)
    array([ True, False, False,  True])
    """
    if hasattr(estimator, "fit"):
        check_is_fitted(estimator)
    if hasattr(estimator, "missingness_reliance"):
        rows = estimator.missingness_reliance(X, missing_mask=missing_mask, reduce=True)
    else:
        rows = _relied_cells(estimator, X, combine_missing_mask(X, missing_mask)).any(axis=1)
    if not reduce:
        return rows
    return float(np.average(rows, weights=validated_weight(sample_weight, rows)))


def _relied_cells(estimator, X, missing):
    """Mark the missing cells that the prediction of their row reads."""
    if isinstance(estimator, BaseSearchCV):
        check_is_fitted(estimator, "best_estimator_")
        return _relied_cells(estimator.best_estimator_, X, missing)
    if isinstance(estimator, Pipeline):
        return _relied_cells_of_pipeline(estimator, X, missing)
    if hasattr(estimator, "missingness_reliance"):
        cells = estimator.missingness_reliance(X, missing_mask=missing, reduce=False)
        return missing & cells
    read = read_features(estimator, X)
    if read is None:
        _warn_unknown(estimator)
        return missing
    if read.shape != missing.shape:
        raise ValueError(
            f"X must have the {read.shape[1]} features that {type(estimator).__name__} was fitted "
            f"on, got {missing.shape[1]}"
        )
    return missing & read


def _relied_cells_of_pipeline(pipeline, X, missing):
    sources = np.arange(missing.shape[1])
    for _, step in pipeline.steps[:-1]:
        step_map = step_sources(step, len(sources))
        if step_map is None:
            _warn_unknown(pipeline, step)
            return missing
        sources = sources[step_map]
    for _, step in pipeline.steps[:-1]:
        X = X if step is None or step == "passthrough" else step.transform(X)
    final = pipeline.steps[-1][1]
    relied = _relied_cells(final, X, missing[:, sources])
    cells = np.zeros_like(missing)
    # Several columns may come from one feature: it is read if any of them is.
    for column, source in enumerate(sources):
        cells[:, source] |= relied[:, column]
    return cells


def _warn_unknown(estimator, step=None):
    name = type(estimator).__name__
    because = "" if step is None else f", because of its step {type(step).__name__}"
    warnings.warn(
        f"missingness_reliance cannot tell which features {name} reads{because}; it counts as "
        "reading every feature",
        UserWarning,
        stacklevel=4,
    )


class _MissingnessRelianceScorer:
    """Scorer that returns the negated missingness reliance of a fitted model.

    Use it as a value of `scoring` in `GridSearchCV` or `cross_validate`; the higher the score,
    the fewer rows rely on a missing value. With metadata routing it accepts `missing_mask` and
    `sample_weight`: request them by `set_score_request`.

    Parameters
    ----------
    estimator : estimator
        A fitted model.
    X : array-like of shape (n_samples, n_features)
        Input of the model.
    y : None
        Ignored: reliance does not depend on the target.
    missing_mask : array-like of shape (n_samples, n_features), default=None
        Cells that count as missing although X holds a value (imputed beforehand).
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.

    See Also
    --------
    missingness_reliance : The measure, and which models it understands.
    skml.model_selection.TradeoffRefit : Choice of the candidate of low reliance.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skml.datasets import make_contextual_missingness
    >>> from skml.metrics import missingness_reliance_scorer
    >>> X, y = make_contextual_missingness(1000, random_state=0)
    >>> scoring = {"auc": "roc_auc", "reliance": missingness_reliance_scorer}
    >>> tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    >>> scores = cross_validate(tree, X, y, scoring=scoring, cv=3)
    >>> bool(np.all(scores["test_reliance"] < -0.5))
    True
    """

    _requestable = ("missing_mask", "sample_weight")

    def __init__(self):
        self._requests = {}

    def __call__(self, estimator, X, y=None, *, missing_mask=None, sample_weight=None):
        """Score a fitted model.

        Parameters
        ----------
        estimator : estimator
            A fitted model.
        X : array-like of shape (n_samples, n_features)
            Input of the model.
        y : None
            Ignored: reliance does not depend on the target.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value (imputed beforehand).
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            The negated reliance, from -1 to 0.
        """
        return -missingness_reliance(
            estimator, X, missing_mask=missing_mask, sample_weight=sample_weight
        )

    def set_score_request(self, **requests):
        """Say which metadata to pass to the scorer.

        Parameters
        ----------
        **requests : dict
            `missing_mask` and `sample_weight`, each True, False, None or the name under which
            the metadata is passed.

        Returns
        -------
        scorer
            A copy with these requests: the scorer itself is shared by all who import it.
        """
        unknown = set(requests) - set(self._requestable)
        if unknown:
            raise TypeError(
                f"set_score_request accepts {list(self._requestable)}, got {sorted(unknown)}"
            )
        scorer = copy.deepcopy(self)
        scorer._requests.update(requests)
        return scorer

    def get_metadata_routing(self):
        """Describe the requested metadata.

        Returns
        -------
        MetadataRequest
            The requests, as scikit-learn's metadata routing reads them.
        """
        request = MetadataRequest(owner=self)
        for name in self._requestable:
            request.score.add_request(param=name, alias=self._requests.get(name))
        return request

    def __repr__(self):
        return "missingness_reliance_scorer"

    def _routing_repr(self):
        return repr(self)

    def _accept_sample_weight(self):
        # Asked by scikit-learn's searches where metadata routing is off.
        return True


missingness_reliance_scorer = _MissingnessRelianceScorer()
