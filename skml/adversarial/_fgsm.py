"""The attack by a single gradient step."""

from ._pgd import pgd_attack


def fgsm_attack(
    module, X, y, *, eps, norm="inf", loss="margin", targeted=False, clip_values=(0, 1)
):
    """Attack a classifier by one gradient step of length `eps`.

    Parameters
    ----------
    module : torch.nn.Module
        The classifier; it maps (n, ...) to logits (n, n_classes). It is attacked in evaluation
        mode and left in the mode in which it was, with ``.grad`` of its parameters untouched.
    X : array-like or torch.Tensor of shape (n, ...)
        Samples, inside `clip_values`.
    y : array-like or torch.Tensor of shape (n,), dtype int
        Column of the class to lead away from, or to lead to if `targeted`.
    eps : float
        Length of the step, as a fraction of the range of `clip_values`.
    norm : {"inf", "l2"}, default="inf"
        Norm in which the step has that length.
    loss : {"margin", "cross_entropy"} or callable, default="margin"
        As in :func:`pgd_attack`.
    targeted : bool, default=False
        Whether y is where to go.
    clip_values : tuple of (float or torch.Tensor, float or torch.Tensor) or None, default=(0, 1)
        As in :func:`pgd_attack`.

    Returns
    -------
    torch.Tensor of shape (n, ...)
        The attacked samples.

    See Also
    --------
    pgd_attack : Several steps.

    References
    ----------
    .. [1] I. J. Goodfellow, J. Shlens, C. Szegedy. "Explaining and harnessing adversarial
       examples." ICLR 2015. https://arxiv.org/abs/1412.6572

    Examples
    --------
    >>> import torch
    >>> from skml.adversarial import fgsm_attack
    >>> module = torch.nn.Linear(2, 2, bias=False)
    >>> _ = module.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 1.0]])})
    >>> fgsm_attack(module, torch.tensor([[0.6, 0.4]]), [0], eps=0.25)
    tensor([[0.3500, 0.6500]])
    """
    return pgd_attack(
        module,
        X,
        y,
        eps=eps,
        step_size=eps,
        n_steps=1,
        norm=norm,
        loss=loss,
        targeted=targeted,
        random_start=False,
        clip_values=clip_values,
    )
