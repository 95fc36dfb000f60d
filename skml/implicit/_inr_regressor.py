"""Networks from coordinates to values as a regressor."""

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from skml.utils import restores_on_error
from skml.utils._torch import TorchStateMixin

from ._empirical_ntk import empirical_ntk
from ._evaluation import derivative, evaluate
from ._grouping import GROUPINGS, group_points
from ._images import ImageMixin
from ._network_training import build_network, decibels, train_network
from ._networks import ARCHITECTURES
from ._settings import check_settings, warn_few_balanced
from ._signal_scaling import coordinate_map, coordinate_spans, map_coordinates, target_map

_POSITIVE = Interval(Integral, 1, None, closed="left")
# Beyond these, products of a few factors, gradients or octaves leave the range of float32.
_FREQUENCY_FACTOR = Interval(Real, 1e-9, 1e9, closed="both")
_MAX_FREQUENCIES = 126


class INRRegressor(ImageMixin, TorchStateMixin, RegressorMixin, BaseEstimator):
    """Implicit neural representation: a network from coordinates to values, with fine detail.

    One network is fitted to one signal: an image, a volume, a shape, a field of sensors, a sound.
    Trained as usual such a network learns the coarse first and the fine last. Inductive gradient
    adjustment (IGA) multiplies the residuals by a small matrix made from the network's empirical
    neural tangent kernel, so that strong and weak directions are learnt at one rate. Only
    training differs: the fitted model is a plain multilayer perceptron.

    Parameters
    ----------
    architecture : {"siren", "relu", "relu_pe", "finer"}, default="siren"
        The network: sines, ReLU, ReLU on a positional encoding, or sines of variable period.
    hidden_width : int, default=256
        Width of the hidden layers.
    n_hidden_layers : int, default=2
        Number of hidden layers between the first and the output layer.
    n_frequencies : int or "auto", default="auto"
        Octaves L of the positional encoding, at most 126. "auto": floor(log2(side / 2)), at
        least 1, with side = n_samples ** (1 / n_features), the length of a grid's side.
    first_omega_0, hidden_omega_0 : float, default=30.0
        Frequency factors of the first and of the hidden layers of sine networks, from 1e-9 to
        1e9.
    first_bias_range : float or None, default=None
        The biases of the first layer start uniformly in plus or minus this; None: as in
        `torch.nn.Linear`.
    training : {"iga", "standard", "fr", "bn"}, default="iga"
        Inductive gradient adjustment; the plain gradient; the plain gradient with hidden weights
        that are learnt in a Fourier basis; the plain gradient with batch normalisation. The
        last two are merged into plain weights after training.
    n_balanced : int, default=20
        Index of the first eigenvalue that is left alone: those from `balance_start` to before it
        are balanced. More brings out finer detail and slows the coarse. 0: none, which is
        "standard".
    balance_start : int, default=0
        Index of the first eigenvalue that is balanced; 0 is the largest.
    balance_reference : {"auto", "end", "start"}, default="auto"
        What the balanced eigenvalues become: the first one left alone ("end") or the largest of
        them ("start"). "auto": "end" for Adam, "start" for gradient descent.
    group_size : int or "auto", default="auto"
        Points p in a group. The kernel is that of one point in each group. "auto": about 256
        groups.
    grouping : {"auto", "grid", "kdtree", "order", "given"}, default="auto"
        "grid": patches of a full grid of any dimension (intervals in one dimension); "kdtree":
        median splits; "order": consecutive rows; "given": by `point_groups` of `fit`; "auto":
        "given" if there are such labels, "grid" where the points are one, else "kdtree".
    sampling : {"max_residual", "centre"}, default="max_residual"
        Which point stands for its group: the one with the largest residual, or the middle one.
    update_interval : int, default=10
        Steps between new matrices. In batches of groups every step makes its own.
    optimizer : {"adam", "sgd"}, default="adam"
        Adam, or plain gradient descent.
    learning_rate : float or "auto", default="auto"
        Learning rate. "auto": 5e-3 for ReLU networks, 1e-3 for sines and for a `module`.
    lr_decay_at : int, "exponential" or None, default=None
        Step after which the learning rate is multiplied by `lr_decay`, once; "exponential": it
        falls to that factor evenly over all steps; None: it stays.
    lr_decay : float, default=0.1
        Factor of the learning rate.
    max_iter : int, default=1000
        Largest number of optimiser steps.
    batch_groups : int or None, default=None
        Groups in a step, drawn at random; None: all. For signals of more than some hundred
        thousand points.
    scale_target : bool, default=True
        Whether y is mapped to [0, 1] by its minimum and maximum over all channels. Peak
        signal-to-noise ratios refer to a range of one after that.
    tol : float, default=0.0
        Least improvement of the loss that counts.
    n_iter_no_change : int or None, default=None
        Stop after so many steps without improvement by `tol`; None: never.
    fr_params : dict or None, default=None
        For training="fr": ``n_low`` and ``n_high`` frequencies (128 each), ``n_phases`` (32) and
        scale ``alpha`` (0.01) of the Fourier basis; what is absent keeps its value in brackets.
    module : torch.nn.Module, callable or None, default=None
        A network of one's own in place of `architecture`: an instance, whose copy is trained
        from the weights that it has, or a callable ``module(n_features, n_outputs)`` that makes
        one. It maps coordinates in [-1, 1], (n, n_features), to (n, n_outputs).
    random_state : int, RandomState instance or None, default=None
        Source of the initial weights and of the batches.
    device : str, default="cpu"
        Where to train: "cpu", "auto" or a torch device string.
    verbose : int, default=0
        0 is silent, 1 shows the progress with the peak signal-to-noise ratio in dB.

    Attributes
    ----------
    module_ : torch.nn.Module
        The network with the best weights, from coordinates in [-1, 1] to scaled values: a
        `CoordinateMLP`, or a copy of `module`.
    coord_min_ : ndarray of shape (n_features,)
        Least coordinates seen in `fit`.
    coord_scale_ : ndarray of shape (n_features,)
        A coordinate x is mapped to (x - min) scale - 1; 0 where all were equal: to 0.
    target_min_, target_scale_ : float
        Values are min + scale × output.
    groups_ : ndarray of shape (n_groups, group_size), dtype int64
        Row numbers of the points in each group.
    leftovers_ : ndarray of shape (n_left,), dtype int64
        Row numbers of the points that fit into no group; they keep their plain gradient.
    eigenvalues_ : ndarray of shape (n_groups,)
        Eigenvalues of the last kernel that was balanced, largest first; of more than 512 groups
        the leading ones. None if none was.
    balanced_eigenvalues_ : ndarray of the same shape
        The same after balancing, or None.
    n_failed_updates_ : int
        How often the kernel was not finite or its eigendecomposition failed, and the plain
        gradient was used until the next update.
    loss_curve_ : list of float
        Loss of each step, before it: the mean squared error of the scaled values (of the batch).
    psnr_curve_ : list of float
        The same in dB, -10 log10 of it.
    best_iter_ : int
        Step, from 0, whose weights were kept: those before the step; with batches of groups the
        full error is known after each epoch only, and they are those after the step.
    n_iter_ : int
        Number of steps.
    image_shape_ : tuple of int
        Height and width of the image, after `fit_image`.
    n_features_in_ : int
        Number of features seen during `fit`: the coordinates.
    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    empirical_ntk : The kernel of any network.
    balancing_matrix : The matrix S made from it.
    skml.inspection.SpectrumDisplay : Draws the eigenvalues before and after balancing.

    Notes
    -----
    With residuals r = f(X) - y in n groups of p points, K_e is the kernel of one point of each
    group, with eigenvalues l_0 >= l_1 >= ... and eigenvectors v_i, and

    .. math::

       S_e = I - \\sum_{i=start}^{end' - 1} (1 - l_{ref} / l_i) v_i v_i^T, \\qquad
       q_{\\cdot k c} = S_e r_{\\cdot k c}, \\qquad
       \\nabla_\\theta L' = \\tfrac{2}{N C} J^T q

    for each place k in the groups and each channel c. The optimiser gets this gradient. end' is
    `n_balanced`, or one less than the numerical rank of K_e if that is smaller.

    Training is in float32. Predictions of the built-in networks are computed in float64, so that
    the value at a point does not depend on what else is predicted with it.

    References
    ----------
    .. [1] K. Shi, H. Chen, L. Zhang, S. Gu. "Inductive gradient adjustment for spectral bias in
       implicit neural representations." ICML 2025. https://arxiv.org/abs/2410.13271
    .. [2] K. Shi, X. Zhou, S. Gu. "Improved implicit neural representation with Fourier
       reparameterized training." CVPR 2024.
    .. [3] Z. Cai, H. Zhu, Q. Shen, X. Wang, X. Cao. "Batch normalization alleviates the spectral
       bias in coordinate networks." CVPR 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.implicit import INRRegressor
    >>> x = np.linspace(0, 1, 200).reshape(-1, 1)
    >>> y = np.sin(12 * x.ravel()) + 0.2 * np.sign(np.sin(60 * x.ravel()))
    >>> model = INRRegressor(hidden_width=32, max_iter=100, random_state=0).fit(x, y)
    >>> model.score(x, y) > 0.95
    True
    >>> model.groups_.shape
    (200, 1)
    """

    _torch_modules = {"module_": "_build_fitted_module"}
    _parameter_constraints: dict = {
        "architecture": [StrOptions(set(ARCHITECTURES))],
        "hidden_width": [_POSITIVE],
        "n_hidden_layers": [Interval(Integral, 0, None, closed="left")],
        "n_frequencies": [
            StrOptions({"auto"}),
            Interval(Integral, 1, _MAX_FREQUENCIES, closed="both"),
        ],
        "first_omega_0": [_FREQUENCY_FACTOR],
        "hidden_omega_0": [_FREQUENCY_FACTOR],
        "first_bias_range": [Interval(Real, 0, 1e9, closed="both"), None],
        "training": [StrOptions({"iga", "standard", "fr", "bn"})],
        "n_balanced": [Interval(Integral, 0, None, closed="left")],
        "balance_start": [Interval(Integral, 0, None, closed="left")],
        "balance_reference": [StrOptions({"auto", "end", "start"})],
        "group_size": [StrOptions({"auto"}), _POSITIVE],
        "grouping": [StrOptions(set(GROUPINGS))],
        "sampling": [StrOptions({"max_residual", "centre"})],
        "update_interval": [_POSITIVE],
        "optimizer": [StrOptions({"adam", "sgd"})],
        "learning_rate": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "lr_decay_at": [StrOptions({"exponential"}), _POSITIVE, None],
        "lr_decay": [Interval(Real, 0, 1, closed="right")],
        "max_iter": [_POSITIVE],
        "batch_groups": [_POSITIVE, None],
        "scale_target": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_iter_no_change": [_POSITIVE, None],
        "fr_params": [dict, None],
        "module": [nn.Module, callable, None],
        "random_state": ["random_state"],
        "device": "no_validation",  # by resolve_device
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        architecture="siren",
        *,
        hidden_width=256,
        n_hidden_layers=2,
        n_frequencies="auto",
        first_omega_0=30.0,
        hidden_omega_0=30.0,
        first_bias_range=None,
        training="iga",
        n_balanced=20,
        balance_start=0,
        balance_reference="auto",
        group_size="auto",
        grouping="auto",
        sampling="max_residual",
        update_interval=10,
        optimizer="adam",
        learning_rate="auto",
        lr_decay_at=None,
        lr_decay=0.1,
        max_iter=1000,
        batch_groups=None,
        scale_target=True,
        tol=0.0,
        n_iter_no_change=None,
        fr_params=None,
        module=None,
        random_state=None,
        device="cpu",
        verbose=0,
    ):
        self.architecture = architecture
        self.hidden_width = hidden_width
        self.n_hidden_layers = n_hidden_layers
        self.n_frequencies = n_frequencies
        self.first_omega_0 = first_omega_0
        self.hidden_omega_0 = hidden_omega_0
        self.first_bias_range = first_bias_range
        self.training = training
        self.n_balanced = n_balanced
        self.balance_start = balance_start
        self.balance_reference = balance_reference
        self.group_size = group_size
        self.grouping = grouping
        self.sampling = sampling
        self.update_interval = update_interval
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.lr_decay_at = lr_decay_at
        self.lr_decay = lr_decay
        self.max_iter = max_iter
        self.batch_groups = batch_groups
        self.scale_target = scale_target
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.fr_params = fr_params
        self.module = module
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def fit(self, X, y, *, point_groups=None):
        """Train the network on a signal.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Coordinates, in any unit.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Target values.
        point_groups : array-like of shape (n_samples,), default=None
            Labels (whole numbers or strings) of the groups, with grouping="given". Groups may
            differ in size: p is the smallest, and what larger ones have beyond it is left over.
            The k-th points of all groups, in the order of the rows, are balanced together.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or y is not finite, if a group is larger than the data, if the groups do not go
            with `grouping`, or if the loss diverges.

        Warns
        -----
        UserWarning
            If there are too few groups to balance `n_balanced` eigenvalues, or none is balanced
            because `balance_start` is not below it.
        """
        X, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=[np.float64, np.float32]
        )
        check_settings(self, len(X))
        vars(self).pop("image_shape_", None)
        self.coord_min_, self.coord_scale_ = coordinate_map(X)
        coordinates = map_coordinates(X, self.coord_min_, self.coord_scale_)
        y = np.asarray(y, dtype=np.float64)
        self._output_shape = y.shape[1:]
        self.target_min_, self.target_scale_ = target_map(y) if self.scale_target else (0.0, 1.0)
        targets = ((y - self.target_min_) / self.target_scale_).reshape(len(y), -1)
        self.groups_, self.leftovers_ = group_points(
            coordinates, self.grouping, self.group_size, point_groups
        )
        warn_few_balanced(self)
        self._train(coordinates, targets)
        return self

    def predict(self, X):
        """Evaluate the network at coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Coordinates, also between and beyond those of `fit`.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Values, of the type of X where that is float32, else float64.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        with np.errstate(over="ignore"):
            values = self._evaluate(X).astype(X.dtype, copy=False)
        return self._checked(values, X)

    def psnr(self, X, y):
        """Compute the peak signal-to-noise ratio of the predictions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Coordinates.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            True values.

        Returns
        -------
        float
            In dB: -10 log10 of the mean squared error, where the range of the values given to
            `fit` counts as one (with scale_target=False: as they are).
        """
        predicted = self.predict(X).astype(np.float64)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if y.shape != predicted.shape:
            raise ValueError(
                f"y must have the shape of the predictions, {predicted.shape}, got {y.shape}"
            )
        return float(decibels(np.mean(((predicted - y) / self.target_scale_) ** 2)))

    def empirical_ntk(self, X):
        """Compute the neural tangent kernel of the fitted network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Coordinates.

        Returns
        -------
        ndarray of shape (n_samples, n_samples), dtype float64
            The kernel of the scaled outputs.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        kernel = empirical_ntk(self.module_, self._coordinates(X)).astype(np.float64)
        self._checked(np.diagonal(kernel), X)  # a row's own entry overflows first
        return kernel

    def gradient(self, X):
        """Compute the derivative of the values by the coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Coordinates.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_outputs, n_features)
            In units of y per unit of X; float64.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = derivative(self.module_, self._coordinates(X))
            gradient *= self.target_scale_ * self.coord_scale_
        return self._checked(gradient if self._output_shape else gradient[:, 0], X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _train(self, coordinates, targets):
        trained = train_network(self, coordinates, targets)
        self.module_, record, balancer = trained.module, trained.record, trained.balancer
        self._module_source, self._network_settings = trained.source, trained.settings
        self.loss_curve_ = record.loss_curve
        self.psnr_curve_ = [float(value) for value in decibels(record.loss_curve)]
        self.n_iter_, self.best_iter_ = record.n_iter, record.best_iter
        last = None if balancer is None else balancer.last
        self.eigenvalues_ = None if last is None else last.eigenvalues.numpy()
        self.balanced_eigenvalues_ = None if last is None else last.balanced_eigenvalues.numpy()
        self.n_failed_updates_ = 0 if balancer is None else balancer.n_failed

    def _build_fitted_module(self):
        return build_network(self._module_source, self._network_settings)

    def _coordinates(self, X):
        """Coordinates as the network takes them."""
        with np.errstate(over="ignore"):
            mapped = map_coordinates(X, self.coord_min_, self.coord_scale_)
        return self._checked(mapped, X)

    def _evaluate(self, X):
        """Values at coordinates, float64, in the shape of y."""
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = evaluate(self.module_, self._coordinates(X))
            values = self.target_min_ + self.target_scale_ * outputs
        return self._checked(values.reshape(len(X), *self._output_shape), X)

    def _checked(self, values, X):
        """Refuse rows whose results the type of the values cannot hold."""
        is_finite = np.isfinite(values.reshape(len(X), -1)).all(axis=1)
        if not is_finite.all():
            first, last = self.coord_min_, self.coord_min_ + coordinate_spans(self.coord_scale_)
            row = int(np.argmin(is_finite))
            raise ValueError(
                f"X must lie where the network's values are finite numbers of {values.dtype}; row "
                f"{row} of X is {X[row].tolist()}, and fit saw coordinates from {first.tolist()} "
                f"to {last.tolist()}."
            )
        return values
