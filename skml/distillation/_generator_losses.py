"""What a generator minimises: batch statistics, confidence, balance, contrast, disagreement."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


class BatchStatistics:
    """Distance of the inputs of batch-normalisation layers from their running statistics.

    A context manager: inside, every forward pass of the module leaves a new :meth:`loss`.

    Parameters
    ----------
    module : torch.nn.Module
        The network, in evaluation mode.

    Attributes
    ----------
    n_layers : int
        Number of layers that keep running statistics.

    Notes
    -----
    The loss is the sum over layers of
    ``||running_mean - mean(input)||_2 + ||running_var - var(input)||_2``, mean and (biased)
    variance over batch and space.
    """

    def __init__(self, module):
        self._layers = [
            part
            for part in module.modules()
            if isinstance(part, _BatchNorm) and part.running_mean is not None
        ]
        self._handles, self._terms = [], []

    @property
    def n_layers(self):
        return len(self._layers)

    def __enter__(self):
        self._handles = [layer.register_forward_pre_hook(self._compare) for layer in self._layers]
        return self

    def __exit__(self, *exception):
        for handle in self._handles:
            handle.remove()
        self._handles, self._terms = [], []

    def _compare(self, layer, inputs):
        x = inputs[0]
        over = [axis for axis in range(x.ndim) if axis != 1]
        variance, mean = torch.var_mean(x, dim=over, correction=0)
        self._terms.append(
            torch.linalg.vector_norm(layer.running_mean - mean)
            + torch.linalg.vector_norm(layer.running_var - variance)
        )

    def forget(self):
        """Drop what earlier forward passes have left."""
        self._terms = []

    def loss(self):
        """The loss of the forward passes since :meth:`forget`; 0 without layers."""
        return sum(self._terms) if self._terms else torch.zeros(())


def onehot_loss(logits, target=None):
    """Cross-entropy with a prescribed class, or with the class that is predicted."""
    return nn.functional.cross_entropy(logits, logits.argmax(dim=1) if target is None else target)


def balance_loss(logits):
    """Negative entropy of the mean class probabilities: -log K where the batch is uniform."""
    mean = logits.softmax(dim=1).mean(dim=0)
    return torch.xlogy(mean, mean).sum()


def adversarial_loss(teacher_logits, student_logits, *, agreeing_only=False):
    """Minus the divergence KL(teacher || student).

    Parameters
    ----------
    teacher_logits, student_logits : Tensor of shape (n, n_classes)
        Outputs on the same samples.
    agreeing_only : bool
        Whether samples on whose class the two disagree count as 0.

    Returns
    -------
    Tensor
        A scalar, the mean over the batch.
    """
    divergence = row_divergence(teacher_logits.log_softmax(1), student_logits.log_softmax(1))
    if agreeing_only:
        divergence = divergence * (teacher_logits.argmax(1) == student_logits.argmax(1))
    return -divergence.mean()


def contrastive_loss(views, bank, head, temperature):
    """Contrast of two views of a sample with all other samples, new and old.

    Parameters
    ----------
    views : pair of Tensor of shape (n, p)
        Features of a global and of a local view of each sample.
    bank : pair of Tensor of shape (m, p)
        The same of earlier samples.
    head : torch.nn.Module
        Projection of features.
    temperature : float
        Divides the cosine similarities.

    Returns
    -------
    Tensor
        A scalar: mean over the samples of the cross-entropy that picks the local view of a
        sample among all other views, given its global one.
    """
    n, m = len(views[0]), len(bank[0])
    projected = nn.functional.normalize(head(torch.cat([*views, *bank])), dim=1)
    logits = projected[:n] @ projected.T / temperature
    itself = torch.eye(n, 2 * n + 2 * m, dtype=torch.bool, device=logits.device)
    partner = torch.arange(n, 2 * n, device=logits.device)
    return nn.functional.cross_entropy(logits.masked_fill(itself, -torch.inf), partner)


def row_divergence(log_p, log_q):
    """KL(p || q) of each row, from logarithms of probabilities."""
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)
