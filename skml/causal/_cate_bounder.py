"""Bounds from an instrument of any kind, through a partition of its values."""

import copy
import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.cluster import KMeans
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import validate_data

from skml.utils import restores_on_error
from skml.utils._optional import import_optional

from ._base import BaseCATEBounder, resampled_rows
from ._cells import CellClassifier, CellRegressions, within_range
from ._nuisances import (
    AveragedNuisances,
    Nuisances,
    accepts_weights,
    fit_outcomes,
    fit_propensity,
    tables_of_unique,
)
from ._validation import (
    Data,
    check_instrument,
    check_lengths,
    check_treatment,
    check_weight,
    require_arrays,
    require_instance,
    require_regressor,
    resolve_outcome_bounds,
)

_PAIRS_AT_ONCE = 2**19


class CATEBounder(BaseCATEBounder):
    r"""Bounds on conditional treatment effects from an instrument of any kind.

    The values of the instrument are partitioned into a few cells. A partition that is learned
    for the tightness of the bounds keeps high-dimensional and continuous instruments (genes,
    distances, texts) usable. Unobserved confounding is allowed, and the effect need be neither
    linear nor monotone.

    Read more in the :ref:`User Guide <cate_bounds>`.

    Parameters
    ----------
    n_cells : int, default=4
        Number of cells; more cells are tighter, and noisier.

    partitioner : {"neural", "kmeans"} or object with `fit` and `predict`, default="neural"
        How the instrument is partitioned: learned for tight bounds, clustered, or by a clusterer
        of your own, whose number of cells is its own affair.

    cell_estimator : {"average", "refit"}, default="average"
        How the quantities of a cell are found. "average" averages the nuisances over the
        instruments of the cell, which needs an instrument independent of X. "refit" fits
        regressions on X inside each cell, and allows an instrument that depends on X.

    propensity_estimator : classifier, default=None
        Cloned for the treatment, on the columns [X, instrument]. None: a network.

    outcome_estimator : regressor, default=None
        Cloned for the outcome of each treatment arm, on the same columns. None: a network with
        one head per arm.

    outcome_bounds : tuple of (float, float), default=None
        Least and greatest value that the outcome can take. None takes the range of the
        training outcomes and warns.

    balance_weight : float, default=1.0
        Weight of the penalty on small cells. Smaller is tighter, but with a strong instrument
        the bounds then lose coverage.

    guidance_weight : float, default=1.0
        Weight of the penalty on cells that cannot be guessed from the instrument.

    temperature : float, default=1.0
        Temperature of the Gumbel-softmax relaxation.

    hidden_layer_sizes : tuple of int, default=(32, 32)
        Widths of the hidden layers of the networks.

    learning_rate : float, default=0.03
        Step size of Adam in the partition.

    max_iter : int, default=300
        Most steps of Adam in the partition.

    max_epochs : int, default=100
        Most passes over the rows in the built-in nuisance networks.

    batch_size : int, default=None
        Covariate rows in a step of the partition; None: all.

    validation_fraction : float, default=1/3
        Share of the rows that stops the networks and chooses the partition. Your own nuisance
        estimators see these rows only if no partition is learned, or with `cv`.

    n_iter_no_change : int, default=50
        Steps of the partition without improvement after which it stops.

    n_init : int, default=1
        Starts of the partition; the one with the least honest width on the held-out rows wins.

    max_reference : int, default=2000
        Most instruments that are averaged over, and most covariate rows that the partition is
        learned from. Memory grows with its square.

    cv : int, default=None
        Number of folds for cross-fitted nuisances: the partition is learned from tables whose
        rows took no part in their fit, and predictions average the folds' nuisances.

    warm_start : bool, default=False
        Whether a further `fit` on the same rows keeps the nuisances, if no parameter that they
        depend on has changed. Several partitions can so be tried for the price of one stage 1.

    device : str, default="cpu"
        Torch device, or "auto".

    random_state : int, RandomState instance or None, default=None
        Determines split, weights, batches, reference sample and bootstrap.

    verbose : int, default=0
        1 shows the progress of the partition.

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
        Loss of each step of the partition; empty if none was learned.

    n_iter_ : int
        Number of steps of the partition.

    reference_instrument_ : ndarray of shape (n_reference, n_instruments)
        The instruments that are averaged over.

    n_instrument_features_in_ : int
        Number of instruments seen during fit.

    n_features_in_ : int
        Number of features seen during fit.

    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features seen during fit, if all are strings.

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
            Weights of the rows; they enter the nuisances, the averages over the instrument and
            the loss of the partition.

        Returns
        -------
        CATEBounder
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
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        require_arrays("CATEBounder.fit", treatment=treatment, instrument=instrument)
        instrument, treatment = check_instrument(instrument), column_or_1d(treatment)
        check_lengths(X, treatment=treatment, instrument=instrument)
        weight = check_weight(sample_weight, X)
        kept = weight > 0
        self.treatment_classes_, treated = check_treatment(treatment[kept])
        if self.n_cells > kept.sum():
            raise ValueError(
                f"n_cells={self.n_cells} must not exceed the number of rows, n_samples={kept.sum()}"
            )
        self.n_instrument_features_in_ = instrument.shape[1]
        self.outcome_bounds_ = resolve_outcome_bounds(
            self.outcome_bounds, y[kept], type(self).__name__
        )
        s1, s2 = self.outcome_bounds_
        earlier = getattr(self, "_data", None) if self.warm_start else None
        self._data = Data(
            X[kept], instrument[kept], treated, (y[kept] - s1) / (s2 - s1), weight[kept]
        )
        # Drawn in this order whatever the settings, so that one random_state gives the same
        # nuisances under every partitioner.
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=4)
        self._split_seed, self._nuisance_seed, self._reference_seed = map(int, seeds[:3])
        settings = self._nuisance_settings()
        if earlier != self._data or settings != self._settings_of_nuisances:
            self._fit_nuisances(self._data)
            self._settings_of_nuisances = settings
        self._fit_partition(int(seeds[3]))
        self._fit_cells(self._data)
        rows = self._sample_rows(len(self._data), self._reference_seed)
        self._warn_of_crossing(self._unit_bounds(self._data.X[rows]))
        return self

    def partition(self, Z):
        """Find the cell of each row of an instrument.

        Parameters
        ----------
        Z : array-like of shape (n_samples,) or (n_samples, n_instruments)
            Instruments.

        Returns
        -------
        ndarray of int of shape (n_samples,)
            Cells, from 0.

        Raises
        ------
        ValueError
            If the instrument has another number of columns than in `fit`, or your own
            partitioner gives a label that it gave to no training row.
        """
        self._range()
        return self._labels(check_instrument(Z, self.n_instrument_features_in_))

    def _check_estimators(self):
        for name in ("partitioner", "propensity_estimator", "outcome_estimator"):
            require_instance(name, getattr(self, name))
        require_regressor(self.outcome_estimator)
        sizes = self.hidden_layer_sizes
        if len(sizes) == 0 or not all(
            isinstance(s, (Integral, np.integer)) and s > 0 for s in sizes
        ):
            raise ValueError(
                f"hidden_layer_sizes must hold at least one positive integer; got {sizes!r}"
            )

    # Stage 1

    @property
    def _learns_partition(self):
        return isinstance(self.partitioner, str) and self.partitioner == "neural"

    def _fit_nuisances(self, data):
        """Set the nuisances, and which rows they have not seen."""
        self.propensity_estimator_ = self.outcome_estimator_ = self._nuisances = None
        self._fold = None
        if self.cell_estimator == "refit" and not self._learns_partition:
            return
        if self.cv is None:
            train, valid = self._split(data)
            members = [self._fit_member(data, train, valid)]
        else:
            self._fold = self._draw_folds(data)
            members = []
            for k in range(self.cv):
                rest = np.flatnonzero(self._fold != k)
                train, valid = self._split(data.take(rest))
                everything = None if self._has_net() else rest
                members.append(self._fit_member(data, rest[train], rest[valid], everything))
        self._nuisances = members[0] if self.cv is None else AveragedNuisances(members)
        propensities = [member.propensity for member in members]
        outcomes = [member.outcomes for member in members]
        self.propensity_estimator_ = propensities[0] if self.cv is None else propensities
        self.outcome_estimator_ = outcomes[0] if self.cv is None else outcomes

    def _nuisance_settings(self):
        """All that the nuisances depend on besides the rows, in a form that can be compared."""
        names = (
            "propensity_estimator outcome_estimator cv hidden_layer_sizes max_epochs device "
            "validation_fraction random_state"
        ).split()
        skipped = self.cell_estimator == "refit" and not self._learns_partition
        user_sees_less = self._learns_partition and self.cv is None
        only_nets = self.propensity_estimator is None and self.outcome_estimator is None
        return (
            *(repr(getattr(self, name)) for name in names),
            skipped,
            user_sees_less and not only_nets,
        )

    def _has_net(self):
        return self.propensity_estimator is None or self.outcome_estimator is None

    def _fit_member(self, data, train, valid, everything=None):
        """Nuisances of the training rows; estimators of the user may see the other ones too."""
        if everything is None:
            keeps_valid = self._learns_partition and self.cv is None
            everything = train if keeps_valid else np.sort(np.append(train, valid))
        train, valid, everything = (data.take(rows) for rows in (train, valid, everything))
        if self._has_net():
            nets = self._import_torch_side("_nuisance_nets")
            params = self._net_params()
        if self.propensity_estimator is None:
            propensity = nets.fit_propensity_net(train, valid, **params)
        else:
            propensity = fit_propensity(self.propensity_estimator, everything)
        if self.outcome_estimator is None:
            outcomes = nets.fit_outcome_net(train, valid, **params)
        else:
            outcomes = fit_outcomes(self.outcome_estimator, everything)
        return Nuisances(propensity, outcomes)

    def _net_params(self):
        return {
            "hidden_layer_sizes": tuple(self.hidden_layer_sizes),
            "max_epochs": self.max_epochs,
            "device": self.device,
            "random_state": self._nuisance_seed,
        }

    def _import_torch_side(self, module):
        for package in ("torch", "skorch", "safetensors"):
            import_optional(package, extra="torch", needed_by=f"CATEBounder ({_WHY_TORCH})")
        return import_optional(f"skml.causal.{module}", extra="torch", needed_by="CATEBounder")

    def _split(self, data):
        """Training and validation rows; each arm keeps a training row."""
        rng = np.random.RandomState(self._split_seed)
        train, valid = [], []
        for arm in (0, 1):
            rows = rng.permutation(np.flatnonzero(data.treatment == arm))
            n_valid = min(round(self.validation_fraction * len(rows)), len(rows) - 1)
            valid.append(rows[:n_valid])
            train.append(rows[n_valid:])
        return np.sort(np.concatenate(train)), np.sort(np.concatenate(valid))

    def _draw_folds(self, data):
        least = np.bincount(data.treatment, minlength=2).min()
        if least < self.cv:
            raise ValueError(
                f"cv={self.cv} folds need at least {self.cv} rows of each treatment class; the "
                f"smaller one has {least}"
            )
        fold = np.empty(len(data), dtype=np.intp)
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=self._split_seed)
        for k, (_, rows) in enumerate(folds.split(data.X, data.treatment)):
            fold[rows] = k
        return fold

    # Stage 2

    def _fit_partition(self, seed):
        data = self._data
        self.loss_curve_, self.n_iter_ = [], 0
        if self._learns_partition:
            side = self._import_torch_side("_neural_partition")
            train, valid = self._split(data)
            names = (
                "balance_weight guidance_weight temperature learning_rate max_iter batch_size "
                "n_iter_no_change n_init device verbose"
            ).split()
            params = {name: getattr(self, name) for name in names}
            partition = side.NeuralPartition(
                self.n_cells,
                hidden_layer_sizes=tuple(self.hidden_layer_sizes),
                random_state=seed,
                **params,
            )
            # A validation set that is empty (a few rows in all) is replaced by the training rows.
            valid = valid if len(valid) else train
            self.partitioner_ = partition.fit(
                *(self._partition_data(side, part, seed) for part in (train, valid))
            )
            self.loss_curve_ = self.partitioner_.record_.loss_curve
            self.n_iter_ = self.partitioner_.record_.n_iter
            self._known_labels = np.arange(self.n_cells)
            return
        if isinstance(self.partitioner, str):
            partition = KMeans(self.n_cells, n_init=10, random_state=seed)
        else:
            partition = clone(self.partitioner, safe=False)
        weighted = accepts_weights(partition) and not np.all(data.weight == 1)
        partition.fit(data.instrument, **({"sample_weight": data.weight} if weighted else {}))
        self.partitioner_ = partition
        self._known_labels = np.unique(self._raw_labels(data.instrument))

    def _partition_data(self, side, rows, seed):
        rows = rows[self._sample_rows(len(rows), seed)]
        data = self._data.take(rows)
        if self._fold is None:
            tables = tables_of_unique(self._nuisances, data.X, data.instrument, np.float32)
        else:
            tables = np.empty((3, len(rows), len(rows)), dtype=np.float32)
            for k, member in enumerate(self._nuisances.members):
                own = self._fold[rows] == k
                if own.any():
                    tables[:, own] = tables_of_unique(
                        member, data.X[own], data.instrument, np.float32
                    )
        return side.PartitionData(tables, data.instrument, data.treatment, data.y, data.weight)

    def _sample_rows(self, n, seed):
        """At most `max_reference` of n rows, in order."""
        if n <= self.max_reference:
            return np.arange(n)
        chosen = np.random.RandomState(seed).choice(n, self.max_reference, replace=False)
        return np.sort(chosen)

    # Cells

    def _raw_labels(self, instrument):
        labels = np.asarray(self.partitioner_.predict(instrument))
        if labels.shape != (len(instrument),):
            raise ValueError(
                "partitioner.predict must return one label for each row of the instrument; got "
                f"shape {labels.shape} for {len(instrument)} rows"
            )
        return labels

    def _labels(self, instrument):
        labels = self._raw_labels(instrument)
        unknown = ~np.isin(labels, self._known_labels)
        if unknown.any():
            raise ValueError(
                f"partitioner gives the label {labels[unknown].tolist()[0]!r}, which it gave to no "
                "training row"
            )
        return np.searchsorted(self._known_labels, labels)

    def _fit_cells(self, data):
        cell = self._labels(data.instrument)
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
        rows = self._sample_rows(len(data), self._reference_seed)
        self.reference_instrument_ = data.instrument[rows]
        self._set_averages(cell[rows], data.weight[rows], n_labels)
        self.cell_propensity_ = self._regressions = None
        if self.cell_estimator == "refit":
            classifier, regressor = self._cell_estimators()
            self._regressions = CellRegressions(classifier, regressor).fit(data, cell, n_labels)
            self.cell_propensity_ = CellClassifier(classifier).fit(
                data.X, cell, n_labels, data.weight
            )

    def _set_averages(self, cell, weight, n_labels):
        """Distinct reference instruments, and their weights in the average of each cell."""
        self._distinct, where = np.unique(self.reference_instrument_, axis=0, return_inverse=True)
        share = np.zeros((len(self._distinct), n_labels))
        np.add.at(share, (where.ravel(), cell), weight)
        mass = share.sum(axis=0)
        # A cell that no reference instrument falls in is empty: NaN.
        with np.errstate(invalid="ignore"):
            self._averages = share / mass

    def _cell_estimators(self):
        classifier, regressor = self.propensity_estimator, self.outcome_estimator
        if self._has_net():
            nets = self._import_torch_side("_nuisance_nets")
            if classifier is None:
                classifier = nets.CovariateNet("classes", **self._net_params())
            if regressor is None:
                regressor = nets.CovariateNet("moments", **self._net_params())
        return classifier, regressor

    def _unit_cells(self, X):
        if self._regressions is not None:
            return self._regressions.predict(X)
        filled = ~np.isnan(self._averages).any(axis=0)
        cells = np.full((3, len(X), len(filled)), np.nan)
        step = max(1, _PAIRS_AT_ONCE // len(self._distinct))
        for start in range(0, len(X), step):
            part = slice(start, start + step)
            tables = self._nuisances.tables(X[part], self._distinct)
            cells[:, part, filled] = tables @ self._averages[:, filled]
        return within_range(*cells)

    def _cell_index(self, instrument, n_rows):
        cell = self.partition(instrument)
        check_lengths(range(n_rows), instrument=cell)
        return cell

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


_WHY_TORCH = "a neural partition, or a network in place of propensity_estimator=None"
