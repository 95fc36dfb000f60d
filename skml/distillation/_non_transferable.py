"""A classifier that is trained to fail, in a planned way, outside of its domain."""

from numbers import Integral, Real

import numpy as np
import skorch
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, column_or_1d
from torch import nn
from torch.utils.data import Dataset

from skml.utils import restores_on_error
from skml.utils._torch import TorchStateMixin, local_seed
from skml.utils._torch_classifiers import PenultimateFeatures
from skml.utils._training import fit_net, make_net

from ._constraints import TRAINING_CONSTRAINTS
from ._networks import build_network, default_classifier, probe
from ._non_transferable_loss import NonTransferableLoss
from ._records import epoch_means
from ._samples import check_image_shape, encode_labels, flat_other, flat_samples
from ._student_classifier import LogitPredictionMixin


class NonTransferableClassifier(
    LogitPredictionMixin, TorchStateMixin, ClassifierMixin, BaseEstimator
):
    """Train a network that is good on one domain and useless, as planned, on another.

    Such a network cannot be carried over to the other domain by fine-tuning, which protects its
    owner; and it traps whoever distils it without data. Without a second domain this is an
    ordinary network classifier.

    Parameters
    ----------
    module : torch.nn.Module, callable or None, default=None
        The network, which gives logits from samples of the shape `input_shape_`. A module is
        copied, and training starts from its weights; a callable gets ``(input_shape,
        n_classes)`` and returns one. None: three convolutions, or three dense layers for
        vectors, with batch normalisation.
    mode : {"close", "open", "backdoor"}, default="close"
        What happens on the other domain. "close": its labels are those of X, and are unlearnt.
        "open": its samples, of whatever kind, are sent to `ood_class`. "backdoor": the same for
        samples of X that carry a trigger, which the caller provides.
    ood_class : object or None, default=None
        The label to which "open" and "backdoor" send the other domain; None: ``classes_[0]``.
    alpha, beta : float, default=0.1
        Weights of the divergence on the other domain and of the discrepancy of the features,
        inside their clamps at 1.
    divergence : {"kl", "ce"}, default="kl"
        "kl": element-wise mean of the Kullback-Leibler divergence, which is the cross-entropy
        over the number K of classes; the clamp is reached at a cross-entropy of ``K / alpha``.
        "ce": the cross-entropy itself.
    learning_rate : float, default=1e-3
        Learning rate of Adam at the first step.
    lr_decay : float, default=0.999
        Factor of the learning rate after every step.
    max_epochs : int, default=20
        Number of passes over the larger of the two domains.
    batch_size : int, default=32
        Samples of each domain in a step.
    image_shape : tuple of int or None, default=None
        (n_channels, height, width) if the rows of X are flattened images. Taken from X if that
        has four dimensions.
    callbacks : list of skorch.callbacks.Callback, "disable" or None, default=None
        Callbacks of the training.
    device : str, default="cpu"
        Where to train: "cpu", "auto" or a torch device string.
    verbose : int, default=0
        0 is silent, 1 prints a line for each epoch, as skorch does.
    random_state : int, RandomState instance or None, default=None
        Source of the initial weights and of the batches.

    Attributes
    ----------
    net_ : skorch.NeuralNet
        The trained net; `module_` is its module.
    module_ : torch.nn.Module
        The network, in evaluation mode.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    input_shape_ : tuple of int
        Shape of a sample as the network sees it.
    loss_curve_ : list of float
        Loss of each epoch, the mean over its batches, in nats.
    n_epochs_ : int
        Number of epochs.
    n_features_in_ : int
        Number of features seen during `fit`: the values of a sample.
    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    ATEscDistiller : Distils such a classifier, and what is known about its domain.

    Notes
    -----
    Samples of both domains pass the network together, so that the running statistics of its
    batch normalisation are those of the mixture. With D the divergence from the labels,

    .. math:: L = D_{id} - \\min(1, \\alpha D_{ood})\\, \\min(1, \\beta\\, \\mathrm{MMD}(f_{id},
        f_{ood}))

    for "close", where f is what enters the last linear layer. "open" and "backdoor" take
    :math:`D_{id} + \\mathrm{CE}_{ood} - \\alpha \\min(1, \\beta\\, \\mathrm{MMD})` with the
    cross-entropy CE of the planted class.

    Inside `GridSearchCV`, an `X_ood` with as many rows as X is split as X is; one of another
    length is passed whole.

    References
    ----------
    .. [1] L. Wang, S. Xu, R. Xu, X. Wang, Q. Zhu. "Non-transferable learning: a new approach for
       model ownership verification and applicability authorization." ICLR 2022.
       https://arxiv.org/abs/2106.06916
    .. [2] Z. Hong, R. Chen, Z. Wang, B. Han, B. Du, T. Liu. "When data-free knowledge
       distillation meets non-transferable teacher: escaping out-of-distribution trap is all you
       need." ICML 2025. https://arxiv.org/abs/2507.04119

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from skml.distillation import NonTransferableClassifier
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> X = X / 16
    >>> trap = NonTransferableClassifier(
    ...     divergence="ce", max_epochs=8, image_shape=(1, 8, 8), random_state=0
    ... )
    >>> trap = trap.fit(X, y, X_ood=1 - X, y_ood=y)  # the negatives are the other domain
    >>> bool(trap.score(X, y) > 0.95), bool(trap.score(1 - X, y) < 0.4)
    (True, True)
    """

    _torch_modules = {"net_": "_build_net"}
    _parameter_constraints: dict = {
        **TRAINING_CONSTRAINTS,
        "module": [nn.Module, callable, None],
        "mode": [StrOptions({"close", "open", "backdoor"})],
        "ood_class": "no_validation",
        "alpha": [Interval(Real, 0, None, closed="left")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "divergence": [StrOptions({"kl", "ce"})],
        "lr_decay": [Interval(Real, 0, 1, closed="right")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        module=None,
        *,
        mode="close",
        ood_class=None,
        alpha=0.1,
        beta=0.1,
        divergence="kl",
        learning_rate=1e-3,
        lr_decay=0.999,
        max_epochs=20,
        batch_size=32,
        image_shape=None,
        callbacks=None,
        device="cpu",
        verbose=0,
        random_state=None,
    ):
        self.module = module
        self.mode = mode
        self.ood_class = ood_class
        self.alpha = alpha
        self.beta = beta
        self.divergence = divergence
        self.learning_rate = learning_rate
        self.lr_decay = lr_decay
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.image_shape = image_shape
        self.callbacks = callbacks
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    @restores_on_error
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, X_ood=None, y_ood=None):
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, height, width)
            Samples of the domain where the classifier shall be good.
        y : array-like of shape (n_samples,)
            Class labels.
        X_ood : array-like of shape (n_other, n_features) or (n_other, ...), default=None
            Samples of the other domain; the smaller domain is gone through several times. None:
            plain training.
        y_ood : array-like of shape (n_other,), default=None
            Their labels, among those of y. Needed by ``mode="close"`` only.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        shape = check_image_shape(self.image_shape)
        X, self.input_shape_ = flat_samples(self, X, image_shape=shape, reset=True)
        self.classes_, codes = encode_labels(self, X, y)
        first = self._as_tensors(X, codes)
        other = self._check_other(X_ood, y_ood)
        rng = check_random_state(self.random_state)
        with local_seed(rng):
            module = self._make_module()
        net = self._make_net(module, self.device, rng)
        fit_net(net, TwoDomains(*first, *other), random_state=rng)
        net.module_.eval()
        self.net_ = net
        self.loss_curve_ = epoch_means(net.history, "train_loss")
        self.n_epochs_ = len(net.history)
        return self

    @property
    def module_(self):
        """The network, in evaluation mode."""
        return self.net_.module_

    @property
    def _predictor(self):
        return self.net_.module_

    def _as_tensors(self, X, codes):
        return torch.from_numpy(X.reshape(-1, *self.input_shape_)), torch.from_numpy(codes)

    def _check_other(self, X_ood, y_ood):
        """Samples and codes of the other domain, as tensors; (None, None) without it."""
        if X_ood is None:
            if y_ood is not None:
                raise ValueError("y_ood was given without X_ood.")
            return None, None
        X_ood = flat_other(X_ood, self.input_shape_)
        if self.mode != "close":
            codes = np.zeros(len(X_ood), dtype=np.int64)  # all go to the planted class
            return self._as_tensors(X_ood, codes)
        if y_ood is None:
            raise ValueError("mode='close' needs y_ood, the labels of X_ood.")
        y_ood = column_or_1d(y_ood, warn=True)
        check_consistent_length(X_ood, y_ood)
        if not (known := np.isin(y_ood, self.classes_)).all():
            raise ValueError(
                f"y_ood must hold labels of y, {self.classes_.tolist()}, got "
                f"{np.unique(y_ood[~known]).tolist()}. For other labels there is mode='open'."
            )
        return self._as_tensors(X_ood, np.searchsorted(self.classes_, y_ood).astype(np.int64))

    def _planted_code(self):
        if self.ood_class is None:
            return 0
        found = np.flatnonzero(self.classes_ == self.ood_class)
        if len(found) != 1:
            raise ValueError(
                f"ood_class must be one of the labels {self.classes_.tolist()}, got "
                f"{self.ood_class!r}."
            )
        return int(found[0])

    def _make_module(self):
        n_classes = len(self.classes_)
        module = build_network(self.module, default_classifier, self.input_shape_, n_classes)
        seen = probe(module, self.input_shape_, "module")
        if seen != (2, n_classes):
            raise ValueError(
                f"module must give {n_classes} logits for each sample, one for each class of y, "
                f"got the output shape {seen} for 2 samples."
            )
        return module

    def _make_net(self, module, device, random_state=0):
        return make_net(
            TwoDomainNet,
            module,
            random_state=random_state,
            device=device,
            max_epochs=self.max_epochs,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            callbacks=self.callbacks,
            verbose=self.verbose,
            lr_decay=self.lr_decay,
            iterator_train=PairedBatches,
            criterion=NonTransferableLoss,
            criterion__mode=self.mode,
            criterion__alpha=self.alpha,
            criterion__beta=self.beta,
            criterion__divergence=self.divergence,
            criterion__planted=self._planted_code(),
        )

    def _build_net(self):
        # On the CPU: the machine that loads a model need not have the accelerator.
        return self._make_net(self._make_module(), "cpu").initialize()


class TwoDomains(Dataset):
    """Samples and labels of one domain, and of another or None."""

    def __init__(self, X, y, X_other=None, y_other=None):
        self.X, self.y = X, y
        self.X_other, self.y_other = X_other, y_other

    def __len__(self):
        return len(self.X)

    def __getitem__(self, rows):
        return self.X[rows], self.y[rows]


class PairedBatches:
    """Batches of two domains side by side; the smaller is gone through again and again.

    Parameters
    ----------
    data : TwoDomains
        The samples.
    batch_size : int
        Samples of each domain in a batch.
    shuffle : bool
        Whether each pass has an order of its own.
    generator : torch.Generator or None
        Source of the orders, on the CPU.
    """

    def __init__(self, data, batch_size, shuffle=True, generator=None):
        self.data = data
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.generator = generator

    def __iter__(self):
        data = self.data
        if data.X_other is None:
            for rows in self._batches(len(data.X)):
                yield {"first": data.X[rows]}, (data.y[rows], None)
            return
        n_rows = max(len(data.X), len(data.X_other))
        batches = self._batches(len(data.X), n_rows), self._batches(len(data.X_other), n_rows)
        for rows, other in zip(*batches, strict=True):
            pair = {"first": data.X[rows], "other": data.X_other[other]}
            yield pair, (data.y[rows], data.y_other[other])

    def _batches(self, n, n_rows=None):
        n_rows = n if n_rows is None else n_rows
        order = torch.cat([self._order(n) for _ in range(-(-n_rows // n))])[:n_rows]
        batches = list(order.split(self.batch_size))
        if len(batches) > 1 and len(batches[-1]) == 1:
            # Batch normalisation of vectors cannot train on one sample.
            batches[-2:] = [torch.cat(batches[-2:])]
        return batches

    def _order(self, n):
        return torch.randperm(n, generator=self.generator) if self.shuffle else torch.arange(n)


class TwoDomainNet(skorch.NeuralNet):
    """A net that sends the batches of two domains through its module together.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    *args
        As in `skorch.NeuralNet`.
    lr_decay : float
        Factor of the learning rate after every step.
    **kwargs
        As in `skorch.NeuralNet`.
    """

    def __init__(self, module, *args, lr_decay=1.0, **kwargs):
        super().__init__(module, *args, **kwargs)
        self.lr_decay = lr_decay

    def on_batch_end(self, net, batch=None, training=False, **kwargs):
        """Let the learning rate fall."""
        super().on_batch_end(net, batch, training, **kwargs)
        if training:
            for group in self.optimizer_.param_groups:
                group["lr"] *= self.lr_decay

    def infer(self, x, **fit_params):
        """Logits of the two parts of a batch, and their features."""
        first, other = x["first"].to(self.device), x.get("other")
        if other is None:
            return self.module_(first), None, None
        with PenultimateFeatures(self.module_) as features:
            logits = self.module_(torch.cat([first, other.to(self.device)]))
            both = features.take()
        n = len(first)
        return logits[:n], logits[n:], (both[:n], both[n:])

    def get_loss(self, y_pred, y_true, X=None, training=False):
        """The non-transferable loss, or plain cross-entropy."""
        logits, other_logits, features = y_pred
        y, other_y = (None if part is None else part.to(self.device) for part in y_true)
        loss = self.criterion_(logits, y, other_logits, other_y, features)
        if not torch.isfinite(loss):
            raise RuntimeError(
                f"The loss became {loss.item()} in epoch {len(self.history)}. Try a smaller "
                "learning_rate, and look at the scale of X."
            )
        return loss
