"""Regression of tensors on tensors that commutes with a group."""

import numpy as np
import torch
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils.validation import check_is_fitted, validate_data

from skml.utils import restores_on_error

from ._base import BaseEquivariantNetwork


class QuantumGroupEquivariantRegressor(RegressorMixin, BaseEquivariantNetwork):
    r"""Regressor that is equivariant under a group or compact matrix quantum group.

    X holds sets, graphs, relations or covariances as tensors over n points; y holds numbers or
    tensors. Whatever the weights, an element of the group applied to X comes out applied to the
    prediction. So few weights and few samples do.

    Read more in the :ref:`User Guide <quantum_group_equivariance>`.

    Parameters
    ----------
    group : str, default="S"
        Name of the group: "S" (permutations), "O" (rotations and reflections), "H" (signed
        permutations), "B" (orthogonal, rows sum to one), their free quantum versions "S+", "O+",
        "H+", "B+"; "S'", "S'+", "B'", "B'+", "B#+"; "O*", "H*".

    order_in : int, default=1
        Order k of the input tensors: 1 for vectors, 2 for matrices.

    order_out : int, default=0
        Order l of the output tensors: 0 for numbers.

    n_channels_in : int, default=1
        Number c of channels. X has c * n**k columns, channel by channel, each in C order.

    hidden_layer_sizes : sequence, default=(32,)
        For each hidden layer a list of pairs (order, channels), or an int: so many channels of
        order 0 and of `order_in` (with "matmul": of order 2 in place of `order_in`). Orders of an
        int that nothing leads to, or that lead to nothing, are left out. An empty sequence gives
        a linear model in the tensor powers of the input, which is solved in closed form.

    input_power : int or "auto", default="auto"
        The first layer sees x, x ⊗ x, ... up to this power. "auto" takes 1, or 2 if there is no
        map from order k to order l otherwise.

    nonlinearity : {"auto", "gated", "pointwise", "matmul", "identity"}, default="auto"
        What is done between layers. "gated" multiplies a tensor by the sigmoid of a learnt
        number and is equivariant under all groups. "pointwise" applies a function to each entry,
        under "S" and for vectors under "S+" any (SiLU), elsewhere an odd one (tanh) or none.
        "matmul" multiplies tensors of order 2. "auto" is pointwise on vectors where it may be,
        matmul on order 2, gated otherwise. Numbers (order 0) go through SiLU, except under
        "identity". What is not equivariant is refused.

    method : {"auto", "dense", "factorized"}, default="auto"
        How layers multiply, as in :class:`EquivariantLinear`; it changes nothing but time.

    alpha : float, default=1e-4
        Strength of the L2 penalty on the weights, as in `Ridge` and `MLPRegressor`.

    learning_rate : float, default=1e-3
        Learning rate of Adam.

    max_epochs : int, default=200
        Largest number of passes over the rows.

    batch_size : int or "auto", default="auto"
        Rows in a step; "auto": 200, or all if there are fewer.

    tol : float, default=1e-4
        Least improvement of the training loss that counts.

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
    module_ : EquivariantNetwork
        The network, which works on scaled tensors.

    n_ : int
        Dimension n of the base space.

    n_parameters_ : int
        Number of trainable numbers.

    partitions_ : list of dict
        For each layer, from pairs (order in, order out) to the partitions of its maps.

    input_offset_ : ndarray of shape (n_channels_in, n**order_in)
        Invariant part of the mean of X, which is subtracted; zeros for a linear model.

    input_scale_ : ndarray of shape (n_channels_in,)
        Root mean square of the rest of X, by which it is divided; ones for a linear model.

    output_offset_ : ndarray of shape (n_channels_out, n**order_out)
        Invariant part of the mean of y; zeros for a linear model.

    output_scale_ : ndarray of shape (n_channels_out,)
        Root mean square of the rest of y; ones for a linear model.

    loss_curve_ : list of float
        Loss of each epoch: half the mean squared error, in units of the scaled y.

    n_iter_ : int
        Number of epochs.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    Raises
    ------
    ValueError
        If the widths of X and y are no powers of one n, if there is no equivariant map from X to
        y, a non-linearity is not equivariant, or an order is so high that the diagrams are too
        many.

    See Also
    --------
    QuantumGroupEquivariantClassifier : For classes.
    EquivariantPolynomialFeatures : Polynomials for a linear model.
    EquivariantScaler : Standardises without breaking the symmetry.

    Notes
    -----
    Each linear layer is :math:`\sum_\pi W_\pi T_\pi` over the partitions :math:`\pi` of the group,
    as in :class:`EquivariantLinear`; this is the paper's method. The paper has no non-linear
    layers: those are ours, and they are equivariant for rows of numbers. For a free quantum group
    the linear layers, matmul, and functions of each entry of a vector are so in the full,
    non-commutative sense.

    The group acts on the *indices of the tensors*, all of them at once. A scaler with one scale
    per column breaks the symmetry.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    The variance of five numbers does not depend on their order, and is a linear function of the
    tensor square of the vector:

    >>> import numpy as np
    >>> from skml.equivariant import QuantumGroupEquivariantRegressor
    >>> X = np.random.default_rng(0).normal(size=(40, 5))
    >>> model = QuantumGroupEquivariantRegressor(
    ...     "S", input_power=2, hidden_layer_sizes=(), alpha=1e-9
    ... ).fit(X, X.var(axis=1))
    >>> round(model.predict([[1.0, 1.0, 3.0, 5.0, 5.0]])[0], 6), model.n_parameters_
    (np.float64(3.2), 4)
    """

    _has_closed_form = True

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def fit(self, X, y, sample_weight=None):
        """Find the weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_channels_in * n**order_in)
            Tensors.
        y : array-like of shape (n_samples,) or (n_samples, n_channels_out * n**order_out)
            Target values: numbers or tensors, channel by channel.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, at least 0.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True
        )
        y = np.asarray(y).astype(X.dtype, copy=False)
        weight, n = self._weight_and_dimension(X, sample_weight)
        self._is_flat = y.ndim == 1
        y = y.reshape(len(y), -1)
        size = n**self.order_out
        if y.shape[1] % size:
            raise ValueError(
                f"y has {y.shape[1]} columns; with order_out={self.order_out} and n={n} it must "
                f"have a multiple of n**order_out = {size}."
            )
        target = y.reshape(len(y), -1, size)
        channels = target.shape[1]
        self.output_offset_, self.output_scale_ = self._location_scale(
            target, self.order_out, n, weight
        )
        target = (target - self.output_offset_) / self.output_scale_[:, None]
        target = torch.from_numpy(target).reshape(len(y), channels, *[n] * int(self.order_out))
        self._train(X, target, weight, n, channels)
        return self

    def predict(self, X):
        """Predict numbers or tensors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_channels_in * n**order_in)
            Tensors.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_channels_out * n**order_out)
            As y in `fit`.
        """
        check_is_fitted(self)
        outputs = self._outputs(X) * self.output_scale_[:, None] + self.output_offset_
        return outputs.ravel() if self._is_flat else outputs.reshape(len(outputs), -1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        # The targets of the generic checks are not invariant under the group.
        tags.regressor_tags.poor_score = True
        return tags

    def _loss(self, outputs, target):
        return (outputs - target).square().flatten(1).mean(dim=1) / 2

    def _equivariant_map(self):
        shape = self._architecture
        return (
            lambda X: self.predict(X).reshape(len(X), -1),
            self.n_,
            shape["order_in"],
            shape["order_out"],
        )
