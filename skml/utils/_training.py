"""Training that the torch methods share: one plain loop, and quiet skorch nets.

Where a step is a batch of rows, skorch trains (:func:`make_net`, :func:`fit_net`). Where it is
not, :func:`fit_loop` repeats the method's own step and does the rest: early stopping, the curve,
the best weights, progress. This module imports torch.
"""

import copy
import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from sklearn.utils import check_random_state

from ._optional import import_optional
from ._progress import progress
from ._torch import draw_seed, local_seed, make_generator, resolve_device


@dataclass
class FitRecord:
    """What a training loop did.

    Attributes
    ----------
    loss_curve : list of float
        Loss of every iteration.
    validation_curve : list of float
        What `validate` returned after every iteration; empty without it.
    n_iter : int
        Number of iterations that were run.
    best_iter : int
        Iteration, from 0, with the lowest monitored value.
    best_value : float
        That value.
    stopped_early : bool
        Whether the loop ended because nothing improved.
    """

    loss_curve: list[float] = field(default_factory=list)
    validation_curve: list[float] = field(default_factory=list)
    n_iter: int = 0
    best_iter: int = -1
    best_value: float = math.inf
    stopped_early: bool = False


def fit_loop(
    step: Callable[[int], float],
    *,
    max_iter,
    validate=None,
    modules=(),
    tol=0.0,
    n_iter_no_change=None,
    verbose=0,
    desc="fit",
    describe=None,
):
    """Repeat a training step.

    Parameters
    ----------
    step : callable
        ``step(iteration)`` makes one update and returns the loss (a float or a scalar tensor)
        at the weights *before* the update, as the forward pass gives it.
    max_iter : int
        Largest number of iterations.
    validate : callable or None
        ``validate(iteration)`` returns what is to become small, at the weights after the update.
        It is monitored in place of the loss.
    modules : sequence of torch.nn.Module
        They get back the weights with the lowest monitored value; with none the last weights
        stay.
    tol : float
        An improvement of the monitored value by no more than this does not reset the patience.
    n_iter_no_change : int or None
        Stop after so many iterations in a row without improvement. None never stops early.
    verbose : int
        0 is silent, 1 shows a progress bar with the loss.
    desc : str
        Name on the progress bar.
    describe : callable or None
        ``describe(loss, best)`` returns what the progress bar shows, a dict of str; None: the
        loss and the best monitored value.

    Returns
    -------
    FitRecord
        The curves and counters.

    Raises
    ------
    ValueError
        If the monitored value or the loss is not finite.
    """
    record, best, patience_value, n_idle = FitRecord(), _BestWeights(modules), math.inf, 0
    iterations = progress(range(max_iter), desc, verbose)
    for iteration in iterations:
        if validate is None:
            best.stage()
        loss = _finite(step(iteration), "loss", iteration)
        record.loss_curve.append(loss)
        record.n_iter += 1
        value = loss
        if validate is not None:
            value = _finite(validate(iteration), "validation value", iteration)
            record.validation_curve.append(value)
        if value < record.best_value:
            record.best_value, record.best_iter = value, iteration
            if validate is not None:
                best.stage()
            best.accept()
        if hasattr(iterations, "set_postfix"):
            iterations.set_postfix((describe or _loss_and_best)(loss, record.best_value))
        n_idle = 0 if value < patience_value - tol else n_idle + 1
        if n_idle == 0:
            patience_value = value
        if n_iter_no_change is not None and n_idle >= n_iter_no_change:
            record.stopped_early = True
            break
    if verbose and hasattr(iterations, "close"):
        iterations.close()
    best.restore()
    return record


def _loss_and_best(loss, best):
    return {"loss": f"{loss:.4g}", "best": f"{best:.4g}"}


def _finite(value, name, iteration):
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(
            f"The {name} became {value} in iteration {iteration}; try a smaller learning_rate, "
            "and check the scale of the data."
        )
    return value


class _BestWeights:
    """Two copies of the weights: the candidate, and the best so far."""

    def __init__(self, modules):
        self._modules = list(modules)
        self._staged = self._best = None

    def _tensors(self):
        for module in self._modules:
            yield from module.state_dict().values()

    @torch.no_grad()
    def stage(self):
        if self._staged is None:
            self._staged = [tensor.detach().clone() for tensor in self._tensors()]
            return
        for kept, tensor in zip(self._staged, self._tensors(), strict=True):
            kept.copy_(tensor)

    def accept(self):
        self._best, self._staged = self._staged, self._best

    @torch.no_grad()
    def restore(self):
        if self._best is not None:
            for kept, tensor in zip(self._best, self._tensors(), strict=True):
                tensor.copy_(kept)


def minibatches(n_samples, batch_size, generator, *, shuffle=True, drop_last=False):
    """Yield the row numbers of one epoch's batches as tensors.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    batch_size : int or None
        Rows in a batch; None takes all in one.
    generator : torch.Generator
        On the CPU; draws the permutation.
    shuffle : bool
        Whether rows are permuted.
    drop_last : bool
        Whether a smaller last batch is left out.

    Yields
    ------
    torch.Tensor of int64
        Row numbers.
    """
    size = n_samples if batch_size is None else min(batch_size, n_samples)
    order = torch.randperm(n_samples, generator=generator) if shuffle else torch.arange(n_samples)
    for rows in order.split(size):
        if len(rows) == size or not drop_last:
            yield rows


def make_net(
    net_class,
    module,
    *,
    random_state=None,
    device="cpu",
    max_epochs=10,
    learning_rate=1e-3,
    batch_size=128,
    optimizer=torch.optim.Adam,
    validation_fraction=0.0,
    stratified=False,
    n_iter_no_change=None,
    tol=1e-4,
    callbacks=None,
    verbose=0,
    **net_params,
):
    """Make a skorch net in skml's vocabulary, which draws only from its own generators.

    Parameters
    ----------
    net_class : type
        `skorch.NeuralNet` or a subclass.
    module : type or torch.nn.Module
        As in skorch. Its arguments are among `net_params`, as ``module__name``.
    random_state : int, RandomState instance or None
        Source of the split and of the order of the batches. Give the same source to
        :func:`fit_net`, for weights and dropout.
    device : str or torch.device
        As in :func:`skml.utils._torch.resolve_device`.
    max_epochs, learning_rate, batch_size, optimizer
        As in skorch, where `learning_rate` is `lr`.
    validation_fraction : float
        Share of the rows that is held out; 0 holds out none.
    stratified : bool
        Whether the held-out rows keep the class proportions.
    n_iter_no_change : int or None
        Stop after so many epochs without improvement of the validation loss (without held-out
        rows: the training loss), and return to the best weights. None never stops early.
    tol : float
        Smallest change of the loss that counts as improvement.
    callbacks : list, "disable" or None
        skorch callbacks of the user. They are copied, because training changes them.
    verbose : int
        As in skorch; 0 is silent.
    **net_params
        Further parameters of `net_class`; they win over what is set here.

    Returns
    -------
    skorch.NeuralNet
        The net, not initialised.
    """
    skorch_callbacks = import_optional("skorch.callbacks", extra="torch", needed_by="make_net")
    dataset = import_optional("skorch.dataset", extra="torch", needed_by="make_net")
    rng = check_random_state(random_state)
    split_seed = draw_seed(rng)
    train_split = None
    if validation_fraction:
        train_split = dataset.ValidSplit(
            validation_fraction, stratified=stratified, random_state=split_seed
        )
    if callbacks != "disable":
        callbacks = copy.deepcopy(list(callbacks or ()))
        if n_iter_no_change is not None:
            stopping = skorch_callbacks.EarlyStopping(
                monitor="valid_loss" if validation_fraction else "train_loss",
                patience=n_iter_no_change,
                threshold=tol,
                threshold_mode="abs",
                load_best=True,
            )
            callbacks.append(("early_stopping", stopping))
    params = {
        "device": resolve_device(device),
        "max_epochs": max_epochs,
        "lr": learning_rate,
        "batch_size": batch_size,
        "optimizer": optimizer,
        "train_split": train_split,
        "callbacks": callbacks,
        "verbose": verbose,
        "iterator_train__shuffle": True,
        # A DataLoader without its own generator draws from the global one, even to iterate only.
        "iterator_train__generator": make_generator(rng),
        "iterator_valid__generator": make_generator(rng),
    }
    return net_class(module, **(params | net_params))


def fit_net(net, X, y=None, *, random_state=None, **fit_params):
    """Fit a skorch net with locally seeded weights and dropout.

    Parameters
    ----------
    net : skorch.NeuralNet
        Such as :func:`make_net` returns.
    X, y
        As in ``net.fit``.
    random_state : int, RandomState instance or None
        Seed of the weights and of what the modules draw during training.
    **fit_params
        Further arguments of ``net.fit``.

    Returns
    -------
    skorch.NeuralNet
        The fitted net.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts. ``net.fit`` would return what it has trained by then, and an
        estimator of several nets would go on with the next one.
    """
    with local_seed(random_state, net.device):
        if not (net.warm_start and net.initialized_):
            net.initialize()
        net.notify("on_train_begin", X=X, y=y)
        try:
            net.fit_loop(X, y, **fit_params)
        except KeyboardInterrupt as interrupt:  # by which skorch's callbacks stop early, too
            if not _raised_by_callback(interrupt):
                raise
        net.notify("on_train_end", X=X, y=y)
    return net


def _raised_by_callback(error):
    callback = import_optional("skorch.callbacks", extra="torch", needed_by="fit_net").Callback
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return isinstance(frame.f_locals.get("self"), callback)


def loss_curve(net, key="train_loss"):
    """The losses of a fitted skorch net, one float for each epoch."""
    return [float(value) for value in net.history[:, key]]
