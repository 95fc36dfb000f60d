"""The losses of the shuffling solvers: constants, lower bounds and local smoothness."""

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from . import _shuffling
from ._shuffling_theory import LocalSmoothness

__all__ = ["CLASSIFICATION_LOSSES", "REGRESSION_LOSSES", "Loss", "make_loss"]

REGRESSION_LOSSES = ("squared_error", "huber", "poisson", "gamma", "power")
CLASSIFICATION_LOSSES = ("log_loss", "squared_hinge", "modified_huber", "exponential")

# Largest second derivative, for the losses that have one.
_GREATEST_CURVATURE = {
    "squared_error": 1.0,
    "huber": 1.0,
    "log_loss": 0.25,
    "squared_hinge": 2.0,
    "modified_huber": 2.0,
}


@dataclass(frozen=True)
class Loss:
    """A loss f(z) of the linear predictor z, for a target y.

    Attributes
    ----------
    name : str
        Value of the parameter `loss`.
    parameter : float
        Epsilon of "huber", exponent of "power", else 0.
    """

    name: str
    parameter: float = 0.0

    @property
    def code(self):
        """Number under which the kernel knows the loss."""
        return _shuffling.LOSS_CODES[self.name]

    @property
    def has_log_link(self):
        """Whether the prediction is exp(z)."""
        return self.name in ("poisson", "gamma")

    @property
    def greatest_curvature(self):
        """Bound of f'' over all z, None if there is none."""
        return _GREATEST_CURVATURE.get(self.name)

    def derivatives(self, z, y):
        """Return f, f' and f'' row by row."""
        return _shuffling.pointwise(
            self.code,
            self.parameter,
            np.ascontiguousarray(z, dtype=np.float64),
            np.ascontiguousarray(y, dtype=np.float64),
        )

    def check_target(self, y):
        """Refuse targets outside of the range of the loss."""
        if self.name == "poisson" and y.min() < 0:
            raise ValueError(
                f"Some value(s) of y are out of the valid range of loss='poisson': y must be "
                f"non-negative, got a minimum of {y.min():g}"
            )
        if self.name == "gamma" and y.min() <= 0:
            raise ValueError(
                f"Some value(s) of y are out of the valid range of loss='gamma': y must be "
                f"positive, got a minimum of {y.min():g}"
            )

    def lower_bound(self, y, weight):
        """Bound the mean loss from below, over all predictors."""
        if self.name == "poisson":
            return float(np.average(y - xlogy(y, y), weights=weight))
        if self.name == "gamma":
            return float(np.average(1 + np.log(y), weights=weight))
        return 0.0

    def smoothness(self, y, weight, row_norms, alpha):
        """Find ell with ||hess f_i|| <= ell(||grad f_i||) for every row i.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets.
        weight : ndarray of shape (n,) or None
            Weights with mean 1, which multiply the losses.
        row_norms : ndarray of shape (n,)
            R_i, the norm of (x_i, 1), or of x_i if there is no intercept.
        alpha : float
            Price of half the squared norm of the coefficients.

        Returns
        -------
        LocalSmoothness
            The function ell of the losses with their penalty, not yet shifted for the penalty's
            gradient.
        """
        s = np.ones_like(row_norms) if weight is None else weight
        R = row_norms
        if self.greatest_curvature is not None:
            return LocalSmoothness(float(np.max(self.greatest_curvature * s * R**2)) + alpha)
        if self.name == "power":
            q = self.parameter
            scale = np.max((q - 1) * s ** (1 / (q - 1)) * R ** (q / (q - 1)))
            return LocalSmoothness(alpha, float(scale), (q - 2) / (q - 1))
        # f'' <= c + |f'| with c = y, 1 or 0
        constant = {"poisson": y, "gamma": np.ones_like(y), "exponential": np.zeros_like(y)}
        L0 = float(np.max(s * constant[self.name] * R**2)) + alpha
        return LocalSmoothness(L0, float(np.max(R)), 1.0)


def make_loss(name, *, huber_epsilon=0.1, power=4.0):
    """Make the loss of an estimator's parameters."""
    parameter = {"huber": huber_epsilon, "power": power}.get(name, 0.0)
    return Loss(name, float(parameter))
