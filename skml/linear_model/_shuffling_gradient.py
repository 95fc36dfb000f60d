"""The shuffling gradient method for any finite sum of functions."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy.optimize import OptimizeResult
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ._shuffling_orders import Orders, check_horizon

__all__ = ["shuffling_gradient"]


def shuffling_gradient(
    fun,
    grad_i,
    w0,
    n,
    *,
    order="reshuffle",
    step,
    max_iter=100,
    callback=None,
    random_state=None,
):
    r"""Minimise a mean of n functions by epochs of gradient steps, one for each function.

    Parameters
    ----------
    fun : callable
        ``fun(w)`` returns the mean :math:`F(w) = \frac{1}{n} \sum_i f_i(w)`.
    grad_i : callable
        ``grad_i(w, i)`` returns the gradient of :math:`f_i` at w, an array of the shape of w; it
        must not keep or change w.
    w0 : array-like
        Start, of any shape.
    n : int
        Number of functions.
    order : str, array-like or callable, default="reshuffle"
        Order of the functions in an epoch, each once: "reshuffle" draws it anew each epoch,
        "shuffle_once" draws it once, "incremental" is 0, 1, ..., n - 1. An array of shape (n,) is
        used in every epoch, one of shape (max_iter, n) has a row for each, and a callable is
        called as ``order(epoch, rng, n)``.
    step : float or callable
        Step :math:`\eta_t` of an epoch, n times that of a function; ``step(t)`` gives it for
        t = 1, 2, ...
    max_iter : int, default=100
        Number of epochs.
    callback : callable or None, default=None
        Called after each epoch as ``callback(t, w, value)``; a true result ends the run.
    random_state : int, RandomState instance or None, default=None
        Source of the permutations.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With `x` (the last finite epoch iterate), `fun` (F there), `nit` (epochs), `success`
        (False if F overflowed), `message`, `objective_curve` and `step_sizes` (lists of float).

    Raises
    ------
    ValueError
        If an order is not a permutation, a step is not positive, or a gradient has another shape
        than w.

    See Also
    --------
    ShufflingSGDRegressor : Compiled, for linear models.

    Notes
    -----
    Epoch t goes :math:`w \leftarrow w - \frac{\eta_t}{n} \nabla f_{\pi(i)}(w)` for i = 1, ..., n,
    each gradient at the current iterate.

    References
    ----------
    .. [1] Q. He, P. Yu, Z. Chen, H. Huang. "Revisiting Convergence: Shuffling Complexity Beyond
           Lipschitz Smoothness". ICML 2025, PMLR 267:22816-22835. arXiv:2507.08913.

    Examples
    --------
    >>> import numpy as np
    >>> from skml.linear_model import shuffling_gradient
    >>> targets = np.array([1.0, 2.0, 6.0])
    >>> result = shuffling_gradient(
    ...     lambda w: np.mean((w - targets) ** 2) / 2,
    ...     lambda w, i: w - targets[i],
    ...     0.0,
    ...     3,
    ...     step=lambda t: 3 / (t + 3),
    ...     max_iter=2000,
    ...     random_state=0,
    ... )
    >>> round(float(result.x), 2)
    3.0
    """
    for name, value in (("n", n), ("max_iter", max_iter)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
    w = np.array(w0, dtype=np.float64)
    orders = Orders(order, n, check_random_state(random_state))
    check_horizon(orders, max_iter)
    value = float(fun(w))
    result = OptimizeResult(x=w, fun=value, nit=0, success=True, objective_curve=[], step_sizes=[])
    result.message = "All epochs are done."
    for t in range(1, max_iter + 1):
        eta = _checked_step(step(t) if callable(step) else step, t)
        w = _epoch(grad_i, result.x, orders(t), eta / n)
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(fun(w))
        if not (np.isfinite(value) and np.all(np.isfinite(w))):
            result.success = False
            result.message = (
                f"The objective overflowed in epoch {t} with step={eta:.3g}: the iterate of the "
                "epoch before is kept. Use a smaller step."
            )
            warnings.warn(result.message, ConvergenceWarning, stacklevel=2)
            break
        result.x, result.fun, result.nit = w, value, t
        result.objective_curve.append(value)
        result.step_sizes.append(eta)
        if callback is not None and callback(t, w, value):
            result.message = "The callback ended the run."
            break
    return result


def _epoch(grad_i, start, order, gamma):
    w = start.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for i in order.tolist():
            gradient = np.asarray(grad_i(w, i))
            if gradient.shape != w.shape:
                raise ValueError(
                    f"grad_i must return an array of shape {w.shape}, got {gradient.shape}"
                )
            w = w - gamma * gradient
    return w


def _checked_step(eta, t):
    if not (isinstance(eta, Real) and 0 < eta < np.inf):
        raise ValueError(f"step must be a positive number, got {eta!r} in epoch {t}")
    return float(eta)
