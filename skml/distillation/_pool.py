"""The pool of synthetic samples, and the skorch net that trains a student on it."""

import math
import warnings
from collections import deque

import skorch
import torch
from torch.utils.data import Dataset


class SyntheticPool(Dataset):
    """The last chunks of synthetic samples, with the teacher's answers and the groups.

    Parameters
    ----------
    synthesizer : Synthesizer
        Makes the chunks.
    teacher : torch.nn.Module
        Gives logits.
    split : callable or None
        ``split(X, labels)`` is the mask of the fragile samples; None: all are.
    n_chunks : int
        Number of chunks that are kept.
    temperature : float
        Divides the teacher's logits.
    n_warm_up : int
        Number of first rounds in which nothing is to be learnt from the pool.
    """

    def __init__(self, synthesizer, teacher, split, *, n_chunks, temperature, n_warm_up):
        self.synthesizer = synthesizer
        self.teacher = teacher
        self.split = split
        self.temperature = temperature
        self.n_warm_up = n_warm_up
        self.chunks = deque(maxlen=n_chunks)
        self.is_open = self.has_warned = False

    def renew(self, student, round_):
        """Make a chunk, split it, put it into the pool and drop the oldest one.

        Parameters
        ----------
        student : torch.nn.Module
            The student, against which samples are made.
        round_ : int
            Number of the round, from 0.

        Returns
        -------
        dict of str to object
            What is worth to be kept of the round: the terms of the generator's loss, the share
            of fragile samples, the classes of the chunk, the radius of the split.
        """
        student.eval()
        X, record = self.synthesizer.synthesize(student, round_)
        if not X.isfinite().all():
            raise RuntimeError(
                f"The generator's samples became NaN in round {round_}. Look at the range of "
                "clip_values, and at the teacher's outputs there."
            )
        with torch.inference_mode():
            logits = torch.cat([self.teacher(part) for part in X.split(512)])
        logits = logits.clone()  # a tensor of inference mode could not be used in training
        labels = logits.argmax(dim=1)
        if self.split is None:
            fragile = torch.ones_like(labels, dtype=torch.bool)
        else:
            fragile = self.split(X, labels)
            record["eps"] = self.split.eps_used
        self.chunks.append((X, (logits / self.temperature).log_softmax(dim=1), fragile))
        self.X, self.log_t, self.fragile = (
            torch.cat(parts) for parts in zip(*self.chunks, strict=True)
        )
        self.groups = [group.nonzero().ravel() for group in (self.fragile, ~self.fragile)]
        self.is_open = round_ >= self.n_warm_up and len(self.groups[0]) > 0
        if len(self.groups[0]) == 0 and not self.has_warned:
            self.has_warned = True
            warnings.warn(
                f"No sample of the pool is fragile in round {round_}, so the student learns "
                "nothing there. Try a larger eps.",
                UserWarning,
            )
        counts = torch.bincount(labels, minlength=logits.shape[1])
        record["fragile_fraction"] = float(fragile.double().mean())
        record["class_counts"] = [int(count) for count in counts]
        return record

    def __len__(self):
        return sum(len(chunk[0]) for chunk in self.chunks)

    def __getitem__(self, rows):
        return self.X[rows], (self.log_t[rows], self.fragile[rows])


class PoolBatches:
    """Batches from a pool, each with fragile and robust samples in the pool's proportion.

    Parameters
    ----------
    pool : SyntheticPool
        The pool.
    batch_size : int
        Samples in a batch.
    n_steps : int
        Batches in a round.
    generator : torch.Generator or None
        Source of the draws, on the CPU.
    shuffle : bool
        False takes the oldest samples of each group.
    """

    def __init__(self, pool, batch_size, n_steps=60, generator=None, shuffle=True):
        self.pool = pool
        self.batch_size = batch_size
        self.n_steps = n_steps
        self.generator = generator
        self.shuffle = shuffle

    def __iter__(self):
        for _ in range(self.n_steps if self.pool.is_open else 0):
            yield self.pool[self._draw()]

    def _draw(self):
        fragile, robust = self.pool.groups
        size = min(self.batch_size, len(fragile) + len(robust))
        n_fragile = round(size * len(fragile) / (len(fragile) + len(robust)))
        if len(robust):  # both groups are heard, however small
            n_fragile = min(max(n_fragile, 1), size - 1)
        drawn = [self._choose(fragile, n_fragile)]
        if size > n_fragile:
            drawn.append(self._choose(robust, size - n_fragile))
        return torch.cat(drawn)

    def _choose(self, rows, size):
        if not self.shuffle:
            return rows[:size]
        order = torch.randperm(len(rows), generator=self.generator)[:size]
        return rows[order.to(rows.device)]


class DistillationNet(skorch.NeuralNet):
    """A student whose every epoch is a round: new samples, then steps on the pool.

    Parameters
    ----------
    module : torch.nn.Module
        The student.
    *args
        As in `skorch.NeuralNet`.
    generator : torch.nn.Module
        The generator. The synthesizer of the pool trains it; here it is known to checkpoints.
    **kwargs
        As in `skorch.NeuralNet`.
    """

    def __init__(self, module, *args, generator, **kwargs):
        self.generator = generator  # skorch wants parameters of modules before its own
        super().__init__(module, *args, **kwargs)

    def initialize_module(self):
        super().initialize_module()
        self.generator_ = self.generator
        return self

    def initialize_optimizer(self, triggered_directly=None):
        """SGD for the student alone."""
        _, options = self.get_params_for_optimizer("optimizer", [])
        self.optimizer_ = self.optimizer(self.module_.parameters(), **options)
        return self

    def on_epoch_begin(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        """Renew the pool, and set the cosine learning rate of the round."""
        super().on_epoch_begin(net, dataset_train, dataset_valid, **kwargs)
        round_ = len(self.history) - 1
        rate = self.lr * (1 + math.cos(math.pi * round_ / self.max_epochs)) / 2
        for group in self.optimizer_.param_groups:
            group["lr"] = rate
        record = dataset_train.renew(self.module_, round_)
        for name, value in record.items():
            self.history.record(name, value)

    def get_loss(self, y_pred, y_true, X=None, training=False):
        """Record both terms of the student's loss, and refuse what is not finite."""
        close, far = self.criterion_.terms(y_pred, *y_true)
        loss = close - self.criterion_.forget_weight * far
        for name, term in (("distillation", close), ("forgetting", far)):
            value = term.item()
            if not math.isfinite(value):
                raise RuntimeError(
                    f"The {name} term of the student's loss became {value} in round "
                    f"{len(self.history) - 1}. Try a smaller learning_rate."
                )
            self.history.record_batch(name, value)
        return loss
