"""How far a model is from commuting with its group."""

from numbers import Integral

import numpy as np
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from ._groups import get_group
from ._representations import (
    has_quantum_representation,
    intertwiner_residual,
    quantum_representation,
    sample_group,
)

# The operators of a check on a quantum representation have this many entries at most.
_LARGEST_POWER = 4096


def equivariance_error(model, X, n_samples=5, random_state=None):
    r"""Measure how far a model is from commuting with its group.

    Parameters
    ----------
    model : estimator or torch.nn.Module
        A fitted estimator of this package, an :class:`EquivariantLinear` or an
        :class:`EquivariantNetwork`.
    X : array-like of shape (n_samples, n_features)
        Rows to try. For a module: channels and entries of its first (only) input tensor in C
        order.
    n_samples : int, default=5
        Number of group elements that are drawn.
    random_state : int, RandomState instance or None, default=None
        Source of the group elements.

    Returns
    -------
    float
        The largest deviation, relative to the largest output.

    Raises
    ------
    TypeError
        If the model is of another kind.
    ValueError
        If X does not fit the model, or `n_samples` is not positive.

    See Also
    --------
    sample_group : Draws the elements.
    quantum_representation : Tells a quantum group from its classical version.

    Notes
    -----
    The deviation is :math:`\max |f(g x) - g f(x)| / \max |f(x)|`, over elements g of the classical
    version of the group. A quantum group is larger than its classical version, and that part is
    seen only in a representation: where there is one for the group and n, the residual
    :math:`\max |T u^{\otimes k} - u^{\otimes l} T| / \max |T|` of each linear layer counts as well,
    unless its matrices are very large.

    Rounding makes about 1e-15 of it in double, 1e-6 in single precision.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    >>> import numpy as np
    >>> from skml.equivariant import EquivariantPolynomialFeatures, equivariance_error
    >>> X = np.random.default_rng(0).normal(size=(10, 4))
    >>> features = EquivariantPolynomialFeatures("S", order_out=1, degree=3).fit(X)
    >>> equivariance_error(features, X, random_state=0) < 1e-12
    True
    """
    if not isinstance(n_samples, Integral) or isinstance(n_samples, bool) or n_samples < 1:
        raise ValueError(f"n_samples must be an int of at least 1, got {n_samples!r}.")
    if not hasattr(model, "_equivariant_map"):
        raise TypeError(
            "model must be an estimator or a module of skml.equivariant, got "
            f"{type(model).__name__}."
        )
    if hasattr(model, "get_params"):
        check_is_fitted(model)
    function, n, order_in, order_out = model._equivariant_map()
    X = check_array(X, dtype=[np.float64, np.float32])
    if X.shape[1] % n**order_in:
        raise ValueError(
            f"X has {X.shape[1]} features, which is no multiple of n**order_in = {n**order_in}."
        )
    rng = check_random_state(random_state)
    group = get_group(model.group)
    expected = function(X)
    size = np.abs(expected).max(initial=0.0) or 1.0
    worst = 0.0
    for _ in range(n_samples):
        element = sample_group(group.classical, n, rng).astype(X.dtype)
        moved = function(_act(element, X, order_in))
        deviation = np.abs(moved - _act(element, expected, order_out)).max(initial=0.0)
        worst = max(worst, float(deviation / size))
    for maps, k, l in _linear_maps(model):
        if has_quantum_representation(group.name, n) and n ** (k + l) <= _LARGEST_POWER:
            u = quantum_representation(group.name, n, rng)
            residual = intertwiner_residual(maps, u, k, l).max(initial=0.0)
            worst = max(worst, float(residual / (np.abs(maps).max(initial=0.0) or 1.0)))
    return worst


def _act(element, rows, order):
    """Let a group element act on every index of the tensors in the columns."""
    n = len(element)
    shape = rows.shape
    tensors = rows.reshape(len(rows), -1, *[n] * order)
    for axis in range(2, 2 + order):
        tensors = np.moveaxis(np.tensordot(element, tensors, axes=(1, axis)), 0, axis)
    return tensors.reshape(shape)


def _linear_maps(model):
    """The matrices of the linear layers with their orders."""
    for layer in getattr(model, "_linear_layers", list)():
        for i, (k, _) in enumerate(layer.in_spec):
            for j, (l, _) in enumerate(layer.out_spec):
                matrix = layer.dense_weight(i, j).detach().cpu().double().numpy()
                yield np.moveaxis(matrix, 2, 1).reshape(-1, *matrix.shape[1::2]), k, l
