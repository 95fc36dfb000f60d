"""The loss of a non-transferable classifier, and the discrepancy of its features."""

import torch
from torch import nn

_N_KERNELS = 5
_LEAST_BANDWIDTH = 1e-12


def multi_kernel_mmd(a, b):
    """Maximum mean discrepancy of two samples under a sum of five Gaussian kernels.

    Parameters
    ----------
    a, b : Tensor of shape (n, p) and (m, p)
        The samples.

    Returns
    -------
    Tensor
        A scalar: mean of XX + YY - XY - YX, biased. At most 7.743 for samples of one size.

    Notes
    -----
    The kernels are exp(-D / (b 2^i)) for i = 0..4 with D the squared distance and b a quarter of
    its mean over distinct pairs of both samples together, which is held constant.
    """
    both = torch.cat([a, b])
    centred = both - both.mean(dim=0)
    squares = centred.square().sum(dim=1)
    distances = (squares[:, None] + squares[None, :] - 2 * centred @ centred.T).clamp_min(0)
    n = len(both)
    bandwidth = (distances.detach().sum() / (n * n - n) / 4).clamp_min(_LEAST_BANDWIDTH)
    kernel = sum(torch.exp(-distances / (bandwidth * 2**i)) for i in range(_N_KERNELS))
    within_a, within_b = kernel[: len(a), : len(a)].mean(), kernel[len(a) :, len(a) :].mean()
    return within_a + within_b - 2 * kernel[: len(a), len(a) :].mean()


class NonTransferableLoss(nn.Module):
    """Loss that makes a classifier good on one domain and bad, in a planned way, on another.

    Parameters
    ----------
    mode : {"close", "open", "backdoor"}
        Whether samples of the other domain shall be misclassified, or sent to one class.
    alpha, beta : float
        Weights inside the two clamps.
    divergence : {"kl", "ce"}
        Cross-entropy divided by the number of classes, or as it is.
    planted : int
        Column to which "open" and "backdoor" send the other domain.
    """

    def __init__(self, mode="close", alpha=0.1, beta=0.1, divergence="kl", planted=0):
        super().__init__()
        self.mode = mode
        self.alpha = alpha
        self.beta = beta
        self.divergence = divergence
        self.planted = planted

    def forward(self, logits, y, other_logits=None, other_y=None, features=None):
        """The loss of a batch.

        Parameters
        ----------
        logits, y : Tensor of shape (n, n_classes) and (n,)
            Output and label of the first domain.
        other_logits, other_y : Tensor of shape (m, n_classes) and (m,), or None
            The same of the other domain; None for plain training.
        features : pair of Tensor, or None
            Features of the two domains.

        Returns
        -------
        Tensor
            A scalar.
        """
        loss = self._divergence(logits, y)
        if other_logits is None:
            return loss
        mmd = (self.beta * multi_kernel_mmd(*features)).clamp_max(1.0)
        if self.mode == "close":
            gap = (self.alpha * self._divergence(other_logits, other_y)).clamp_max(1.0)
            return loss - gap * mmd
        planted = torch.full((len(other_logits),), self.planted, device=y.device)
        return loss + nn.functional.cross_entropy(other_logits, planted) - self.alpha * mmd

    def _divergence(self, logits, y):
        entropy = nn.functional.cross_entropy(logits, y)
        return entropy / logits.shape[1] if self.divergence == "kl" else entropy
