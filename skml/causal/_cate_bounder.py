"""Bounds from an instrument of any kind, through a partition of its values."""

import copy
import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import _fit_context
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from skml.utils import restores_on_error

from ._base import BaseCATEBounder, resampled_rows
from ._cells import CellClassifier, CellRegressions, averaged_cells, weights_of_averages
from ._nuisance_fits import NuisanceFits, import_torch_side
from ._partitions import cells_of, fit_clusterer, partition_data, raw_labels, sample_rows
from ._validation import check_instrument, check_layer_sizes, require_instance, require_regressor


class CATEBounder(BaseCATEBounder):
    r"""Bounds on conditional treatment effects from an instrument of any kind.

    The values of the instrument are partitioned into a few cells. A partition that is learnt
    for the tightness of the bounds keeps high-dimensional and continuous instruments (genes,
    distances, texts) usable. Unobserved confounding is allowed, and the effect need be neither
    linear nor monotone.

    Read more in the :ref:`User Guide <cate_bounds>`.

    Parameters
    ----------
    n_cells : int, default=4
        Number of cells; more cells are tighter, and noisier.

    partitioner : {"neural", "kmeans"} or object with `fit` and `predict`, default="neural"
        How the instrument is partitioned: learnt for tight bounds, clustered, or by a clusterer
        of your own, whose number of cells is its own affair.

    cell_estimator : {"average", "refit"}, default="average"
        How the quantities of a cell are found. "average" averages the nuisances over the
        instruments of the cell, which needs an instrument independent of X. "refit" fits
        regressions on X inside each cell, and allows an instrument that depends on X.

    propensity_estimator : classifier or None, default=None
        Cloned for the treatment, on the columns [X, instrument]. None: a network.

    outcome_estimator : regressor or None, default=None
        Cloned for the outcome of each treatment arm, on the same columns. None: a network with
        one head per arm.

    outcome_bounds : tuple of (float, float) or None, default=None
        Least and greatest value that the outcome can take. None takes the range of the
        training outcomes and warns.

    balance_weight : float, default=1.0
        Weight of the penalty on small cells. Smaller is tighter, but with a strong instrument
        the bounds then lose coverage.

    guidance_weight : float, default=1.0
        Weight of the penalty on cells that cannot be guessed from the instrument.

    temperature : float, default=1.0
        Temperature of the Gumbel-softmax relaxation.

    hidden_layer_sizes : sequence of int, default=(32, 32)
        Widths of the hidden layers of the networks.

    learning_rate : float, default=0.03
        Learning rate of Adam in the partition.

    max_iter : int, default=300
        Largest number of steps of Adam in the partition.

    max_epochs : int, default=100
        Largest number of passes over the rows in the built-in nuisance networks.

    batch_size : int or None, default=None
        Covariate rows in a step of the partition; None: all.

    validation_fraction : float, default=1/3
        Share of the rows held out: they stop the networks and choose the partition. Your own
        nuisance estimators see them only if no partition is learnt, or with `cv`.

    n_iter_no_change : int, default=50
        Stop the partition after so many steps without improvement.

    n_init : int, default=1
        Starts of the partition; the one with the least honest width on the held-out rows wins.

    max_reference : int, default=2000
        Largest number of instruments that are averaged over, and of covariate rows that the
        partition is learnt from. Memory grows with its square.

    cv : int or None, default=None
        Number of folds for cross-fitted nuisances: the partition is learnt from tables whose
        rows took no part in their fit, and predictions average the folds' nuisances.

    warm_start : bool, default=False
        Whether a further `fit` on the same rows keeps the nuisances, if no parameter that they
        depend on has changed. Several partitions can so be tried for the price of one stage 1.

    device : str, default="cpu"
        Where to train: "cpu", "auto" or a torch device string.

    random_state : int, RandomState instance or None, default=None
        Source of the split, the weights, the batches, the reference sample and the bootstrap.

    verbose : int, default=0
        0 is silent, 1 shows the progress of the partition.

    Attributes
    ----------
    treatment_classes_ : ndarray of shape (2,)
        Classes of the treatment, sorted; the effect is that of the second.

    outcome_bounds_ : tuple of (float, float)
        Range of the outcome.

    partitioner_ : object
        The fitted partition, with a method `predict`.

    propensity_estimator_ : classifier, list of classifiers or None
        The fitted model of the treatment, one for each fold with `cv`. None if "refit" needs
        none.

    outcome_estimator_ : estimator, tuple of two regressors, list of these or None
        The fitted models of the outcome, in [0, 1] by `outcome_bounds_`.

    cell_propensity_ : object or None
        Under "refit", classifier of the cells given X, no smaller than 0.001.

    cell_probabilities_ : ndarray of shape (n_labels,)
        Weighted share of the training rows in each cell.

    n_cells_ : int
        Number of cells that are not empty.

    loss_curve_ : list of float
        Loss of each step of the partition; empty if none was learnt.

    n_iter_ : int
        Number of steps of the partition.

    reference_instrument_ : ndarray of shape (n_reference, n_instruments)
        The instruments that are averaged over.

    n_instrument_features_in_ : int
        Number of instruments seen during fit.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    DiscreteCATEBounder : For instruments with a few values.
    skml.inspection.CATEBoundsDisplay : Pictures of the bounds and of the cells.
    skml.datasets.make_iv_cate : Data with known effects.

    Notes
    -----
    With :math:`\pi(x,z) = P(A=1|x,z)`, :math:`m^1(x,z) = E[AY|x,z]` and
    :math:`m^0(x,z) = E[(1-A)Y|x,z]`, a cell has :math:`\pi_l(x) = E[\pi(x,Z) | \phi(Z)=l]`, and so
    on; the bounds are those of :func:`manski_iv_bounds`, valid for any fixed partition
    :math:`\phi`. The neural partition minimises

    .. math::

        \frac{1}{n} \sum_i \frac{b^+(x_i) - b^-(x_i)}{s_2 - s_1}
        - \frac{\lambda}{K} \sum_l \log(p_l + 10^{-4})
        + \gamma\, CE(c(\psi(z)), W)

    over an encoder :math:`\psi`, whose hard Gumbel-softmax cells W have shares :math:`p_l` and
    are guessed by the linear head c. The nuisances of all pairs are tabulated once, so that a
    step is one matrix product.

    The moments are averaged as they are. Weights that depend on z alone, as in products of
    averages, would give bounds that are tighter and not valid.

    References
    ----------
    .. [1] J. Schweisthal, D. Frauen, M. Schröder, K. Hess, N. Kilbertus, S. Feuerriegel.
       "Learning Representations of Instruments for Partial Identification of Treatment
       Effects." ICML 2025. https://arxiv.org/abs/2410.08976
    .. [2] G. W. Imbens, C. F. Manski. "Confidence intervals for partially identified
       parameters." Econometrica, 72(6), 2004, 1845-1857.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression, LogisticRegression
    >>> from skml.causal import CATEBounder
    >>> from skml.datasets import make_iv_cate
    >>> data = make_iv_cate("polygenic", n_samples=1000, random_state=0)
    >>> bounder = CATEBounder(
    ...     n_cells=2,
    ...     partitioner="kmeans",
    ...     propensity_estimator=LogisticRegression(),
    ...     outcome_estimator=LinearRegression(),
    ...     outcome_bounds=(0, 1),
    ...     random_state=0,
    ... )
    >>> arrays = {"treatment": data.treatment, "instrument": data.instrument}
    >>> bounds = bounder.fit(data.X, data.y, **arrays).predict_bounds(data.X)
    >>> bounds.shape, bool(((bounds[:, 0] <= data.tau) & (data.tau <= bounds[:, 1])).all())
    ((1000, 2), True)
    """

    _parameter_constraints: dict = {
        "n_cells": [Interval(Integral, 2, None, closed="left")],
        "partitioner": [StrOptions({"neural", "kmeans"}), HasMethods(["fit", "predict"])],
        "cell_estimator": [StrOptions({"average", "refit"})],
        "propensity_estimator": [HasMethods(["fit", "predict_proba"]), None],
        "outcome_estimator": [HasMethods(["fit", "predict"]), None],
        "outcome_bounds": ["array-like", None],
        "balance_weight": [Interval(Real, 0, None, closed="left")],
        "guidance_weight": [Interval(Real, 0, None, closed="left")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "hidden_layer_sizes": ["array-like"],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_reference": [Interval(Integral, 1, None, closed="left")],
        "cv": [Interval(Integral, 2, None, closed="left"), None],
        "warm_start": ["boolean"],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_cells=4,
        *,
        partitioner="neural",
        cell_estimator="average",
        propensity_estimator=None,
        outcome_estimator=None,
        outcome_bounds=None,
        balance_weight=1.0,
        guidance_weight=1.0,
        temperature=1.0,
        hidden_layer_sizes=(32, 32),
        learning_rate=0.03,
        max_iter=300,
        max_epochs=100,
        batch_size=None,
        validation_fraction=1 / 3,
        n_iter_no_change=50,
        n_init=1,
        max_reference=2000,
        cv=None,
        warm_start=False,
        device="cpu",
        random_state=None,
        verbose=0,
    ):
        self.n_cells = n_cells
        self.partitioner = partitioner
        self.cell_estimator = cell_estimator
        self.propensity_estimator = propensity_estimator
        self.outcome_estimator = outcome_estimator
        self.outcome_bounds = outcome_bounds
        self.balance_weight = balance_weight
        self.guidance_weight = guidance_weight
        self.temperature = temperature
        self.hidden_layer_sizes = hidden_layer_sizes
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_init = n_init
        self.max_reference = max_reference
        self.cv = cv
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @restores_on_error
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, *, treatment=None, instrument=None, sample_weight=None):
        """Fit the nuisances, partition the instrument, and set up the cell quantities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Covariates.
        y : array-like of shape (n_samples,)
            Outcomes.
        treatment : array-like of shape (n_samples,)
            Treatments, of two classes.
        instrument : array-like of shape (n_samples,) or (n_samples, n_instruments)
            Instruments, numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0; they enter the nuisances, the averages over the
            instrument and the loss of the partition.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If an array is missing, not finite or of another length, the treatment does not have
            two classes, there are fewer rows than cells, or the outcome leaves `outcome_bounds`.
        TypeError
            If an estimator is given as a class, or a classifier for the outcome.
        """
        self._check_estimators()
        earlier = getattr(self, "_data", None) if self.warm_start else None
        self._data = data = self._fit_data(
            X, y, treatment, check_instrument, instrument, sample_weight
        )
        if self.n_cells > len(data):
            raise ValueError(
                f"n_cells={self.n_cells} must not exceed the number of rows, n_samples={len(data)}"
            )
        # Drawn in this order whatever the settings, so that one random_state gives the same
        # nuisances under every partitioner.
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=4)
        self._split_seed, self._nuisance_seed, self._reference_seed = map(int, seeds[:3])
        settings = self._nuisance_settings()
        if earlier != data or settings != self._settings_of_nuisances:
            self._fit_nuisances(data)
            self._settings_of_nuisances = settings
        self._fit_partition(int(seeds[3]))
        self._fit_cells(data)
        rows = sample_rows(len(data), self.max_reference, self._reference_seed)
        self._warn_of_crossing(self._unit_bounds(data.X[rows]))
        return self

    def partition(self, Z):
        """Find the cell of each row of an instrument.

        Parameters
        ----------
        Z : array-like of shape (n_samples,) or (n_samples, n_instruments)
            Instruments.

        Returns
        -------
        ndarray of shape (n_samples,), dtype int
            Cells, from 0.

        Raises
        ------
        ValueError
            If the instrument has another number of columns than in `fit`, or your own
            partitioner gives a label that it gave to no training row.
        """
        self._range()
        instrument = check_instrument(Z, self.n_instrument_features_in_)
        return cells_of(self.partitioner_, self._known_labels, instrument)

    def _check_estimators(self):
        for name in ("partitioner", "propensity_estimator", "outcome_estimator"):
            require_instance(name, getattr(self, name))
        require_regressor(self.outcome_estimator)
        check_layer_sizes(self.hidden_layer_sizes)

    @property
    def _learns_partition(self):
        return isinstance(self.partitioner, str) and self.partitioner == "neural"

    @property
    def _needs_nuisances(self):
        return self.cell_estimator == "average" or self._learns_partition

    def _stage_1(self):
        net_params = {
            "hidden_layer_sizes": tuple(self.hidden_layer_sizes),
            "max_epochs": self.max_epochs,
            "device": self.device,
            "random_state": self._nuisance_seed,
        }
        return NuisanceFits(
            self.propensity_estimator,
            self.outcome_estimator,
            net_params,
            self.cv,
            self.validation_fraction,
            withholds_validation=self._learns_partition,
            seed=self._split_seed,
        )

    def _fit_nuisances(self, data):
        """Set the nuisances, and which rows they have not seen."""
        self.propensity_estimator_ = self.outcome_estimator_ = self._nuisances = None
        self._fold = None
        if not self._needs_nuisances:
            return
        self._nuisances, self._fold = self._stage_1().fit(data)
        self.propensity_estimator_ = self._nuisances.propensity
        self.outcome_estimator_ = self._nuisances.outcomes

    def _nuisance_settings(self):
        """All that the nuisances depend on besides the rows, in a form that can be compared."""
        names = (
            "propensity_estimator outcome_estimator cv hidden_layer_sizes max_epochs device "
            "validation_fraction random_state"
        ).split()
        only_nets = self.propensity_estimator is None and self.outcome_estimator is None
        user_sees_less = self._learns_partition and self.cv is None and not only_nets
        values = [repr(getattr(self, name)) for name in names]
        return *values, self._needs_nuisances, user_sees_less

    def _fit_partition(self, seed):
        data = self._data
        self.loss_curve_, self.n_iter_ = [], 0
        if self._learns_partition:
            self.partitioner_ = self._fit_neural_partition(data, seed)
            self.loss_curve_ = self.partitioner_.record_.loss_curve
            self.n_iter_ = self.partitioner_.record_.n_iter
            self._known_labels = np.arange(self.n_cells)
            return
        clusterer = self.partitioner
        if isinstance(clusterer, str):
            clusterer = KMeans(self.n_cells, n_init=10, random_state=seed)
        self.partitioner_ = fit_clusterer(clusterer, data)
        self._known_labels = np.unique(raw_labels(self.partitioner_, data.instrument))

    def _fit_neural_partition(self, data, seed):
        side = import_torch_side("_neural_partition")
        names = (
            "balance_weight guidance_weight temperature learning_rate max_iter batch_size "
            "n_iter_no_change n_init device verbose"
        ).split()
        partition = side.NeuralPartition(
            self.n_cells,
            hidden_layer_sizes=tuple(self.hidden_layer_sizes),
            random_state=seed,
            **{name: getattr(self, name) for name in names},
        )
        train, valid = self._stage_1().split(data)
        # A validation set that is empty (a few rows in all) is replaced by the training rows.
        parts = (
            rows[sample_rows(len(rows), self.max_reference, seed)]
            for rows in (train, valid if len(valid) else train)
        )
        return partition.fit(
            *(partition_data(self._nuisances, self._fold, data, rows) for rows in parts)
        )

    def _fit_cells(self, data):
        cell = cells_of(self.partitioner_, self._known_labels, data.instrument)
        n_labels = len(self._known_labels)
        self.cell_probabilities_ = np.bincount(cell, data.weight, minlength=n_labels)
        self.cell_probabilities_ /= data.weight.sum()
        self.n_cells_ = int(np.count_nonzero(self.cell_probabilities_))
        if self.n_cells_ == 1:
            warnings.warn(
                "Every instrument falls in one cell, so it narrows nothing; a smaller "
                "temperature, a greater balance_weight or more starts (n_init) may help.",
                UserWarning,
            )
        rows = sample_rows(len(data), self.max_reference, self._reference_seed)
        self.reference_instrument_ = data.instrument[rows]
        self._set_averages(cell[rows], data.weight[rows], n_labels)
        self.cell_propensity_ = self._regressions = None
        if self.cell_estimator == "refit":
            classifier, regressor = self._stage_1().cell_estimators()
            self._regressions = CellRegressions(classifier, regressor).fit(data, cell, n_labels)
            self.cell_propensity_ = CellClassifier(classifier).fit(data, cell, n_labels)

    def _set_averages(self, cell, weight, n_labels):
        self._distinct, self._averages = weights_of_averages(
            self.reference_instrument_, cell, weight, n_labels
        )

    def _unit_cells(self, X):
        if self._regressions is not None:
            return self._regressions.predict(X)
        return averaged_cells(self._nuisances, X, self._distinct, self._averages)

    def _cell_probability(self, X, cell):
        if self.cell_propensity_ is None:
            return None
        return self.cell_propensity_.predict_proba(X)[np.arange(len(X)), cell]

    def _resampled(self, rng):
        model = copy.copy(self)
        model._data = self._data.take(resampled_rows(self._data, rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if self.cell_estimator == "average":
                model._fit_nuisances(model._data)
            model._fit_cells(model._data)
        return model
