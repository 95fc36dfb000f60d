"""What a student minimises: closeness on fragile samples, bounded distance on robust ones."""

from torch import nn

from ._generator_losses import row_divergence


class TrapEscapingLoss(nn.Module):
    """Calibrated distillation with bounded forgetting.

    Parameters
    ----------
    temperature : float
        Divides the student's logits; those of the teacher are divided already.
    forget_weight : float
        Weight of the forgetting term.
    forget_clip : float
        Divergence at which a robust sample counts as forgotten and has no gradient any more.

    Notes
    -----
    With F the fragile and R the robust samples of a batch,

    .. math:: L_S = \\mathrm{mean}_F\\, d - \\lambda\\, \\mathrm{mean}_R \\min(c, d),
        \\quad d = T^2\\, KL(t \\| s)

    where the mean over an empty group is 0.
    """

    def __init__(self, temperature=1.0, forget_weight=1.0, forget_clip=1.0):
        super().__init__()
        self.temperature = temperature
        self.forget_weight = forget_weight
        self.forget_clip = forget_clip

    def terms(self, student_logits, teacher_log_probabilities, fragile):
        """The distillation and the forgetting term, both to be read as mean divergences.

        Parameters
        ----------
        student_logits : Tensor of shape (n, n_classes)
            The student's output.
        teacher_log_probabilities : Tensor of shape (n, n_classes)
            Log-softmax of the teacher's logits over the temperature.
        fragile : Tensor of shape (n,), dtype bool
            The group of each sample.

        Returns
        -------
        tuple of (Tensor, Tensor)
            Mean of d over F, and of min(c, d) over R.
        """
        log_s = (student_logits / self.temperature).log_softmax(dim=1)
        divergence = row_divergence(teacher_log_probabilities, log_s) * self.temperature**2
        robust = ~fragile
        close = divergence.where(fragile, 0).sum() / fragile.sum().clamp_min(1)
        bounded = divergence.clamp_max(self.forget_clip)
        far = bounded.where(robust, 0).sum() / robust.sum().clamp_min(1)
        return close, far

    def forward(self, student_logits, target):
        """The loss of a batch whose target is (teacher_log_probabilities, fragile)."""
        close, far = self.terms(student_logits, *target)
        return close - self.forget_weight * far
