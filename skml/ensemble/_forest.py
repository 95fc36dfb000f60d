"""What the missingness-avoiding forests for classes and for numbers have in common."""

import warnings
from numbers import Integral

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.utils import check_random_state, gen_even_slices
from sklearn.utils._param_validation import Interval, RealNotInt
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from skml.tree._input import (
    float32_columns,
    imputed_and_mask,
    total_weight,
    validated_training_data,
)
from skml.tree._parameters import TREE_CONSTRAINTS, number_of_features, refuse_unsupported
from skml.tree._paths import ancestors, end_nodes, relied_cells, relied_rows
from skml.tree._presorted import PresortedData
from skml.utils._atomic import restores_on_error
from skml.utils._missing import effective_mask, fit_imputer, missing_rate
from skml.utils._tags import one_target_with_missing_cells
from skml.utils._weights import validated_weight

from ._bootstrap import Bootstrap

__all__ = ["FOREST_CONSTRAINTS", "BaseMAForest"]

FOREST_CONSTRAINTS = {
    **{name: options for name, options in TREE_CONSTRAINTS.items() if name != "splitter"},
    "n_estimators": [Interval(Integral, 1, None, closed="left")],
    "bootstrap": ["boolean"],
    "max_samples": [
        None,
        Interval(RealNotInt, 0.0, None, closed="neither"),
        Interval(Integral, 1, None, closed="left"),
    ],
    "oob_score": ["boolean", callable],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
    "warm_start": ["boolean"],
}
_TREE_PARAMS = (
    "criterion",
    "max_depth",
    "min_samples_split",
    "min_samples_leaf",
    "min_weight_fraction_leaf",
    "max_features",
    "max_leaf_nodes",
    "min_impurity_decrease",
    "ccp_alpha",
    "alpha",
    "penalty_scope",
    "alpha_scale",
    "stop_on_net_loss",
    "imputer",
    "missing_policy",
    "monotonic_cst",
)
# Below this number of rows a thread costs more than it spares.
_LEAST_ROWS_PER_JOB = 500


class BaseMAForest:
    """Growing, averaging and reliance of a forest.

    The classes stand on scikit-learn's own forests, so that whatever accepts a
    ``RandomForestClassifier`` (explainers, ``partial_dependence``) accepts them; growing,
    validation and prediction are replaced here. A subclass sets ``_tree_class`` and
    ``_numeric_target`` and encodes its target.
    """

    @property
    def estimator(self):
        """Unfitted tree with the parameters of the forest, the template of its members."""
        return self._tree_class(**{name: getattr(self, name) for name in _TREE_PARAMS})

    # ----- growing -------------------------------------------------------------------------

    @restores_on_error
    def _fit(self, X, y, sample_weight, missing_mask):
        refuse_unsupported(self.estimator)
        self._check_sampling()
        earlier = self._earlier_trees()
        # Trees that are kept must meet the columns that they were grown on.
        X, y = validated_training_data(
            self, X, y, numeric_target=self._numeric_target, reset=not earlier
        )
        mask = effective_mask(X, missing_mask)
        sample_weight = validated_weight(sample_weight, X)
        target, class_weight = self._encode_target(y, refit=not earlier)
        weight = total_weight(sample_weight, class_weight)

        self.n_outputs_ = 1
        self.estimator_ = self.estimator
        self.max_features_ = number_of_features(self.max_features, X.shape[1])
        self.feature_missing_rate_ = missing_rate(mask, X.shape[1], sample_weight)
        if not earlier:
            # A warm start keeps the imputer: all trees must read the same values.
            self.imputer_ = fit_imputer(self.imputer, X, mask, sample_weight, y)
        data = PresortedData.from_columns(
            float32_columns(X, mask, self.imputer_), mask, native=self.imputer_ is None
        )
        self._bootstrap = None
        if self.bootstrap:
            self._bootstrap = Bootstrap.from_weights(weight, len(X), self.max_samples)
        self._n_samples = len(X)
        new = self._grow_trees(len(earlier), data, target, weight, sample_weight)
        self.estimators_ = earlier + new

        columns = data.columns.T
        self._record_reliance(columns, mask, sample_weight)
        if self.oob_score:
            self._record_oob(columns, mask, y, sample_weight)
        return self

    def _check_sampling(self):
        if not self.bootstrap and self.max_samples is not None:
            raise ValueError(
                f"max_samples must be None with bootstrap=False, got {self.max_samples!r}: "
                "without a bootstrap every tree sees all rows"
            )
        if not self.bootstrap and self.oob_score:
            raise ValueError(
                f"oob_score must be False with bootstrap=False, got {self.oob_score!r}: "
                "no row is out of bag if every tree sees all rows"
            )

    def _earlier_trees(self):
        """Trees that a warm start keeps."""
        earlier = list(getattr(self, "estimators_", ())) if self.warm_start else []
        if len(earlier) > self.n_estimators:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be at least {len(earlier)}, the number of "
                "trees grown so far, when warm_start is True"
            )
        if earlier and len(earlier) == self.n_estimators:
            warnings.warn(
                "warm_start without a greater n_estimators grows no new tree", stacklevel=5
            )
        return earlier

    def _grow_trees(self, n_earlier, data, target, weight, sample_weight):
        # All seeds are drawn, so that the trees of a warm start are those of a single fit.
        generator = check_random_state(self.random_state)
        seeds = generator.randint(np.iinfo(np.int32).max, size=self.n_estimators)
        trees = [
            self._describe(self.estimator.set_params(random_state=int(seed)))
            for seed in seeds[n_earlier:]
        ]
        shared = (data, target, weight, sample_weight)
        shared += (self._bootstrap, self._balances_each_sample())
        # The core releases the GIL: threads share the data. A backend of processes works too.
        grown = Parallel(n_jobs=self.n_jobs, verbose=self.verbose, prefer="threads")(
            delayed(_grow_tree)(tree, *shared) for tree in trees
        )
        # Trees that come from another process carry copies of what they should share.
        return [self._describe(tree) for tree in grown]

    def _describe(self, tree):
        """Give a tree what makes it a fitted estimator beside its nodes; it shares the objects."""
        tree.imputer_ = self.imputer_
        tree.n_features_in_ = self.n_features_in_
        tree.feature_missing_rate_ = self.feature_missing_rate_
        if hasattr(self, "feature_names_in_"):
            tree.feature_names_in_ = self.feature_names_in_
        return tree

    def _balances_each_sample(self):
        """Whether class weights are computed anew for the sample of each tree."""
        return False

    def _record_reliance(self, X, mask, sample_weight):
        self.missingness_reliance_ = 0.0
        if mask is not None and self.missing_policy == "impute":
            rows = np.concatenate(self._by_rows(relied_rows, X, mask))
            self.missingness_reliance_ = float(np.average(rows, weights=sample_weight))

    def _record_oob(self, X, mask, y, sample_weight):
        """Prediction of each row by the trees whose sample it is not in, and its score."""
        total = np.zeros((len(X), self._n_values()))
        n_votes = np.zeros(len(X))
        stops = self.missing_policy == "stop" and mask is not None
        for tree in self.estimators_:
            rows = self._bootstrap.left_out(tree.random_state)
            (ends,) = end_nodes([tree.tree_], X[rows], mask[rows] if stops else None)
            total[rows] += tree.tree_.value[:, 0, :].take(ends, axis=0)
            n_votes[rows] += 1
        voted = n_votes > 0
        if not voted.all() and (sample_weight is None or (sample_weight[~voted] > 0).any()):
            warnings.warn(
                f"{np.sum(~voted)} rows are in the sample of every tree and have no out-of-bag "
                "prediction; a greater n_estimators leaves each row out more often",
                stacklevel=5,
            )
        average = np.full_like(total, np.nan)
        average[voted] = total[voted] / n_votes[voted, None]
        if not voted.any():
            self._set_oob(average, np.nan)
            return
        answer = self._answer(average[voted])
        if callable(self.oob_score):
            score = self.oob_score(y[voted], answer)
        else:
            weight = None if sample_weight is None else sample_weight[voted]
            score = self._score(y[voted], answer, weight)
        self._set_oob(average, score)

    # ----- averaging -----------------------------------------------------------------------

    def _trees(self):
        return [member.tree_ for member in self.estimators_]

    def _by_rows(self, function, X, mask):
        """Results of function(trees, X, mask) for consecutive parts of the rows, by threads.

        Every part goes through the trees in their order, so that the number of threads cannot
        change a sum.
        """
        n_jobs = min(effective_n_jobs(self.n_jobs), max(1, len(X) // _LEAST_ROWS_PER_JOB))
        trees = self._trees()
        parts = list(gen_even_slices(len(X), n_jobs))
        if len(parts) == 1:
            return [function(trees, X, mask)]
        return Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(function)(trees, X[part], None if mask is None else mask[part])
            for part in parts
        )

    def _rows_to_predict(self, X, missing_mask=None):
        """Imputed X, and the mask if it matters to where rows end."""
        stops = self.missing_policy == "stop"
        check_is_fitted(self)
        return imputed_and_mask(self, X, missing_mask, need_mask=stops)

    def _average(self, X, missing_mask=None):
        """Mean over the trees of the values in which each row ends: (n_samples, n_values)."""
        return np.concatenate(self._by_rows(_mean_value, *self._rows_to_predict(X, missing_mask)))

    def apply(self, X):
        """Return the node of each tree in which each row ends.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN are imputed by the fitted imputer.

        Returns
        -------
        nodes : ndarray of shape (n_samples, n_estimators), dtype int
            The leaf; under ``missing_policy="stop"`` the first node whose feature the row misses.
        """
        return np.concatenate(self._by_rows(_stacked_ends, *self._rows_to_predict(X)))

    def decision_path(self, X):
        """Return the nodes of all trees that each row visits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN are imputed by the fitted imputer.

        Returns
        -------
        indicator : sparse matrix of shape (n_samples, n_nodes)
            CSR matrix with a one where row i visits node k; the nodes of one tree follow those of
            the one before it. Under ``missing_policy="stop"`` a path ends where the row stops.
        n_nodes_ptr : ndarray of shape (n_estimators + 1,), dtype int
            Tree t has the columns ``n_nodes_ptr[t]`` to ``n_nodes_ptr[t + 1]``.
        """
        X, mask = self._rows_to_predict(X)
        ends = end_nodes(self._trees(), X, mask)
        paths = [ancestors(tree)[nodes] for tree, nodes in zip(self._trees(), ends, strict=True)]
        n_nodes_ptr = np.cumsum([0] + [path.shape[1] for path in paths])
        return sparse.hstack(paths).tocsr(), n_nodes_ptr

    def stopped_fraction(self, X, missing_mask=None):
        """Return for each tree the share of rows that stop above a leaf.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value (imputed beforehand).

        Returns
        -------
        fractions : ndarray of shape (n_estimators,)
            0 under ``missing_policy="impute"``.
        """
        X, mask = self._rows_to_predict(X, missing_mask)
        return np.array(
            [
                np.mean(tree.children_left[ends] != -1)
                for tree, ends in zip(self._trees(), end_nodes(self._trees(), X, mask), strict=True)
            ]
        )

    # ----- reliance ------------------------------------------------------------------------

    def missingness_reliance(self, X, missing_mask=None, reduce=False):
        """Return which missing values the prediction of each row reads, in any of the trees.

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
            Cell (i, j) is True if x_ij is missing and the path of row i in some tree tests
            feature j.
        """
        check_is_fitted(self)
        X, mask = imputed_and_mask(self, X, missing_mask, need_mask=True)
        if self.missing_policy == "stop":
            mask = None
        return np.concatenate(self._by_rows(relied_rows if reduce else relied_cells, X, mask))

    # ----- what scikit-learn's forests have besides ----------------------------------------

    @property
    def feature_importances_(self):
        """Share of each feature in the decrease of the impurity, the penalty left out.

        The mean over the trees that have a split; zeros if none has.
        """
        check_is_fitted(self)
        shares = [tree.compute_feature_importances() for tree in self._trees()]
        mean = np.mean(shares, axis=0)
        return mean / mean.sum() if mean.sum() > 0 else mean

    @property
    def estimators_samples_(self):
        """Rows of the sample of each tree, drawn again from its seed on each access."""
        check_is_fitted(self)
        if self._bootstrap is None:
            return [np.arange(self._n_samples) for _ in self.estimators_]
        return [self._bootstrap.draw(tree.random_state) for tree in self.estimators_]

    def __sklearn_tags__(self):
        return one_target_with_missing_cells(super().__sklearn_tags__())


def _grow_tree(tree, data, target, weight, sample_weight, bootstrap, balance):
    """Grow one member on its bootstrap sample, given as weights of the shared rows."""
    if bootstrap is None:
        return tree._grow(data, target, weight, sample_weight)
    counts = bootstrap.counts(tree.random_state)
    weight = counts
    if balance:
        in_class = np.bincount(target.codes, weights=counts, minlength=target.n_classes)
        drawn = in_class > 0
        class_weight = np.zeros(target.n_classes)
        class_weight[drawn] = counts.sum() / (drawn.sum() * in_class[drawn])
        weight = counts * class_weight[target.codes]
    return tree._grow(data, target, weight, counts)


def _mean_value(trees, X, mask):
    total = np.zeros((len(X), trees[0].value.shape[2]))
    for tree, ends in zip(trees, end_nodes(trees, X, mask), strict=True):
        total += tree.value[:, 0, :].take(ends, axis=0)
    return total / len(trees)


def _stacked_ends(trees, X, mask):
    return np.column_stack(list(end_nodes(trees, X, mask)))
