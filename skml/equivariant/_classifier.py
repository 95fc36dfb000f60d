"""Classification of tensors by probabilities that are invariant under a group."""

import numpy as np
import torch
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Options
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch.nn import functional

from skml.utils import restores_on_error

from ._base import BaseEquivariantNetwork


class QuantumGroupEquivariantClassifier(ClassifierMixin, BaseEquivariantNetwork):
    r"""Classifier that is invariant under a group or compact matrix quantum group.

    Read more in the :ref:`User Guide <quantum_group_equivariance>`.

    Parameters
    ----------
    group : str, default="S"
        Name of the group, as in :class:`QuantumGroupEquivariantRegressor`.

    order_in : int, default=1
        Order k of the input tensors: 1 for vectors, 2 for matrices.

    order_out : int, default=0
        Classes are numbers that the group does not move, so this must be 0.

    n_channels_in : int, default=1
        Number c of channels. X has c * n**k columns, channel by channel, each in C order.

    hidden_layer_sizes : sequence, default=(32,)
        As in :class:`QuantumGroupEquivariantRegressor`. An empty sequence gives a logistic
        regression on the invariants of the input, fitted by L-BFGS.

    input_power : int or "auto", default="auto"
        The first layer sees x, x ⊗ x, ... up to this power. "auto" takes 1, or 2 if the input has
        no invariants otherwise.

    nonlinearity : {"auto", "gated", "pointwise", "matmul", "identity"}, default="auto"
        What is done between layers, as in :class:`QuantumGroupEquivariantRegressor`.

    method : {"auto", "dense", "factorized"}, default="auto"
        How layers multiply, as in :class:`EquivariantLinear`; it changes nothing but time.

    alpha : float, default=1e-4
        Strength of the L2 penalty on the weights, as in `MLPClassifier`.

    learning_rate : float, default=1e-3
        Learning rate of Adam.

    max_epochs : int, default=200
        Largest number of passes over the rows; without hidden layers, of iterations of L-BFGS.

    batch_size : int or "auto", default="auto"
        Rows in a step; "auto": 200, or all if there are fewer.

    tol : float, default=1e-4
        Least improvement of the training loss that counts; a thousandth of it is the gradient at
        which L-BFGS stops.

    n_iter_no_change : int or None, default=10
        Stop after so many epochs without improvement by `tol`; None: never.

    device : str, default="cpu"
        Where to train: "cpu", "auto" or a torch device string.

    random_state : int, RandomState instance or None, default=None
        Source of the initial weights and of the batches.

    verbose : int, default=0
        0 is silent, 1 shows the progress.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.

    module_ : EquivariantNetwork
        The network, which works on scaled tensors and has a channel for each class.

    n_ : int
        Dimension n of the base space.

    n_parameters_ : int
        Number of trainable numbers.

    partitions_ : list of dict
        For each layer, from pairs (order in, order out) to the partitions of its maps.

    input_offset_ : ndarray of shape (n_channels_in, n**order_in)
        Invariant part of the mean of X, which is subtracted; zeros without hidden layers.

    input_scale_ : ndarray of shape (n_channels_in,)
        Root mean square of the rest of X, by which it is divided; ones without hidden layers.

    loss_curve_ : list of float
        Loss of each epoch (without hidden layers, of each evaluation): the cross-entropy, in nats.

    n_iter_ : int
        Number of epochs; without hidden layers, of iterations of L-BFGS.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    Raises
    ------
    ValueError
        If the width of X is no power of an n, if the input has no invariants, or a non-linearity
        is not equivariant, or an order is so high that the diagrams are too many.

    See Also
    --------
    QuantumGroupEquivariantRegressor : For numbers and tensors.

    Notes
    -----
    The class probabilities are the softmax of the network's outputs, which are invariant.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    >>> import numpy as np
    >>> from skml.equivariant import QuantumGroupEquivariantClassifier
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> y = np.where(X.var(axis=1) > 0.8, "wide", "narrow")
    >>> model = QuantumGroupEquivariantClassifier("S", input_power=2, hidden_layer_sizes=())
    >>> model.fit(X, y).score(X, y) > 0.95
    True
    """

    _has_closed_form = False
    _parameter_constraints: dict = {
        **BaseEquivariantNetwork._parameter_constraints,
        "order_out": [Options(int, {0})],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def fit(self, X, y, sample_weight=None):
        """Find the weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_channels_in * n**order_in)
            Tensors.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        weight, n = self._weight_and_dimension(X, sample_weight)
        self.classes_, codes = np.unique(y, return_inverse=True)
        target = torch.from_numpy(codes.astype(np.int64))
        self._train(X, target, weight, n, len(self.classes_))
        return self

    def predict(self, X):
        """Predict the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_channels_in * n**order_in)
            Tensors.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes.
        """
        check_is_fitted(self)
        return self.classes_[self._outputs(X)[:, :, 0].argmax(axis=1)]

    def predict_proba(self, X):
        """Predict the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_channels_in * n**order_in)
            Tensors.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_channels_in * n**order_in)
            Tensors.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Log-probabilities, in the order of `classes_`.
        """
        outputs = torch.from_numpy(self._outputs(X)[:, :, 0])
        return functional.log_softmax(outputs, dim=1).numpy()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The targets of the generic checks are not invariant under the group.
        tags.classifier_tags.poor_score = True
        return tags

    def _loss(self, outputs, target):
        return functional.cross_entropy(outputs, target, reduction="none")

    def _equivariant_map(self):
        return self.predict_log_proba, self.n_, self._architecture["order_in"], 0
