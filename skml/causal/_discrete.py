"""Bounds from a discrete instrument: one regression in each of its levels."""

import copy
import warnings
from dataclasses import replace

import numpy as np
from sklearn.base import _fit_context
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils._param_validation import HasMethods, StrOptions

from skml.utils import restores_on_error

from ._balke_pearl import balke_pearl_bounds, law_of_cells
from ._base import BaseCATEBounder, resampled_rows
from ._cells import CellClassifier, CellRegressions
from ._honest import balke_pearl_terms
from ._validation import require_instance, require_regressor


class DiscreteCATEBounder(BaseCATEBounder):
    r"""Bounds on conditional treatment effects from a discrete instrument.

    Read more in the :ref:`User Guide <cate_bounds>`.

    Parameters
    ----------
    bounds : {"manski", "balke-pearl"}, default="manski"
        The first needs mean independence and takes any outcome and any number of levels. The
        second is sharp under full independence, for a binary outcome and two levels.

    propensity_estimator : classifier or None, default=None
        Cloned for the treatment inside each level and for the level itself. None: logistic
        regression.

    outcome_estimator : regressor or None, default=None
        Cloned inside each level for the products A Y and (1 - A) Y. None: linear regression.
        Bounds are valid only if the estimators can follow the truth, so give flexible ones
        where effects may bend.

    outcome_bounds : tuple of (float, float) or None, default=None
        Least and greatest value that the outcome can take. None takes the range of the
        training outcomes and warns.

    random_state : int, RandomState instance or None, default=None
        Source of the samples of :meth:`bootstrap_bounds`. Nuisance estimators have their own.

    Attributes
    ----------
    treatment_classes_ : ndarray of shape (2,)
        Classes of the treatment, sorted; the effect is that of the second.

    outcome_bounds_ : tuple of (float, float)
        Range of the outcome.

    instrument_levels_ : list of tuple
        Values of the instrument that make up each cell.

    n_cells_ : int
        Number of levels.

    cell_probabilities_ : ndarray of shape (n_cells,)
        Weighted share of the training rows in each level.

    cell_propensity_ : object
        Classifier of the levels given X; its ``predict_proba`` is no smaller than 0.001.

    cell_regressions_ : object
        The fitted regressions of all levels.

    n_instrument_features_in_ : int
        Number of instruments seen during fit.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    CATEBounder : For instruments with many or continuous values.
    manski_iv_bounds : The bounds of one row.
    balke_pearl_bounds : The sharp bounds of one row.

    Notes
    -----
    In each level l, :math:`\pi_l(x) = P(A=1|x,l)`, :math:`m^1_l(x) = E[AY|x,l]` and
    :math:`m^0_l(x) = E[(1-A)Y|x,l]` are regressions on the rows of that level, which need the
    instrument to be independent of the unobserved confounders given X only. An instrument that
    depends on X is allowed.

    References
    ----------
    .. [1] J. Schweisthal, D. Frauen, M. van der Schaar, S. Feuerriegel. "Meta-Learners for
       Partially-Identified Treatment Effects Across Multiple Environments." ICML 2024.
       https://arxiv.org/abs/2406.02464
    .. [2] A. Balke, J. Pearl. "Bounds on treatment effects from studies with imperfect
       compliance." Journal of the American Statistical Association, 92(439), 1997, 1171-1176.

    Examples
    --------
    >>> from skml.causal import DiscreteCATEBounder
    >>> from skml.datasets import load_401ksubs
    >>> pensions = load_401ksubs()
    >>> bounder = DiscreteCATEBounder(outcome_bounds=(0, 1)).fit(
    ...     pensions.data[:, :1] / 100,
    ...     pensions.target,
    ...     treatment=pensions.treatment,
    ...     instrument=pensions.instrument,
    ... )
    >>> bounder.predict_bounds([[0.2], [0.8]]).round(2)
    array([[-0.04,  0.34],
           [-0.05,  0.15]])
    """

    _parameter_constraints: dict = {
        "bounds": [StrOptions({"manski", "balke-pearl"})],
        "propensity_estimator": [HasMethods(["fit", "predict_proba"]), None],
        "outcome_estimator": [HasMethods(["fit", "predict"]), None],
        "outcome_bounds": ["array-like", None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        bounds="manski",
        propensity_estimator=None,
        outcome_estimator=None,
        outcome_bounds=None,
        random_state=None,
    ):
        self.bounds = bounds
        self.propensity_estimator = propensity_estimator
        self.outcome_estimator = outcome_estimator
        self.outcome_bounds = outcome_bounds
        self.random_state = random_state

    @restores_on_error
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, *, treatment=None, instrument=None, sample_weight=None):
        """Fit the regressions of each level of the instrument.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Covariates.
        y : array-like of shape (n_samples,)
            Outcomes.
        treatment : array-like of shape (n_samples,)
            Treatments, of two classes.
        instrument : array-like of shape (n_samples,) or (n_samples, n_instruments)
            Discrete instruments, numbers or strings; each combination of values is one level.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If an array is missing, not finite or of another length, the treatment does not have
            two classes, the instrument has nearly as many levels as rows, the outcome leaves
            `outcome_bounds`, or "balke-pearl" meets other than two levels and two outcomes.
        """
        require_instance("propensity_estimator", self.propensity_estimator)
        require_instance("outcome_estimator", self.outcome_estimator)
        require_regressor(self.outcome_estimator)
        data = self._fit_data(X, y, treatment, _as_codes, instrument, sample_weight)
        levels, cell = np.unique(data.instrument, axis=0, return_inverse=True)
        self.instrument_levels_ = [tuple(level) for level in levels.tolist()]
        self.n_cells_ = len(levels)
        self._check_levels(len(data), data.y)
        self._data = replace(data, instrument=cell.ravel())
        self.cell_probabilities_ = np.bincount(cell.ravel(), data.weight) / data.weight.sum()
        self._fit_cells(self._data)
        self._warn_of_crossing(self._unit_bounds(self._data.X))
        return self

    def _check_levels(self, n_rows, unit_y):
        if self.n_cells_ == 1:
            warnings.warn("The instrument has a single level, so it narrows nothing.", UserWarning)
        if self.n_cells_ > max(2, n_rows // 2):
            raise ValueError(
                f"instrument has {self.n_cells_} levels in {n_rows} rows; DiscreteCATEBounder "
                "needs several rows in each level. Use CATEBounder for a continuous instrument."
            )
        if self.bounds == "balke-pearl" and (
            self.n_cells_ != 2 or not np.isin(unit_y, (0, 1)).all()
        ):
            raise ValueError(
                "bounds='balke-pearl' needs an instrument with two levels and outcomes that equal "
                f"one of outcome_bounds={self.outcome_bounds_}, got {self.n_cells_} levels and "
                f"{len(np.unique(unit_y))} different outcomes"
            )

    def _fit_cells(self, data):
        classifier = self.propensity_estimator
        classifier = LogisticRegression() if classifier is None else classifier
        regressor = self.outcome_estimator
        regressor = LinearRegression() if regressor is None else regressor
        self.cell_regressions_ = CellRegressions(classifier, regressor)
        self.cell_regressions_.fit(data, data.instrument, self.n_cells_)
        self.cell_propensity_ = CellClassifier(classifier)
        self.cell_propensity_.fit(data, data.instrument, self.n_cells_)

    def _unit_cells(self, X):
        return self.cell_regressions_.predict(X)

    def _unit_bounds(self, X):
        if self.bounds == "manski":
            return super()._unit_bounds(X)
        law = law_of_cells(*self._unit_cells(X))
        return balke_pearl_bounds(law)

    def _terms(self, cells, rows):
        if self.bounds == "manski":
            return super()._terms(cells, rows)
        if not np.isin(rows.y, (0, 1)).all():
            raise ValueError(
                "bounds='balke-pearl' needs outcomes that equal one of "
                f"outcome_bounds={self.outcome_bounds_}"
            )
        return balke_pearl_terms(cells, rows)

    def partition(self, Z):
        """Find the level of each row of an instrument.

        Parameters
        ----------
        Z : array-like of shape (n_samples,) or (n_samples, n_instruments)
            Instruments.

        Returns
        -------
        ndarray of shape (n_samples,), dtype int
            Index into `instrument_levels_`.

        Raises
        ------
        ValueError
            If the instrument has another number of columns than in `fit`, or a new level.
        """
        self._range()
        codes = _as_codes(Z)
        if codes.shape[1] != self.n_instrument_features_in_:
            raise ValueError(
                f"instrument has {codes.shape[1]} features, but it had "
                f"{self.n_instrument_features_in_} in fit"
            )
        index = {level: k for k, level in enumerate(self.instrument_levels_)}
        levels, where = np.unique(codes, axis=0, return_inverse=True)
        unknown = [level for level in map(tuple, levels.tolist()) if level not in index]
        if unknown:
            raise ValueError(
                f"instrument has the level {unknown[0]}, which fit has not seen; the known ones "
                f"are {self.instrument_levels_[:5]}"
            )
        return np.array([index[tuple(level)] for level in levels.tolist()])[where.ravel()]

    def _cell_probability(self, X, cell):
        return self.cell_propensity_.predict_proba(X)[np.arange(len(X)), cell]

    def _resampled(self, rng):
        model = copy.copy(self)
        model._fit_cells(self._data.take(resampled_rows(self._data, rng)))
        return model


def _as_codes(instrument):
    """The instrument as an array (n, p) whose rows can be compared: floats, else strings."""
    array = np.asarray(instrument)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"instrument must have the shape (n,) or (n, n_instruments), got {array.shape}"
        )
    if array.dtype.kind in "OUST":
        if any(value is None or value != value for value in array.ravel().tolist()):
            raise ValueError("instrument contains NaN or None")
        return array.astype(str)
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError("instrument contains NaN or infinity")
    return array
