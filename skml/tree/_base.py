"""What the missingness-avoiding tree classifier and regressor have in common."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.tree._tree import ccp_pruning_path
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from skml.tree import _reliance
from skml.tree._export import RelianceExport
from skml.tree._growing import as_sklearn_tree, grow_tree
from skml.tree._parameters import (
    absolute_settings,
    number_of_features,
    refuse_unsupported,
    root_impurity,
)
from skml.tree._presorted import PresortedData
from skml.utils._atomic import restores_on_error
from skml.utils._missing import (
    ColumnImputer,
    check_missing_mask,
    effective_mask,
    fit_imputer,
    impute,
    missing_rate,
    pack_mask,
)

__all__ = ["BaseMATree", "Target"]


@dataclass
class Target:
    """The target in the form that the core takes: values, or class numbers."""

    y: np.ndarray | None = None
    codes: np.ndarray | None = None
    n_classes: int = 1


class BaseMATree(RelianceExport):
    """Fitting, routing and reliance of a single tree.

    The classes stand on scikit-learn's own tree classes, so that whatever accepts a
    ``DecisionTreeClassifier`` (``export_text``, ``plot_tree``, explainers) accepts them; growing,
    validation and prediction are replaced here.
    """

    @restores_on_error
    def _fit(self, X, y, sample_weight, missing_mask):
        refuse_unsupported(self)
        X, y = self._validate_training_data(X, y)
        n_samples, n_features = X.shape
        mask = effective_mask(X, missing_mask)
        sample_weight = _validated_weights(sample_weight, X)
        target, class_weight = self._encode_target(y)
        weight = _total_weight(sample_weight, class_weight)

        self.n_outputs_ = 1
        self.max_features_ = number_of_features(self.max_features, n_features)
        self.feature_missing_rate_ = missing_rate(mask, n_features, sample_weight)
        self.imputer_ = fit_imputer(self.imputer, X, mask, sample_weight, y)
        data = PresortedData.from_columns(
            _float32_columns(X, mask, self.imputer_), mask, native=self.imputer == "native"
        )
        settings = absolute_settings(
            self,
            n_samples=n_samples,
            total_weight=n_samples if weight is None else weight.sum(),
            impurity=root_impurity(
                self.criterion, y=target.y, codes=target.codes, sample_weight=weight
            ),
        )
        self._check_size(settings)
        grown = grow_tree(
            data,
            settings,
            y=target.y,
            codes=target.codes,
            n_classes=target.n_classes,
            sample_weight=weight,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            overwrite_order=True,
        )
        values = self._node_values(grown, target, weight)
        self.tree_ = as_sklearn_tree(grown, values, n_features)
        self._prune_tree()
        leaf = grown.leaf
        if self.ccp_alpha > 0 or leaf.min() < 0:
            # Pruning renumbers the nodes; rows of weight 0 did not take part in the growing.
            leaf = self.tree_.apply(data.columns.T)
        self._record_reliance(leaf, data, sample_weight)
        return self

    def _validate_training_data(self, X, y):
        shape = np.shape(y) if hasattr(y, "shape") or isinstance(y, list | tuple) else ()
        if len(shape) == 2 and shape[1] > 1:
            raise ValueError(
                f"y must have one output, got shape {shape}: multi-output is not supported, fit "
                "one tree per output (sklearn.multioutput)"
            )
        return validate_data(
            self,
            X,
            y,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            y_numeric=self._numeric_target,
        )

    def _record_reliance(self, leaf, data, sample_weight):
        n_nodes = self.tree_.node_count
        self.node_missingness_reliance_ = np.zeros(n_nodes)
        self.missingness_reliance_ = 0.0
        if not len(data.mask) or self.missing_policy == "stop":
            return
        if sample_weight is None:
            sample_weight = np.ones(data.n_samples)
        parent, feature = _links(self.tree_)
        relied, total = _reliance.reliance_mass(
            np.asarray(leaf, dtype=np.int64),
            parent,
            feature,
            data.mask,
            data.mask_row,
            sample_weight,
        )
        np.divide(relied, total, out=self.node_missingness_reliance_, where=total > 0)
        leaves = feature < 0
        self.missingness_reliance_ = float(relied[leaves].sum() / total[leaves].sum())

    # ----- routing -------------------------------------------------------------------------

    def _validate_X_predict(self, X, check_input=True):
        """Validated float32 X whose NaN are imputed (left to the tree under "native")."""
        return self._imputed_and_mask(X, check_input=check_input)[0]

    def _imputed_and_mask(self, X, missing_mask=None, *, check_input=True, need_mask=False):
        check_is_fitted(self)
        built_in = self.imputer_ is None or isinstance(self.imputer_, ColumnImputer)
        if check_input:
            X = validate_data(
                self,
                X,
                reset=False,
                # The built-in statistics are kept in float64; a cast before filling gives the
                # same float32 values as a cast afterwards and saves a copy.
                dtype=np.float32 if built_in else np.float64,
                ensure_all_finite="allow-nan",
            )
        mask = None
        if need_mask:
            mask = effective_mask(X, missing_mask)
        elif missing_mask is not None:
            check_missing_mask(missing_mask, X)
        X = impute(self.imputer_, X)
        if not built_in:
            X = _as_float32(X)
        return X, mask

    def _end_nodes(self, X, missing_mask=None, *, check_input=True):
        """Node whose value is the prediction: a leaf, or where a row stops."""
        stops = self.missing_policy == "stop"
        X, mask = self._imputed_and_mask(X, missing_mask, check_input=check_input, need_mask=stops)
        ends = self.tree_.apply(X)
        if stops and mask is not None:
            packed, mask_row = pack_mask(mask, X.shape[1], X.shape[0])
            ends = _reliance.stopping_nodes(
                ends.astype(np.int64), *_links(self.tree_), packed, mask_row
            )
        return ends

    def apply(self, X, check_input=True):
        """Return the node in which each row ends.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN are imputed by the fitted imputer.
        check_input : bool, default=True
            False skips the validation of X, which must then be a float32 array.

        Returns
        -------
        nodes : ndarray of shape (n_samples,)
            The leaf; under ``missing_policy="stop"`` the first node whose feature the row misses.
        """
        return self._end_nodes(X, check_input=check_input)

    def decision_path(self, X, check_input=True):
        """Return the nodes that each row visits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN are imputed by the fitted imputer.
        check_input : bool, default=True
            False skips the validation of X, which must then be a float32 array.

        Returns
        -------
        indicator : sparse matrix of shape (n_samples, n_nodes)
            CSR matrix with a one where row i visits node k. Under ``missing_policy="stop"`` the
            path ends where the row stops.
        """
        check_is_fitted(self)
        if self.missing_policy == "stop":
            return _ancestors(self.tree_)[self._end_nodes(X, check_input=check_input)]
        return self.tree_.decision_path(self._validate_X_predict(X, check_input))

    def stopped_fraction(self, X, missing_mask=None):
        """Return the share of rows that stop above a leaf because they miss its feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Further cells that count as missing.

        Returns
        -------
        fraction : float
            0 under ``missing_policy="impute"``.
        """
        check_is_fitted(self)
        ends = self._end_nodes(X, missing_mask)
        return float(np.mean(self.tree_.children_left[ends] != -1))

    # ----- reliance ------------------------------------------------------------------------

    def missingness_reliance(self, X, missing_mask=None, reduce=False):
        """Return which missing values the prediction of each row reads.

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
        relied : bool ndarray of shape (n_samples, n_features), or (n_samples,) if `reduce`
            Cell (i, j) is True if x_ij is missing and the path of row i tests feature j.
        """
        check_is_fitted(self)
        X, mask = self._imputed_and_mask(X, missing_mask, need_mask=True)
        n_samples, n_features = X.shape
        cells = np.zeros((n_samples, n_features), dtype=bool)
        if mask is None or self.missing_policy == "stop":
            return cells.any(axis=1) if reduce else cells
        packed, mask_row = pack_mask(mask, n_features, n_samples)
        leaf = self.tree_.apply(X).astype(np.int64)
        if reduce:
            return _reliance.relied_rows(leaf, *_links(self.tree_), packed, mask_row)
        relied = np.zeros_like(packed)
        _reliance.mark_relied_cells(leaf, *_links(self.tree_), packed, mask_row, relied)
        cells[:, mask_row >= 0] = relied.T
        return cells

    # ----- pruning -------------------------------------------------------------------------

    def cost_complexity_pruning_path(self, X, y, sample_weight=None, *, missing_mask=None):
        """Compute the pruning path of minimal cost-complexity pruning, by the plain impurity.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        y : array-like of shape (n_samples,)
            Target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value.

        Returns
        -------
        ccp_path : Bunch
            ``ccp_alphas`` and ``impurities``, one entry per subtree, as in scikit-learn.
        """
        tree = clone(self).set_params(ccp_alpha=0.0)
        tree.fit(X, y, sample_weight, missing_mask=missing_mask)
        return Bunch(**ccp_pruning_path(tree.tree_))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = False
        tags.target_tags.single_output = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        return tags


def _validated_weights(sample_weight, X):
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if weight.min() < 0:
        raise ValueError(
            f"Negative values in data passed to `sample_weight`: weights must be >= 0, "
            f"got {weight.min()}"
        )
    if not weight.sum() > 0:
        raise ValueError("sample_weight must have a positive sum, got only zeros")
    return weight


def _total_weight(sample_weight, class_weight):
    if class_weight is None:
        return sample_weight
    weight = class_weight if sample_weight is None else sample_weight * class_weight
    if weight.min() < 0 or not weight.sum() > 0:
        raise ValueError(
            "class_weight times sample_weight must be >= 0 with a positive sum, "
            f"got a minimum of {weight.min()} and a sum of {weight.sum()}"
        )
    return weight


def _float32_columns(X, mask, imputer):
    """Imputed X as float32, one column after the other: (n_features, n_samples)."""
    if imputer is not None and not isinstance(imputer, ColumnImputer):
        X, mask = impute(imputer, X), None
    columns = np.empty(X.shape[::-1], dtype=np.float32)
    step = 1024
    with np.errstate(over="ignore"):
        for start in range(0, len(X), step):
            columns[:, start : start + step] = X[start : start + step].T
    if mask is not None and imputer is not None:
        for j in np.flatnonzero(mask.any(axis=0)):
            column = columns[j]
            column[np.isnan(column)] = imputer.statistics_[j]
    _refuse_infinite(columns)
    return columns


def _as_float32(X):
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    _refuse_infinite(X)
    return X


def _refuse_infinite(X):
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    if np.isinf(X).any():
        raise ValueError("Input X contains infinity or a value too large for dtype('float32').")


def _links(tree):
    """Parent (-1 for the root) and feature (-2 for a leaf) of every node, as int64."""
    parent = np.full(tree.node_count, -1, dtype=np.int64)
    inner = np.flatnonzero(tree.children_left != -1)
    parent[tree.children_left[inner]] = inner
    parent[tree.children_right[inner]] = inner
    return parent, tree.feature.astype(np.int64)


def _ancestors(tree):
    """CSR matrix (n_nodes, n_nodes): row k has ones at the nodes from the root to k."""
    parent, _ = _links(tree)
    paths = []
    for node in range(tree.node_count):
        path = [node]
        while parent[path[-1]] >= 0:
            path.append(parent[path[-1]])
        paths.append(path[::-1])
    indptr = np.concatenate([[0], np.cumsum([len(path) for path in paths])])
    indices = np.concatenate(paths)
    shape = (tree.node_count, tree.node_count)
    return sparse.csr_matrix((np.ones(len(indices), dtype=np.intp), indices, indptr), shape=shape)
