"""Distillation without data that escapes the trap of a rigged teacher."""

import warnings
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skml.utils._torch import make_generator, to_numpy

from ._data_free import DataFreeDistiller
from ._samples import flat_samples
from ._split import RobustnessSplit
from ._student_loss import TrapEscapingLoss
from ._teacher import frozen_logits


class ATEscDistiller(DataFreeDistiller):
    """Distil a classifier without its data, and leave its traps behind.

    A teacher that was rigged to fail on other data, or to obey a trigger, is far more robust on
    what it does there than on its honest task. Each synthetic sample is therefore attacked:
    where a small change of it changes the teacher's mind, the student learns the teacher's
    answer; where not, the student is driven away from it.

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
        How samples are made; see :class:`DataFreeDistiller`.
    eps : float, "auto" or "auto-chunk", default="auto"
        Radius of the attack in the maximum norm, as a fraction of each feature's range; the one
        knob that matters. Useful values leave 40 to 90 % of the samples fragile. "auto": the
        radius at which 65 % of the first chunk are, found by bisection between 1e-3 and 1. The
        samples of a generator that has hardly been trained may lead it astray: compare with
        the plateau of :class:`~skml.inspection.TrapDisplay`. "auto-chunk" finds it anew for
        every chunk. 0: no sample is fragile.
    attack_steps : int, default=5
        Steps of the attack.
    step_size : float or None, default=None
        Their length, in the unit of `eps`; None: ``2.5 * eps / attack_steps``.
    forget_weight : float, default=1.0
        Weight lambda of the term that drives the student away on robust samples. It weakens
        backdoors, and costs accuracy on the task; 0 leaves distillation on fragile samples
        alone.
    forget_clip : float, default=1.0
        Divergence c, in nats, at which a robust sample counts as forgotten.
    bn_weight, onehot_weight, adversarial_weight, balance_weight, contrastive_weight : \
float or None, default=None
        Weights of the terms of the generator's loss; see :class:`DataFreeDistiller`.
    latent_dim : int, default=64
        Length of the latent vectors.
    generator : torch.nn.Module, callable or None, default=None
        Maps latent vectors to [0, 1]; see :class:`DataFreeDistiller`.
    max_iter : int, default=15
        Number of rounds.
    generator_steps : int or None, default=None
        Steps of the generator in a round; None: those of the base, 40, for "cmi" 200.
    distill_steps : int, default=60
        Steps of the student in a round.
    pool_size : int, default=1024
        Samples in a chunk, which is split once.
    n_pools : int, default=6
        Chunks that are kept.
    batch_size : int, default=128
        Samples in a step.
    learning_rate : float, default=0.1
        Learning rate of the student's SGD in the first round.
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
        Source of the initial weights, of the latent vectors, of the batches and of the starts of
        the attack.

    Attributes
    ----------
    eps_ : float
        Radius of the last split.
    fragile_fraction_ : ndarray of shape (n_rounds,)
        Share of the samples of each round's chunk that are fragile.
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
        As in :class:`DataFreeDistiller`, with the radius "eps" of every round.
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
    DataFreeDistiller : The same without the split.
    NonTransferableClassifier : Makes rigged teachers to try this on.
    skml.inspection.TrapDisplay : Draws samples with their group, and the fragile share by eps.

    Notes
    -----
    A sample is fragile (group F) if the teacher's class of it changes at any of the points of
    an untargeted projected gradient attack on the teacher, from a random start in the ball of
    radius eps, which ascends the margin of the logits; the others are robust (group R). With d
    the divergence :math:`T^2 KL(t^{1/T} \\| s^{1/T})` of teacher and student,

    .. math:: L_S = \\mathrm{mean}_F\\, d - \\lambda\\, \\mathrm{mean}_R \\min(c, d)

    where both groups pass the student together, in the pool's proportion: in passes of their
    own they would pull the student's batch statistics to and fro.

    If no sample of the pool is fragile, the student makes no step in that round, and a warning
    says so. If all are, this is :class:`DataFreeDistiller`. `fragile_fraction_` near 1 or 0
    means that the split carries no information.

    References
    ----------
    .. [1] Z. Hong, R. Chen, Z. Wang, B. Han, B. Du, T. Liu. "When data-free knowledge
       distillation meets non-transferable teacher: escaping out-of-distribution trap is all you
       need." ICML 2025. https://arxiv.org/abs/2507.04119

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skml.distillation import ATEscDistiller, NonTransferableClassifier
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> X = X / 16
    >>> trap = NonTransferableClassifier(
    ...     divergence="ce", max_epochs=8, image_shape=(1, 8, 8), random_state=0
    ... )
    >>> trap = trap.fit(X, y, X_ood=1 - X, y_ood=y)
    >>> student = ATEscDistiller(trap, max_iter=3, pool_size=256, random_state=0).fit()
    >>> student.is_fragile(X).mean() > student.is_fragile(1 - X).mean() + 0.3
    np.True_
    """

    _parameter_constraints: dict = {
        **DataFreeDistiller._parameter_constraints,
        "eps": [
            Interval(Real, 0, None, closed="left"),
            StrOptions({"auto", "auto-chunk"}),
        ],
        "attack_steps": [Interval(Integral, 1, None, closed="left")],
        "step_size": [Interval(Real, 0, None, closed="neither"), None],
        "forget_weight": [Interval(Real, 0, None, closed="left")],
        "forget_clip": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        teacher=None,
        student=None,
        *,
        base="dfq",
        eps="auto",
        attack_steps=5,
        step_size=None,
        forget_weight=1.0,
        forget_clip=1.0,
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
        super().__init__(
            teacher,
            student,
            base=base,
            bn_weight=bn_weight,
            onehot_weight=onehot_weight,
            adversarial_weight=adversarial_weight,
            balance_weight=balance_weight,
            contrastive_weight=contrastive_weight,
            latent_dim=latent_dim,
            generator=generator,
            max_iter=max_iter,
            generator_steps=generator_steps,
            distill_steps=distill_steps,
            pool_size=pool_size,
            n_pools=n_pools,
            batch_size=batch_size,
            learning_rate=learning_rate,
            temperature=temperature,
            clip_values=clip_values,
            image_shape=image_shape,
            callbacks=callbacks,
            device=device,
            verbose=verbose,
            random_state=random_state,
        )
        self.eps = eps
        self.attack_steps = attack_steps
        self.step_size = step_size
        self.forget_weight = forget_weight
        self.forget_clip = forget_clip

    def is_fragile(self, X, *, eps=None):
        """Find the samples on which a small attack changes the teacher's mind.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_channels, height, width)
            Samples; values beyond `clip_values_` are taken for the bound.
        eps : float or None, default=None
            Radius; None: `eps_`.

        Returns
        -------
        ndarray of shape (n_samples,), dtype bool
            The mask.
        """
        check_is_fitted(self)
        eps = self.eps_ if eps is None else eps
        if not isinstance(eps, Real) or not 0 <= eps < np.inf:
            raise ValueError(f"eps must be a finite number of at least 0 or None, got {eps!r}.")
        X, shape = flat_samples(self, X, image_shape=self.input_shape_, reset=False)
        device = next((p.device for p in self.student_.parameters()), torch.device("cpu"))
        logits = frozen_logits(self.teacher_, device)
        domain = self._domain(device)
        X = np.clip(X, *self.clip_values_).reshape(-1, *shape)
        X = torch.from_numpy(np.ascontiguousarray(X)).to(device)
        with torch.inference_mode():
            labels = torch.cat([logits(part).argmax(dim=1) for part in X.split(512)])
        split = self._split(logits, domain, float(eps), attack_seed=self._seeds["split"])
        return to_numpy(split(X, labels.clone()))

    def _make_split(self, logits, domain):
        return self._split(logits, domain, self.eps, attack_seed=self._seeds["split"])

    def _split(self, logits, domain, eps, *, attack_seed):
        return RobustnessSplit(
            logits,
            eps,
            (domain.low, domain.high),
            n_steps=self.attack_steps,
            step_size=self.step_size,
            rng=make_generator(attack_seed),
        )

    def _make_criterion(self):
        return TrapEscapingLoss(self.temperature, self.forget_weight, self.forget_clip)

    def _record(self, history):
        super()._record(history)
        self.eps_ = float(self.history_["eps"][-1])
        self.fragile_fraction_ = np.array(self.history_["fragile_fraction"])
        if isinstance(self.eps, str) and self.fragile_fraction_[0] in (0.0, 1.0):
            which = "all" if self.fragile_fraction_[0] else "none"
            warnings.warn(
                f"eps={self.eps!r} found no radius that splits the samples: {which} of the first "
                f"chunk are fragile at {self.history_['eps'][0]:.3g}.",
                UserWarning,
            )
