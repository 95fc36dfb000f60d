"""What the missingness-avoiding tree classifier and regressor have in common."""

import numpy as np
from sklearn.base import clone
from sklearn.tree._tree import ccp_pruning_path
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import check_is_fitted

from skml.utils._atomic import restores_on_error
from skml.utils._missing import effective_mask, fit_imputer, missing_rate
from skml.utils._tags import one_target_with_missing_cells
from skml.utils._weights import validated_weight

from . import _reliance
from ._export import RelianceExport
from ._growing import as_sklearn_tree, grow_tree
from ._input import (
    float32_columns,
    imputed_and_mask,
    total_weight,
    validated_training_data,
)
from ._parameters import (
    absolute_settings,
    number_of_features,
    refuse_unsupported,
    root_impurity,
)
from ._paths import ancestors, end_nodes, links, relied_cells, relied_rows
from ._presorted import PresortedData

__all__ = ["BaseMATree"]


class BaseMATree(RelianceExport):
    """Fitting, routing and reliance of a single tree.

    The classes stand on scikit-learn's own tree classes, so that whatever accepts a
    ``DecisionTreeClassifier`` (``export_text``, ``plot_tree``, explainers) accepts them; growing,
    validation and prediction are replaced here.
    """

    @property
    def feature_importances_(self):
        """Share of each feature in the decrease of the impurity, without the penalty."""
        return super().feature_importances_

    @restores_on_error
    def _fit(self, X, y, sample_weight, missing_mask):
        refuse_unsupported(self)
        X, y = validated_training_data(self, X, y, numeric_target=self._numeric_target)
        n_features = X.shape[1]
        mask = effective_mask(X, missing_mask)
        sample_weight = validated_weight(sample_weight, X)
        target, class_weight = self._encode_target(y)
        weight = total_weight(sample_weight, class_weight)

        self.feature_missing_rate_ = missing_rate(mask, n_features, sample_weight)
        self.imputer_ = fit_imputer(self.imputer, X, mask, sample_weight, y)
        data = PresortedData.from_columns(
            float32_columns(X, mask, self.imputer_), mask, native=self.imputer == "native"
        )
        return self._grow(data, target, weight, sample_weight, overwrite_order=True)

    def _grow(self, data, target, weight, reliance_weight, *, overwrite_order=False):
        """Grow the tree on presorted data, a single one or a member of an ensemble.

        Parameters
        ----------
        data : PresortedData
        target : Target
        weight : float64 ndarray of shape (n_samples,) or None
            Weights of the impurity and the penalty; rows of weight 0 take no part.
        reliance_weight : float64 ndarray of shape (n_samples,) or None
            Weights of the reliance of the training rows; None stands for ones.
        overwrite_order : bool
            Whether no other tree needs ``data.order``.
        """
        self.n_outputs_ = 1
        self.max_features_ = number_of_features(self.max_features, data.n_features)
        settings = absolute_settings(
            self,
            n_samples=data.n_samples,
            total_weight=data.n_samples if weight is None else weight.sum(),
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
            overwrite_order=overwrite_order,
        )
        values = self._node_values(grown, target, weight)
        self.tree_ = as_sklearn_tree(grown, values, data.n_features)
        self._prune_tree()
        self._record_reliance(grown.leaf, data, reliance_weight)
        return self

    def _record_reliance(self, leaf, data, weight):
        n_nodes = self.tree_.node_count
        self.node_missingness_reliance_ = np.zeros(n_nodes)
        self.missingness_reliance_ = 0.0
        if not len(data.mask) or self.missing_policy == "stop":
            return
        if weight is None:
            weight = np.ones(data.n_samples)
        if self.ccp_alpha > 0 or (weight[leaf < 0] > 0).any():
            # Pruning renumbers the nodes; rows whose class has weight 0 were not grown on.
            leaf = self.tree_.apply(data.columns.T)
        parent, feature = links(self.tree_)
        relied, total = _reliance.reliance_mass(
            np.asarray(leaf, dtype=np.int64), parent, feature, data.mask, data.mask_row, weight
        )
        np.divide(relied, total, out=self.node_missingness_reliance_, where=total > 0)
        leaves = feature < 0
        self.missingness_reliance_ = float(relied[leaves].sum() / total[leaves].sum())

    # ----- routing -------------------------------------------------------------------------

    def _end_nodes(self, X, missing_mask=None, *, check_input=True):
        """Node whose value is the prediction: a leaf, or where a row stops."""
        stops = self.missing_policy == "stop"
        X, mask = imputed_and_mask(self, X, missing_mask, check_input=check_input, need_mask=stops)
        (ends,) = end_nodes([self.tree_], X, mask)
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
        # `Tree.decision_path` takes NaN the wrong way before scikit-learn 1.7.
        return ancestors(self.tree_)[self._end_nodes(X, check_input=check_input)]

    def stopped_fraction(self, X, missing_mask=None):
        """Return the share of rows that stop above a leaf because they miss its feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value (imputed beforehand).

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
        relied : ndarray of shape (n_samples, n_features), or (n_samples,) if `reduce`, dtype bool
            Cell (i, j) is True if x_ij is missing and the path of row i tests feature j.
        """
        check_is_fitted(self)
        X, mask = imputed_and_mask(self, X, missing_mask, need_mask=True)
        if self.missing_policy == "stop":
            mask = None
        find = relied_rows if reduce else relied_cells
        return find([self.tree_], X, mask)

    # ----- pruning -------------------------------------------------------------------------

    def cost_complexity_pruning_path(self, X, y, sample_weight=None, *, missing_mask=None):
        """Compute the pruning path of minimal cost-complexity pruning, by the plain impurity.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with NaN for what was not observed.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        missing_mask : array-like of shape (n_samples, n_features), default=None
            Cells that count as missing although X holds a value.

        Returns
        -------
        ccp_path : :class:`~sklearn.utils.Bunch`
            ``ccp_alphas`` and ``impurities``, one entry per subtree, as in scikit-learn.
        """
        tree = clone(self).set_params(ccp_alpha=0.0)
        tree.fit(X, y, sample_weight, missing_mask=missing_mask)
        return Bunch(**ccp_pruning_path(tree.tree_))

    def __sklearn_tags__(self):
        return one_target_with_missing_cells(super().__sklearn_tags__())
