"""The matrix that lets strong and weak directions of a kernel be learnt at one rate."""

from numbers import Integral
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
import torch

# Below this size all eigenpairs cost about as much as the leading ones.
_FULL_EIGH = 512


class Balance(NamedTuple):
    """S = I - V diag(c) V^T in factors.

    Attributes
    ----------
    vectors : torch.Tensor of shape (n, b)
        V, the eigenvectors of the balanced eigenvalues.
    coefficients : torch.Tensor of shape (b,)
        c_i = 1 - l_ref / l_i.
    eigenvalues : torch.Tensor of shape (n,) or (n_leading,), dtype float64
        Eigenvalues of the kernel, largest first; of a large kernel the leading ones.
    balanced_eigenvalues : torch.Tensor, dtype float64
        The same after multiplication by S.
    """

    vectors: torch.Tensor
    coefficients: torch.Tensor
    eigenvalues: torch.Tensor
    balanced_eigenvalues: torch.Tensor

    def apply(self, rows):
        """Multiply S by a tensor of shape (n, k), without forming S."""
        weighted = self.coefficients.unsqueeze(1) * (self.vectors.T @ rows)
        return torch.addmm(rows, self.vectors, weighted, alpha=-1)


def balancing_matrix(K, end, start=0, reference="end"):
    """Make the matrix S that balances the leading eigenvalues of a kernel.

    Parameters
    ----------
    K : array-like or torch.Tensor of shape (n, n)
        Symmetric positive semi-definite kernel. Its scale does not matter.
    end : int
        Eigenvalues with index start, ..., end - 1 are balanced, the largest having index 0.
        It is lowered to one less than the numerical rank of K.
    start : int, default=0
        First index.
    reference : {"end", "start"}, default="end"
        Which eigenvalue the others become: "end", the first that is left alone, which slows
        strong directions and suits Adam; "start", the strongest of the block, which speeds weak
        directions up and suits plain gradient descent.

    Returns
    -------
    ndarray or torch.Tensor of shape (n, n)
        S, of the kind and type of K (float64 if K holds integers). The identity where
        end <= start.

    Raises
    ------
    ValueError
        If K is not a finite symmetric matrix, or an argument is out of range.
    TypeError
        If K is sparse or does not hold real numbers.

    See Also
    --------
    empirical_ntk : The kernel of a network.
    adjust_gradients : Applies S to the gradients of groups of points.

    Notes
    -----
    With eigenvalues l_0 >= l_1 >= ... and eigenvectors v_i of K,

    .. math:: S = I - \\sum_{i = start}^{end - 1} (1 - l_{ref} / l_i) v_i v_i^T

    so that S K has the eigenvalue l_ref in place of those from start to end - 1. The rank counts
    l_i > n eps l_0, with eps of the type of K: smaller eigenvalues are rounding errors.

    References
    ----------
    .. [1] K. Shi, H. Chen, L. Zhang, S. Gu. "Inductive gradient adjustment for spectral bias in
       implicit neural representations." ICML 2025. https://arxiv.org/abs/2410.13271

    Examples
    --------
    >>> import numpy as np
    >>> from skml.implicit import balancing_matrix
    >>> K = np.diag([8.0, 4.0, 2.0, 1.0])
    >>> balancing_matrix(K, 2) @ K
    array([[2., 0., 0., 0.],
           [0., 2., 0., 0.],
           [0., 0., 2., 0.],
           [0., 0., 0., 1.]])
    """
    is_tensor = isinstance(K, torch.Tensor)
    kernel = as_real_tensor(K, "K")
    _check_kernel(kernel)
    _check_block(end, start, reference)
    balance = balance_kernel(kernel, end, start, reference)
    S = torch.eye(len(kernel), dtype=kernel.dtype, device=kernel.device)
    if balance is not None:
        S = balance.apply(S)
        S = (S + S.T) / 2
    return S if is_tensor else S.numpy()


def adjust_gradients(gradients, S):
    """Balance the gradients of a loss by the outputs of a network, for groups of points.

    Parameters
    ----------
    gradients : array-like or torch.Tensor of shape (n_groups, ...)
        Gradient of the loss by each output, for instance residuals. The first axis numbers the
        groups; what shares the place on the other axes (the k-th point of each group, and the
        channel) is balanced together.
    S : array-like or torch.Tensor of shape (n_groups, n_groups)
        What :func:`balancing_matrix` returned for one point of each group.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_groups, ...)
        The adjusted gradients, detached, to be passed to ``outputs.backward``.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    TypeError
        If an array is sparse or does not hold real numbers.

    See Also
    --------
    balancing_matrix : Makes S.

    Notes
    -----
    With r the gradients, q[:, k, c] = S r[:, k, c] for each place k in the groups and each channel
    c. For the mean squared error of N points and C channels r is 2 / (N C) times the residual,
    and the parameters get the gradient 2 / (N C) J^T q.

    References
    ----------
    .. [1] K. Shi, H. Chen, L. Zhang, S. Gu. "Inductive gradient adjustment for spectral bias in
       implicit neural representations." ICML 2025. https://arxiv.org/abs/2410.13271

    Examples
    --------
    >>> import numpy as np
    >>> from skml.implicit import adjust_gradients, balancing_matrix
    >>> S = balancing_matrix(np.diag([8.0, 4.0, 2.0]), 2)
    >>> adjust_gradients(np.ones((3, 2)), S)
    array([[0.25, 0.25],
           [0.5 , 0.5 ],
           [1.  , 1.  ]])
    """
    is_tensor = isinstance(gradients, torch.Tensor)
    values = as_real_tensor(gradients, "gradients").detach()
    S = as_real_tensor(S, "S")
    if values.ndim == 0 or S.shape != (len(values), len(values)):
        raise ValueError(
            "S must have a row and a column for each group of gradients, got S of shape "
            f"{tuple(S.shape)} and gradients of shape {tuple(values.shape)}"
        )
    S = S.detach().to(values)
    adjusted = (S @ values.reshape(len(values), -1)).reshape(values.shape)
    return adjusted if is_tensor else adjusted.numpy()


def balance_kernel(kernel, end, start=0, reference="end"):
    """Factors of the balancing matrix of a kernel; None where it is the identity.

    Raises
    ------
    torch.linalg.LinAlgError or numpy.linalg.LinAlgError
        If the eigendecomposition does not converge, or the kernel is not finite.
    """
    if end <= start:
        return None
    n = len(kernel)
    # Spectra span many orders of magnitude: single precision makes small eigenvalues negative.
    exact = kernel.detach().to(device="cpu", dtype=torch.float64)
    values, vectors = _leading_pairs(exact, min(end + 2, n))
    rank = int((values > n * torch.finfo(kernel.dtype).eps * values[0]).sum())
    end = min(end, rank - 1)
    if end <= start:
        return None
    block = values[start:end]
    target = values[end if reference == "end" else start]
    balanced = values.clone()
    balanced[start:end] = target
    return Balance(
        vectors[:, start:end].to(kernel),
        (1 - target / block).to(kernel),
        values,
        balanced,
    )


def _leading_pairs(kernel, n_leading):
    """Eigenpairs in descending order; all of a small matrix, the leading ones of a large one."""
    n = len(kernel)
    if not torch.isfinite(kernel).all():
        raise np.linalg.LinAlgError("the kernel holds NaN or infinity")
    if n <= _FULL_EIGH or n_leading > n // 4:
        values, vectors = torch.linalg.eigh(kernel)
    else:
        values, vectors = scipy.linalg.eigh(
            kernel.numpy(), subset_by_index=(n - n_leading, n - 1), check_finite=False
        )
        values, vectors = torch.from_numpy(values), torch.from_numpy(vectors)
    return values.flip(0), vectors.flip(1)


def as_real_tensor(values, name):
    """A dense tensor of floating point numbers; float64 for other arrays and tensors.

    Parameters
    ----------
    values : array-like or torch.Tensor
        What a user passed.
    name : str
        The argument's name, for messages.

    Returns
    -------
    torch.Tensor
        The values, a copy of them unless they are a tensor.
    """
    if scipy.sparse.issparse(values) or (
        isinstance(values, torch.Tensor) and values.layout != torch.strided
    ):
        raise TypeError(f"{name} must be dense, got a sparse {type(values).__name__}")
    is_tensor = isinstance(values, torch.Tensor)
    if not is_tensor:
        values = np.array(values)
    if values.dtype.is_complex if is_tensor else values.dtype.kind not in "biufO":
        raise TypeError(f"{name} must hold real numbers, got {values.dtype}")
    if is_tensor:
        return values if values.is_floating_point() else values.double()
    if values.dtype not in (np.float32, np.float64):
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must hold real numbers: {error}") from error
    return torch.from_numpy(values)


def _check_kernel(kernel):
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or len(kernel) == 0:
        raise ValueError(f"K must be a square matrix, got shape {tuple(kernel.shape)}")
    if not torch.isfinite(kernel).all():
        raise ValueError("K must be finite, but it holds NaN or infinity")
    asymmetry = (kernel - kernel.T).abs().max().item()
    if asymmetry > 1e-3 * kernel.abs().max().item():
        raise ValueError(f"K must be symmetric, but K and its transpose differ by {asymmetry:.3g}")


def _check_block(end, start, reference):
    for name, value in (("end", end), ("start", start)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name} must be an integer of at least 0, got {value!r}")
    if reference not in ("end", "start"):
        raise ValueError(f"reference must be 'end' or 'start', got {reference!r}")
