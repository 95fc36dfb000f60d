"""What missingness-avoiding boosting does for classes and for values alike."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skml.metrics import missingness_reliance
from skml.tree._input import (
    as_float32,
    imputed_and_mask,
    total_weight,
    validated_training_data,
)
from skml.tree._parameters import (
    TREE_CONSTRAINTS,
    absolute_settings,
    number_of_features,
    root_impurity,
)
from skml.tree._paths import links, relied_cells, relied_rows
from skml.utils._atomic import restores_on_error
from skml.utils._missing import (
    effective_mask,
    fit_imputer,
    impute,
    missing_rate,
)
from skml.utils._tags import one_target_with_missing_cells
from skml.utils._weights import validated_weight

from ._boosting_engines import HistogramEngine, PresortedEngine
from ._boosting_stages import Stages
from ._flat import FlatTrees
from ._hist_builder import max_threads
from ._stages import add_leaf_values

__all__ = ["BOOSTING_CONSTRAINTS", "BaseMAGradientBoosting"]

BOOSTING_CONSTRAINTS = {
    **{
        name: rule
        for name, rule in TREE_CONSTRAINTS.items()
        if name not in ("splitter", "monotonic_cst")
    },
    "n_estimators": [Interval(Integral, 1, None, closed="left")],
    "learning_rate": [Interval(Real, 0.0, None, closed="left")],
    "subsample": [Interval(Real, 0.0, 1.0, closed="right")],
    "max_bins": [Interval(Integral, 2, 255, closed="both"), None],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
    "validation_fraction": [Interval(Real, 0.0, 1.0, closed="neither")],
    "tol": [Interval(Real, 0.0, None, closed="left")],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
}


class Rows:
    """The rows of one part of the data: X before imputation, its mask, target and weights."""

    def __init__(self, X, mask, y, weight):
        self.X, self.mask, self.y, self.weight = X, mask, y, weight

    def take(self, rows):
        """Return the given rows."""
        return Rows(
            self.X[rows],
            None if self.mask is None else self.mask[rows],
            self.y[rows],
            None if self.weight is None else self.weight[rows],
        )


class BaseMAGradientBoosting(BaseEstimator):
    """Stages of missingness-avoiding regression trees, whatever the loss.

    A subclass encodes the target, names the loss, and turns raw predictions into its own.
    """

    # The trees are regression trees on gradients; shared helpers read it like a parameter.
    criterion = "squared_error"

    @restores_on_error
    def _fit(self, X, y, sample_weight, missing_mask):
        if self.missing_policy == "stop":
            raise ValueError(
                "missing_policy='stop' is not supported by boosting, only 'impute': a row that "
                "stops in one tree would still be corrected by the next ones"
            )
        going_on = self.warm_start and hasattr(self, "estimators_")
        X, y = validated_training_data(
            self, X, y, numeric_target=self._numeric_target, reset=not going_on
        )
        mask = effective_mask(X, missing_mask)
        sample_weight = validated_weight(sample_weight, X)
        y, class_weight = self._encode_target(y, going_on)
        weight = total_weight(sample_weight, class_weight)
        rows = Rows(X, mask, y, weight)
        if weight is not None:
            # Rows without weight must not matter to the draws either.
            kept = np.flatnonzero(weight > 0)
            rows = rows if len(kept) == len(y) else rows.take(kept)
            sample_weight = None if sample_weight is None else sample_weight[kept]
            if np.all(rows.weight == 1.0):
                rows.weight = None
        self._check_target(rows.y)
        if not going_on:
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._boost(rows, sample_weight, going_on)
        return self

    def _boost(self, rows, sample_weight, going_on):
        n_kept = len(self.estimators_) if going_on else 0
        if n_kept > self.n_estimators:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be at least {n_kept}, the number of "
                "stages fitted already, when warm_start=True"
            )
        loss = self._make_loss()
        self._n_threads = _n_threads()
        rows, held_out, sample_weight = self._hold_out(rows, sample_weight)
        n_features = rows.X.shape[1]
        if not going_on:
            self.imputer_ = fit_imputer(self.imputer, rows.X, rows.mask, sample_weight, rows.y)
            self.estimators_ = np.empty((0, loss.n_outputs), dtype=object)
            self.train_score_ = np.zeros(0)
            self.validation_score_ = np.zeros(0)
            self.oob_scores_ = self.oob_improvement_ = np.zeros(0)
        self.feature_missing_rate_ = missing_rate(rows.mask, n_features, sample_weight)
        self.max_features_ = number_of_features(self.max_features, n_features)
        engine = self._make_engine(rows)
        raw = self._start(rows, loss, engine, fit_init=not going_on)
        gradient = np.empty_like(raw)
        loss.step(rows.y, raw, rows.weight, gradient, self._n_threads)
        settings = self._settings(rows, gradient)
        if n_kept:
            self._replay(engine, raw)
            loss.step(rows.y, raw, rows.weight, gradient, self._n_threads)
        stages = Stages(self, rows, loss, engine, settings)
        stages.run(raw, gradient, held_out)
        self.n_estimators_ = len(self.estimators_)
        self._flat = self._flatten()
        relied = engine.relied == 1
        self.missingness_reliance_ = float(np.average(relied, weights=sample_weight))

    def _hold_out(self, rows, sample_weight):
        """Split rows off for early stopping: once, for X, y, mask and weights alike."""
        if self.n_iter_no_change is None:
            return rows, None, sample_weight
        train, held_out = train_test_split(
            np.arange(len(rows.y)),
            test_size=self.validation_fraction,
            random_state=self._seed,
            stratify=self._strata(rows.y),
        )
        train.sort()
        self._check_split(rows.y, train)
        sample_weight = None if sample_weight is None else sample_weight[train]
        return rows.take(train), rows.take(held_out), sample_weight

    def _make_engine(self, rows):
        if self.max_bins is None:
            return PresortedEngine(
                rows.X, rows.mask, self.imputer_, self.penalty_scope, rows.weight
            )
        return HistogramEngine(
            rows.X,
            rows.mask,
            self.imputer_,
            self.penalty_scope,
            rows.weight,
            max_bins=self.max_bins,
            seed=self._seed,
            n_threads=self._n_threads,
        )

    def _settings(self, rows, gradient):
        """Turn the parameters into numbers; alpha by the gradient of the first stage."""
        impurity = 1.0
        if self.alpha_scale == "relative":
            impurity = np.mean(
                [root_impurity("squared_error", y=g, sample_weight=rows.weight) for g in gradient]
            )
        n_samples = len(rows.y)
        settings = absolute_settings(
            self,
            n_samples=n_samples,
            total_weight=n_samples if rows.weight is None else rows.weight.sum(),
            impurity=impurity,
        )
        # The scope acts from tree to tree; sigma is fixed while one tree grows.
        return replace(settings, penalty_scope="node")

    # ----- start -----------------------------------------------------------------------------

    def _start(self, rows, loss, engine, *, fit_init):
        """Raw predictions before the first tree, (n_outputs, n_samples)."""
        if fit_init:
            self._fit_init(rows, loss, engine)
        raw = np.empty((loss.n_outputs, len(rows.y)))
        if self.init_ is None:
            raw[:] = self.baseline_[:, None]
            return raw
        for part, X in engine.imputed_rows():
            raw[:, part] = self._raw_of_init(X, loss)
        if rows.mask is not None:
            cells = np.zeros(rows.mask.shape, dtype=bool)
            for part, X in engine.imputed_rows():
                cells[part] = self._read_by_init(X, rows.mask[part])
            engine.read_cells(cells)
        return raw

    def _fit_init(self, rows, loss, engine):
        self.init_ = None
        self.baseline_ = np.zeros(loss.n_outputs)
        if self.init is None:
            self.baseline_ = loss.start(rows.y, rows.weight)
        elif not isinstance(self.init, str):
            self.init_ = clone(self.init)
            weights = {}
            if rows.weight is not None:
                if not has_fit_parameter(self.init_, "sample_weight"):
                    raise ValueError(
                        f"init={type(self.init_).__name__} must take sample_weight in fit when "
                        "there are weights"
                    )
                weights = {"sample_weight": rows.weight}
            X = np.concatenate([X for _, X in engine.imputed_rows()])
            self.init_.fit(X, rows.y, **weights)

    def _raw_of_init(self, X, loss):
        return loss.start_from(self._predict_init(X))

    def _read_by_init(self, X, mask):
        """Mark the missing cells that the initial estimator reads."""
        cells = np.zeros(mask.shape, dtype=bool)
        if isinstance(self.init_, DummyClassifier | DummyRegressor):
            return cells
        for j in np.flatnonzero(mask.any(axis=0)):
            only = np.zeros(mask.shape, dtype=bool)
            only[:, j] = mask[:, j]
            # With NaN left in X all that a row misses counts: never too little.
            cells[:, j] = mask[:, j] & missingness_reliance(
                self.init_, X, missing_mask=only, reduce=False
            )
        return cells

    def _replay(self, engine, raw):
        """Bring raw predictions and sigma to where the kept trees have left them."""
        for stage in self.estimators_:
            for k, estimator in enumerate(stage):
                tree = estimator.tree_
                leaf = np.empty(raw.shape[1], dtype=np.int32)
                for part, X in engine.imputed_rows():
                    leaf[part] = tree.apply(X)
                engine.read(leaf, *links(tree))
                values = np.ascontiguousarray(tree.value[:, 0, 0])
                add_leaf_values(raw[k], leaf, values, self.learning_rate, self._n_threads)

    # ----- prediction ------------------------------------------------------------------------

    def _flatten(self):
        trees = [estimator.tree_ for estimator in self.estimators_.ravel()]
        n_stages, n_outputs = self.estimators_.shape
        return FlatTrees.from_trees(trees, np.tile(np.arange(n_outputs), n_stages))

    def _imputed_and_mask(self, X, missing_mask=None, *, need_mask=False):
        X, mask = imputed_and_mask(self, X, missing_mask, need_mask=need_mask)
        return np.ascontiguousarray(X), mask

    def _imputed(self, X):
        return np.ascontiguousarray(as_float32(impute(self.imputer_, X)))

    def _initial_raw(self, X):
        loss = self._make_loss()
        if self.init_ is not None:
            return np.ascontiguousarray(self._raw_of_init(X, loss))
        return np.repeat(self.baseline_[:, None], len(X), axis=1)

    def _raw(self, X):
        """Raw predictions of imputed rows, (n_outputs, n_samples)."""
        raw = self._initial_raw(X)
        self._flat.add_to(raw, X, self.learning_rate, _n_threads())
        return raw

    def _staged_raw(self, X):
        """Yield the raw predictions after each stage; the same array every time."""
        X, _ = self._imputed_and_mask(X)
        raw = self._initial_raw(X)
        n_outputs = len(raw)
        for stage in range(len(self.estimators_)):
            trees = slice(stage * n_outputs, (stage + 1) * n_outputs)
            self._flat.add_to(raw, X, self.learning_rate, _n_threads(), trees)
            yield raw

    def apply(self, X):
        """Return the leaf of each row in every tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.

        Returns
        -------
        leaves : ndarray of shape (n_samples, n_stages, n_trees_per_stage), dtype int
            Node numbers; a regressor has shape (n_samples, n_stages).
        """
        X, _ = self._imputed_and_mask(X)
        n_stages, n_outputs = self.estimators_.shape
        leaves = np.empty((len(X), n_stages, n_outputs), dtype=np.intp)
        for (t, k), estimator in np.ndenumerate(self.estimators_):
            leaves[:, t, k] = estimator.tree_.apply(X)
        return leaves

    # ----- what the model reads --------------------------------------------------------------

    def missingness_reliance(self, X, missing_mask=None, reduce=False):
        """Return which missing values the prediction of each row reads, over all trees.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value (imputed beforehand).
        reduce : bool, default=False
            Whether to return one value per row instead of one per cell.

        Returns
        -------
        relied : ndarray of shape (n_samples, n_features), or (n_samples,) if `reduce`, dtype bool
            Cell (i, j) is True if x_ij is missing and the path of row i tests feature j in any
            tree, or the initial estimator reads it.
        """
        X, mask = self._imputed_and_mask(X, missing_mask, need_mask=True)
        trees = [estimator.tree_ for estimator in self.estimators_.ravel()]
        if reduce and self.init_ is None:
            return relied_rows(trees, X, mask)
        cells = relied_cells(trees, X, mask)
        if self.init_ is not None and mask is not None:
            cells |= self._read_by_init(X, mask)
        return cells.any(axis=1) if reduce else cells

    @property
    def feature_importances_(self):
        """Share of each feature in the decrease of the impurity, the penalty left out.

        Returns
        -------
        importances : ndarray of shape (n_features,)
            They sum to 1, unless no tree has a split.
        """
        check_is_fitted(self)
        trees = [e.tree_ for e in self.estimators_.ravel() if e.tree_.node_count > 1]
        if not trees:
            return np.zeros(self.n_features_in_)
        total = np.mean([t.compute_feature_importances(normalize=False) for t in trees], axis=0)
        return total / total.sum() if total.sum() > 0 else total

    def _as_estimator(self, tree, seed):
        """Wrap a tree, so that whatever takes a ``DecisionTreeRegressor`` takes it."""
        estimator = DecisionTreeRegressor(
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            max_features=self.max_features,
            random_state=seed,
        )
        estimator.tree_ = tree
        estimator.n_outputs_ = 1
        estimator.n_features_in_ = tree.n_features
        estimator.max_features_ = self.max_features_
        return estimator

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_estimators_")

    def __sklearn_tags__(self):
        return one_target_with_missing_cells(super().__sklearn_tags__())


def _n_threads():
    return max(1, min(max_threads(), _openmp_effective_n_threads()))
