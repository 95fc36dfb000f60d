"""Which synthetic samples are fragile: those that a small attack on the teacher reclassifies."""

import math

import torch

from skml.adversarial import pgd_attack

EPS_RANGE = (1e-3, 1.0)
TARGET_SHARE = 0.65
_N_BISECTIONS = 15
# Shares closer than this to the target do not differ in what the student sees.
_TOLERANCE = 0.005


class RobustnessSplit:
    """Splits samples into fragile and robust ones by projected gradient ascent on the teacher.

    Parameters
    ----------
    teacher : torch.nn.Module
        Gives logits; frozen, in evaluation mode.
    eps : float, "auto" or "auto-chunk"
        Radius, as a fraction of each feature's range.
    clip_values : tuple of Tensor
        Least and greatest value of each feature.
    n_steps : int
        Steps of the attack.
    step_size : float or None
        Their length; None: ``2.5 * eps / n_steps``.
    rng : torch.Generator
        Source of the starts, on the CPU; used for nothing else.

    Attributes
    ----------
    eps_used : float or None
        The radius of the last split.
    """

    def __init__(self, teacher, eps, clip_values, *, n_steps, step_size, rng):
        self.teacher = teacher
        self.eps = eps
        self.clip_values = clip_values
        self.n_steps = n_steps
        self.step_size = step_size
        self.rng = rng
        self.eps_used = None if isinstance(eps, str) else float(eps)

    def __call__(self, X, labels):
        """Mask (n,) of the fragile samples, from samples and the teacher's classes of them."""
        if self.eps == "auto-chunk" or self.eps_used is None:
            self.eps_used = self._find_eps(X, labels)
        return self._fragile(X, labels, self.eps_used, self._start(X))

    def _start(self, X):
        direction = 2 * torch.rand(X.shape, generator=self.rng) - 1
        return direction.to(X.device)

    def _fragile(self, X, labels, eps, start):
        return fragile_samples(
            self.teacher,
            X,
            labels,
            eps=eps,
            start=start,
            n_steps=self.n_steps,
            step_size=self.step_size,
            clip_values=self.clip_values,
        )

    def _find_eps(self, X, labels):
        """The radius at which a share of TARGET_SHARE is fragile, by bisection of its logarithm."""
        start = self._start(X)
        low, high = (math.log(eps) for eps in EPS_RANGE)
        for _ in range(_N_BISECTIONS):
            middle = (low + high) / 2
            share = self._fragile(X, labels, math.exp(middle), start).double().mean().item()
            if abs(share - TARGET_SHARE) <= _TOLERANCE:
                break
            low, high = (middle, high) if share < TARGET_SHARE else (low, middle)
        return math.exp(middle)


def fragile_samples(
    teacher, X, labels, *, eps, start, n_steps, step_size, clip_values, batch_size=512
):
    """Find the samples whose class changes at any point of an attack that starts near them.

    Parameters
    ----------
    teacher : torch.nn.Module
        Gives logits.
    X : Tensor of shape (n, ...)
        Samples.
    labels : Tensor of shape (n,)
        The teacher's classes of the samples.
    eps : float
        Radius, as a fraction of each feature's range; 0: no sample is fragile.
    start : Tensor of shape (n, ...)
        Where the attack starts, in the unit ball of the maximum norm.
    n_steps : int
        Number of steps.
    step_size : float or None
        Their length.
    clip_values : tuple of Tensor
        Bounds of the features.
    batch_size : int
        Samples that are attacked together.

    Returns
    -------
    Tensor of shape (n,), dtype bool
        The mask.
    """
    fragile = torch.zeros(len(X), dtype=torch.bool, device=X.device)
    if eps == 0:
        return fragile
    for rows in torch.arange(len(X), device=X.device).split(batch_size):
        # The margin of the logits: the cross-entropy of a very sure teacher has no gradient in
        # float32, and its samples would seem robust.
        attacked = pgd_attack(
            teacher,
            X[rows],
            labels[rows],
            eps=eps,
            step_size=step_size,
            n_steps=n_steps,
            loss="margin",
            random_start=start[rows],
            clip_values=clip_values,
            stop_at_success=True,
        )
        with torch.no_grad():
            fragile[rows] = teacher(attacked).argmax(dim=1) != labels[rows]
    return fragile
