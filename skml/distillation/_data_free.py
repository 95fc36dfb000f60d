"""Distillation of a classifier into a small one without its data."""

import math
import warnings
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from skml.utils import restores_on_error
from skml.utils._torch import TorchStateMixin, local_seed, make_generator, resolve_device, to_numpy
from skml.utils._training import fit_net, make_net

from ._bases import BASES
from ._constraints import TRAINING_CONSTRAINTS
from ._generator_losses import BatchStatistics
from ._networks import build_generator, build_student, probe
from ._pool import DistillationNet, PoolBatches, SyntheticPool
from ._records import epoch_means, round_history, warn_of_collapse
from ._samples import (
    as_array,
    check_image_shape,
    check_pair,
    clip_bounds,
    encode_labels,
    flat_samples,
    resolve_shape,
)
from ._student_classifier import LogitPredictionMixin
from ._student_loss import TrapEscapingLoss
from ._synthesis import SYNTHESIZERS, Domain, generate
from ._teacher import (
    fit_teacher,
    frozen_logits,
    is_fitted_teacher,
    teacher_classes,
    teacher_input_shape,
)

_MOMENTUM, _WEIGHT_DECAY = 0.9, 1e-4
_TERMS = ("bn", "onehot", "adversarial", "balance", "contrastive")
_SEEDS = ("weights", "training", "latent", "batches", "split")


class DataFreeDistiller(
    LogitPredictionMixin, TorchStateMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator
):
    """Distil a classifier into a small one without any of its data.

    A generator learns to make samples that the teacher finds familiar (their statistics are
    those that its batch normalisation remembers), is sure about, and on which the student still
    differs; the student learns the teacher's answers on them.

    Parameters
    ----------
    teacher : torch.nn.Module, skorch net, NonTransferableClassifier, FrozenEstimator or None, \
default=None
        The classifier to distil. A fitted one (a bare module counts as such, and is taken to
        give logits) is used as it is, and `fit` needs no data. An unfitted one is cloned and
        fitted on the data first; None: a `NonTransferableClassifier`, that is a small network.
        Cloning a skorch net forgets its weights: inside Pipeline and GridSearchCV, put a fitted
        one into a `FrozenEstimator`. One whose weights are not float32 is asked by a copy that
        is.
    student : torch.nn.Module, callable or None, default=None
        The network to train, which gives logits. A module is copied, and training starts from
        its weights, which are float32; a callable gets ``(input_shape, n_classes)``. None: a
        narrow network of three layers with batch normalisation.
    base : {"dfq", "cmi", "nayer"}, default="dfq"
        How samples are made. "dfq": by one generator that is kept. "cmi": by inversion, a new
        generator and the latent vectors being optimised every round, with contrast between
        samples. "nayer": from class embeddings behind random layers.
    bn_weight, onehot_weight, adversarial_weight, balance_weight, contrastive_weight : \
float or None, default=None
        Weights of the terms of the generator's loss. None: those of the base, for "dfq" 1, 1,
        0.2, 2 and 0; for "cmi" 1, 0.5, 0.5, 0 and 0.8; for "nayer" 10, 0.5, 1.33, 0 and 0. Only
        "cmi" has a contrastive term; with another base its weight must be None or 0.
    latent_dim : int, default=64
        Length of the latent vectors.
    generator : torch.nn.Module, callable or None, default=None
        Maps latent vectors to [0, 1], which is stretched to `clip_values`. A callable gets
        ``(latent_dim, input_shape)``. None: a small one for images or vectors.
    max_iter : int, default=15
        Number of rounds. A round trains the generator, adds a chunk of samples to the pool and
        trains the student on the pool.
    generator_steps : int or None, default=None
        Steps of the generator in a round; None: those of the base, 40, for "cmi" 200.
    distill_steps : int, default=60
        Steps of the student in a round.
    pool_size : int, default=1024
        Samples in a chunk. "cmi" optimises them all at once, so take fewer there.
    n_pools : int, default=6
        Chunks that are kept.
    batch_size : int, default=128
        Samples in a step.
    learning_rate : float, default=0.1
        Learning rate of the student's SGD (momentum 0.9, weight decay 1e-4) in the first round; it
        falls to 0 along a cosine over the rounds.
    temperature : float, default=1.0
        Divides the logits of both in the student's loss.
    clip_values : tuple of (float or array-like, float or array-like) or "auto", default="auto"
        Least and greatest value of the features, for all or each. "auto": 0 and 1 for a fitted
        teacher, else least and greatest value of each column of X.
    image_shape : tuple of int or None, default=None
        (n_channels, height, width) if the teacher takes images; ``(n_features,)`` for a bare
        module that takes vectors. None: from X, or from the teacher if it knows.
    callbacks : list of skorch.callbacks.Callback, "disable" or None, default=None
        Callbacks of the student's training, whose epochs are rounds.
    device : str, default="cpu"
        Where to train: "cpu", "auto" or a torch device string.
    verbose : int, default=0
        0 is silent, 1 prints a line for each round, as skorch does for each epoch.
    random_state : int, RandomState instance or None, default=None
        Source of the initial weights, of the latent vectors and of the batches.

    Attributes
    ----------
    teacher_ : object
        The fitted teacher: the parameter itself, or its fitted clone.
    net_ : skorch.NeuralNet
        The trained net; its module is the student.
    student_ : torch.nn.Module
        The student, in evaluation mode.
    generator_ : torch.nn.Module
        The generator as the last round left it.
    classes_ : ndarray of shape (n_classes,)
        Class labels of the teacher; 0, 1, ... where it does not say.
    input_shape_ : tuple of int
        Shape of a sample as the networks see it.
    clip_values_ : ndarray of shape (2, n_features), dtype float32
        Least and greatest value of each feature.
    history_ : dict of str to list
        For every round: mean of the terms of the generator's loss ("bn", "onehot", "balance",
        "adversarial", "contrastive", "generator" is their weighted sum), of the student's
        ("distillation", "forgetting"), "fragile_fraction" of the chunk, and its "class_counts".
    loss_curve_ : list of float
        Loss of the student in each round, the mean over its steps; NaN where it made none.
    n_iter_ : int
        Number of rounds.
    n_features_in_ : int
        Number of features seen during `fit`: the values of a sample.
    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    ATEscDistiller : The same for teachers that may be rigged.

    Notes
    -----
    With t and s the outputs of teacher and student on x = G(z), the generator minimises

    .. math:: w_{bn} \\sum_l (\\|\\mu_l - m_l(x)\\| + \\|\\sigma^2_l - v_l(x)\\|) +
        w_{oh}\\, CE(t, \\arg\\max t) + w_{bal} \\sum_k \\bar p_k \\log \\bar p_k
        - w_{adv}\\, KL(t \\| s)

    with the running statistics of the batch normalisation layers l of the teacher and the mean
    p of its probabilities; the adversarial term is left out in the first round. "cmi" and
    "nayer" prescribe the class in the one-hot term, and count the adversarial term only where
    teacher and student agree. The student minimises the mean of
    :math:`T^2 KL(t^{1/T} \\| s^{1/T})` over batches from the pool. "nayer" begins with one
    fifteenth of the rounds without steps of the student.

    If a fitted teacher is given, no value of X is used, only its shape. To score needs labelled
    data all the same.

    References
    ----------
    .. [1] Y. Choi, J. Choi, M. El-Khamy, J. Lee. "Data-free network quantization with
       adversarial knowledge distillation." CVPR Workshops 2020. https://arxiv.org/abs/2005.04136
    .. [2] G. Fang, J. Song, X. Wang, C. Shen, X. Wang, M. Song. "Contrastive model inversion for
       data-free knowledge distillation." IJCAI 2021. https://arxiv.org/abs/2105.08584
    .. [3] M.-T. Tran, T. Le, X.-M. Le, M. Harandi, Q. H. Tran, D. Phung. "NAYER: noisy layer
       data generation for efficient and effective data-free knowledge distillation." CVPR 2024.
       https://arxiv.org/abs/2310.00258

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.frozen import FrozenEstimator
    >>> from skml.distillation import DataFreeDistiller, NonTransferableClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> teacher = NonTransferableClassifier(max_epochs=30, random_state=0).fit(X, y)
    >>> student = DataFreeDistiller(
    ...     FrozenEstimator(teacher), clip_values=(0, 8), max_iter=8, pool_size=256, random_state=0
    ... )
    >>> student = student.fit()  # no data
    >>> bool(student.score(X, y) > 0.8)
    True
    """

    _torch_modules = {"generator_": "_build_generator", "net_": "_build_net"}
    _parameter_constraints: dict = {
        **TRAINING_CONSTRAINTS,
        "teacher": [nn.Module, HasMethods(["fit", "predict"]), None],
        "student": [nn.Module, callable, None],
        "base": [StrOptions(set(BASES))],
        **{f"{name}_weight": [Interval(Real, 0, None, closed="left"), None] for name in _TERMS},
        "latent_dim": [Interval(Integral, 1, None, closed="left")],
        "generator": [nn.Module, callable, None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "generator_steps": [Interval(Integral, 0, None, closed="left"), None],
        "distill_steps": [Interval(Integral, 1, None, closed="left")],
        "pool_size": [Interval(Integral, 2, None, closed="left")],
        "n_pools": [Interval(Integral, 1, None, closed="left")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "clip_values": [StrOptions({"auto"}), tuple, list],
    }

    def __init__(
        self,
        teacher=None,
        student=None,
        *,
        base="dfq",
        bn_weight=None,
        onehot_weight=None,
        adversarial_weight=None,
        balance_weight=None,
        contrastive_weight=None,
        latent_dim=64,
        generator=None,
        max_iter=15,
        generator_steps=None,
        distill_steps=60,
        pool_size=1024,
        n_pools=6,
        batch_size=128,
        learning_rate=0.1,
        temperature=1.0,
        clip_values="auto",
        image_shape=None,
        callbacks=None,
        device="cpu",
        verbose=0,
        random_state=None,
    ):
        self.teacher = teacher
        self.student = student
        self.base = base
        self.bn_weight = bn_weight
        self.onehot_weight = onehot_weight
        self.adversarial_weight = adversarial_weight
        self.balance_weight = balance_weight
        self.contrastive_weight = contrastive_weight
        self.latent_dim = latent_dim
        self.generator = generator
        self.max_iter = max_iter
        self.generator_steps = generator_steps
        self.distill_steps = distill_steps
        self.pool_size = pool_size
        self.n_pools = n_pools
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.temperature = temperature
        self.clip_values = clip_values
        self.image_shape = image_shape
        self.callbacks = callbacks
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    @restores_on_error
    # A teacher that is an estimator is validated by its own fit.
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X=None, y=None):
        """Distil the teacher, which is fitted first if it is not yet.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, height, \
width), default=None
            Training samples of an unfitted teacher. With a fitted one nothing but their shape
            is used.
        y : array-like of shape (n_samples,), default=None
            Their labels, for an unfitted teacher.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        base = self._base()
        rng = check_random_state(self.random_state)
        device = resolve_device(self.device)
        with local_seed(rng, device):
            logits = self._prepare_teacher(X, y, rng, device)
        self._seeds = {name: int(rng.randint(np.iinfo(np.int32).max)) for name in _SEEDS}
        with local_seed(self._seeds["weights"], device):
            student = self._make_student()
            generator = self._make_generator().to(device)
        self._fit_student(base, logits, student, generator, device)
        return self

    def sample(self, n_samples=1):
        """Make synthetic samples by the generator of the last round.

        Parameters
        ----------
        n_samples : int, default=1
            Number of samples; the first of more are the same.

        Returns
        -------
        ndarray of shape (n_samples, n_features), dtype float32
            Samples inside `clip_values_`, the same at every call.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be an int of at least 1, got {n_samples!r}.")
        rng = make_generator(self._seeds["latent"])
        # Torch draws normal numbers by the 16: rows of other lengths would depend on n_samples.
        width = 16 * math.ceil(self.latent_dim / 16)
        latent = torch.randn(int(n_samples), width, generator=rng)[:, : self.latent_dim]
        device = next((p.device for p in self.generator_.parameters()), torch.device("cpu"))
        samples = generate(self.generator_, latent.to(device), self._domain(device))
        return to_numpy(samples.flatten(1))

    @property
    def student_(self):
        """The student, in evaluation mode."""
        return self.net_.module_

    @property
    def _predictor(self):
        return self.net_.module_

    def _prepare_teacher(self, X, y, rng, device):
        """Set `teacher_`, and what is known of the samples by it or by X; return its logits."""
        image_shape = check_image_shape(self.image_shape)
        if is_fitted_teacher(self.teacher):
            self.teacher_ = self.teacher
            self._note_shape(X, image_shape)
            low, high = 0.0, 1.0
            logits = frozen_logits(self.teacher_, device)
            self.classes_ = teacher_classes(self.teacher_, logits, self.input_shape_)
        else:
            if X is None:
                raise ValueError(
                    f"{type(self).__name__} needs X and y to fit its teacher, which is "
                    f"{'None' if self.teacher is None else 'not fitted'}, got X=None."
                )
            if image_shape is None:
                image_shape = check_image_shape(getattr(self.teacher, "image_shape", None))
            X, self.input_shape_ = flat_samples(self, X, image_shape=image_shape, reset=True)
            self.classes_, codes = encode_labels(self, X, y)
            self.teacher_ = fit_teacher(self.teacher, X, codes, self.input_shape_, rng)
            low, high = X.min(axis=0), X.max(axis=0)
            logits = frozen_logits(self.teacher_, device)
            n_outputs = probe(logits, self.input_shape_, "teacher")[1]
            if n_outputs != len(self.classes_):
                raise ValueError(
                    f"teacher gives {n_outputs} outputs, but y holds {len(self.classes_)} classes."
                )
        if not isinstance(self.clip_values, str):
            low, high = check_pair(self.clip_values)
        self.clip_values_ = clip_bounds(low, high, self.n_features_in_)
        return logits

    def _note_shape(self, X, image_shape):
        """Take the shape of a sample from the parameter, X or the teacher."""
        known = teacher_input_shape(self.teacher_)
        if X is None:
            shape = image_shape or known
            if shape is None:
                raise ValueError(
                    "image_shape must be given, (n_channels, height, width) or (n_features,): "
                    "X is None, and the teacher does not know the shape of its input."
                )
            self.n_features_in_ = math.prod(shape)
        else:
            X = as_array(X)
            if len(getattr(X, "shape", ())) == 4:
                image_shape = image_shape or tuple(int(side) for side in X.shape[1:])
                X = np.asarray(X).reshape(len(X), -1)
            validate_data(self, X, skip_check_array=True)
            if image_shape is None and known is not None and len(known) == 3:
                image_shape = known
            shape = resolve_shape(image_shape, self.n_features_in_)
        if known is not None and math.prod(known) != math.prod(shape):
            raise ValueError(
                f"teacher takes samples of the shape {known}, but X or image_shape says {shape}."
            )
        self.input_shape_ = shape

    def _fit_student(self, base, logits, student, generator, device):
        n_warm_up = min(math.ceil(base.warm_up * self.max_iter), self.max_iter - 1)
        if base.bn_weight and BatchStatistics(logits).n_layers == 0:
            warnings.warn(
                "The teacher has no batch normalisation with running statistics: nothing tells "
                "the generator what its data look like, and the bn term is 0.",
                UserWarning,
            )
        domain = self._domain(device)
        synthesizer = SYNTHESIZERS[self.base](
            logits,
            generator,
            domain,
            base,
            latent_dim=self.latent_dim,
            batch_size=self.batch_size,
            pool_size=self.pool_size,
            n_warm_up=n_warm_up,
            rng=make_generator(self._seeds["latent"]),
        )
        pool = SyntheticPool(
            synthesizer,
            logits,
            self._make_split(logits, domain),
            n_chunks=self.n_pools,
            temperature=self.temperature,
            n_warm_up=n_warm_up,
        )
        net = self._make_net(student, generator, device)
        fit_net(net, pool, random_state=self._seeds["training"])
        net.module_.eval()
        self.net_, self.generator_ = net, generator.eval()
        self._record(net.history)

    def _record(self, history):
        # Who interrupts the training gets the rounds that were completed.
        history = [row for row in history if "class_counts" in row]
        if not history:
            raise KeyboardInterrupt
        self.history_ = round_history(history)
        self.loss_curve_ = epoch_means(history, "train_loss")
        self.n_iter_ = len(history)
        warn_of_collapse(self.history_["class_counts"][-1], self.classes_)

    def _make_split(self, logits, domain):
        """What tells fragile samples from robust ones; None takes all for fragile."""
        return None

    def _make_criterion(self):
        return TrapEscapingLoss(self.temperature, forget_weight=0.0)

    def _base(self):
        if self.base != "cmi" and self.contrastive_weight:
            raise ValueError(
                "contrastive_weight must be None or 0 unless base is 'cmi', the only one with a "
                f"contrastive term, got {self.contrastive_weight!r} with base={self.base!r}."
            )
        weights = {f"{name}_weight": getattr(self, f"{name}_weight") for name in _TERMS}
        return BASES[self.base].with_overrides(**weights, generator_steps=self.generator_steps)

    def _domain(self, device):
        low, high = (
            torch.from_numpy(bound.reshape(self.input_shape_).copy()).to(device)
            for bound in self.clip_values_
        )
        return Domain(self.input_shape_, low, high, len(self.classes_))

    def _make_student(self):
        return build_student(self.student, self.input_shape_, len(self.classes_))

    def _make_generator(self):
        return build_generator(self.generator, self.latent_dim, self.input_shape_)

    def _make_net(self, student, generator, device):
        return make_net(
            DistillationNet,
            student,
            random_state=self._seeds["batches"],
            device=device,
            max_epochs=self.max_iter,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            optimizer=torch.optim.SGD,
            callbacks=self.callbacks,
            verbose=self.verbose,
            generator=generator,
            criterion=self._make_criterion(),
            optimizer__momentum=_MOMENTUM,
            optimizer__weight_decay=_WEIGHT_DECAY,
            iterator_train=PoolBatches,
            iterator_train__n_steps=self.distill_steps,
        )

    def _build_generator(self):
        return self._make_generator().eval()

    def _build_net(self):
        # On the CPU: the machine that loads a model need not have the accelerator.
        return self._make_net(self._make_student(), self.generator_, "cpu").initialize()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Without data nobody can promise how good the student becomes.
        tags.classifier_tags.poor_score = True
        return tags
