"""Elements of classical groups, and concrete representations of quantum groups."""

import numpy as np
from sklearn.utils import check_random_state

from ._basis import check_dimension
from ._groups import get_group

_PAULI_X = np.array([[0, 1], [1, 0]], dtype=complex)
_PAULI_Y = np.array([[0, -1j], [1j, 0]])
_PAULI_Z = np.array([[1, 0], [0, -1]], dtype=complex)


def sample_group(group, n, random_state=None):
    """Draw an element of a classical group.

    Parameters
    ----------
    group : {"S", "O", "H", "B", "S'", "B'", "U"}
        Name of the group.
    n : int
        Dimension.
    random_state : int, RandomState instance or None, default=None
        Source of the element.

    Returns
    -------
    ndarray of shape (n, n)
        A uniformly drawn matrix: float64, for "U" complex128.

    Raises
    ------
    ValueError
        If the group has no elements, being quantum, or is unknown.

    See Also
    --------
    quantum_representation : What stands for an element of a quantum group.

    Notes
    -----
    "S": permutation matrices. "O": orthogonal, "U": unitary matrices by the Haar measure. "H":
    signed permutations. "B": orthogonal matrices whose rows sum to one, U diag(1, V) U' with V
    orthogonal and 1/sqrt(n) in the first column of U. "S'", "B'": those times plus or minus one.

    References
    ----------
    .. [1] F. Mezzadri. "How to generate random matrices from the classical compact groups."
       Notices of the AMS 54 (2007), 592-604. https://arxiv.org/abs/math-ph/0609050

    Examples
    --------
    >>> from skml.equivariant import sample_group
    >>> sample_group("S", 3, random_state=0)
    array([[0., 0., 1.],
           [0., 1., 0.],
           [1., 0., 0.]])
    """
    group = get_group(group)
    if group.is_quantum:
        raise ValueError(
            f"{group.name!r} is a quantum group and has no elements; sample its classical version "
            f"{group.classical!r}, or use quantum_representation."
        )
    n, rng = check_dimension(n), check_random_state(random_state)
    name = group.name.rstrip("'")
    if name in {"S", "H"}:
        element = np.eye(n)[rng.permutation(n)]
        if name == "H":
            element *= rng.choice([-1.0, 1.0], size=(n, 1))
    elif name == "B":
        element = np.ones((1, 1))
        if n > 1:
            element = _around_ones(element, _haar(n - 1, rng))
    else:
        element = _haar(n, rng, is_complex=name == "U")
    return -element if group.even_total and rng.randint(2) else element


def quantum_representation(group, n, random_state=None):
    """Draw a representation of a quantum group by matrices of matrices.

    What it is for: a linear map T from order k to order l belongs to the quantum group only if
    it satisfies T u⊗...⊗u = u⊗...⊗u T (k and l factors) for such a u, whose entries do not
    commute. Elements of the classical group cannot tell.

    Parameters
    ----------
    group : {"S+", "O+", "H+", "B+", "B'+", "B#+"}
        Name of the quantum group.
    n : int
        Dimension: 4 for "S+" and "H+", 2 or 4 for "O+", 3 or 4 for "B+", 3 for "B'+" and "B#+".
    random_state : int, RandomState instance or None, default=None
        Source of the representation. A map that intertwines three draws intertwines them all.

    Returns
    -------
    ndarray of shape (n, n, d, d), dtype complex128
        The entries u[i, j] are d x d matrices that satisfy the relations of the quantum group.

    Raises
    ------
    NotImplementedError
        If there is no representation here for this group and n.
    ValueError
        If the group is unknown.

    See Also
    --------
    sample_group : Elements of classical groups.
    equivariance_error : Uses both.

    Notes
    -----
    "S+", n = 4: the Pauli magic unitary, u[i, j] the projection on vec(c_i x c_j*) / sqrt(2) with
    c = (1, iX, iY, iZ) and x in SU(2). "O+", n = 2: [[cos t X, sin t Z], [sin t Z, cos t X]] beside
    an element of O_2. "H+", "O+" and "B+", n = 4: the Pauli magic unitary beside an element of the
    classical group. "B+", n = 3: U diag(1, v) U' with v = a u b, u from O_2^+ and a, b in O_2; for
    "B'+" beside its negative, for "B#+" with a random symmetry that does not commute with v in
    place of 1. "Beside" means the direct sum, which is a representation too.

    References
    ----------
    .. [1] T. Banica, B. Collins. "Integration over the Pauli quantum group." Journal of Geometry
       and Physics 58 (2008), 942-961. https://arxiv.org/abs/math/0610041
    .. [2] M. Weber. "On the classification of easy quantum groups." Advances in Mathematics 245
       (2013), 500-533. https://arxiv.org/abs/1201.4723

    Examples
    --------
    Rows and columns of a magic unitary are made of projections that sum to one:

    >>> import numpy as np
    >>> from skml.equivariant import quantum_representation
    >>> u = quantum_representation("S+", 4, random_state=0)
    >>> u.shape, np.allclose(u.sum(axis=0), np.eye(4)), np.allclose(u[0, 0] @ u[0, 0], u[0, 0])
    ((4, 4, 4, 4), True, True)
    """
    group, n = get_group(group), check_dimension(n)
    make = _REPRESENTATIONS.get((group.name, n))
    if make is None:
        listed = ", ".join(f"({name!r}, {size})" for name, size in _REPRESENTATIONS)
        raise NotImplementedError(
            f"there is no representation of group {group.name!r} with n={n} here; available are "
            f"{listed}."
        )
    return make(check_random_state(random_state))


def has_quantum_representation(group, n):
    """Whether :func:`quantum_representation` knows the pair."""
    return (group, n) in _REPRESENTATIONS


def operator_power(u, order):
    """Tensor power of a matrix over an algebra, its entries multiplied in order.

    Parameters
    ----------
    u : ndarray of shape (n, n, d, d)
        The matrix.
    order : int
        The power k.

    Returns
    -------
    ndarray of shape (n**k, n**k, d, d)
        Entry (I, J) is u[i1, j1] @ ... @ u[ik, jk].
    """
    n, d = len(u), u.shape[-1]
    power = np.eye(d, dtype=u.dtype)[None, None]
    for _ in range(order):
        size = len(power) * n
        power = np.einsum("IJab,ijbc->IiJjac", power, u).reshape(size, size, d, d)
    return power


def intertwiner_residual(maps, u, order_in, order_out):
    """Largest entry of T u^k - u^l T for each of several maps.

    Parameters
    ----------
    maps : ndarray of shape (n_maps, n**order_out, n**order_in)
        The maps T.
    u : ndarray of shape (n, n, d, d)
        A representation.
    order_in, order_out : int
        k and l.

    Returns
    -------
    ndarray of shape (n_maps,)
        The largest modulus.
    """
    maps = np.asarray(maps)
    inner, outer = operator_power(u, order_in), operator_power(u, order_out)
    difference = np.einsum("tJI,IKab->tJKab", maps, inner) - np.einsum(
        "JKab,tKI->tJIab", outer, maps
    )
    return np.abs(difference).max(axis=(1, 2, 3, 4), initial=0.0)


def _haar(n, rng, *, is_complex=False):
    gauss = rng.standard_normal((n, n))
    if is_complex:
        gauss = gauss + 1j * rng.standard_normal((n, n))
    q, r = np.linalg.qr(gauss)
    diagonal = np.diagonal(r)
    return q * (diagonal / np.abs(diagonal))  # without it QR prefers some signs


def _ones_first(n):
    """Orthogonal matrix whose first column is 1/sqrt(n)."""
    columns = np.eye(n)
    columns[:, 0] = 1.0
    q, r = np.linalg.qr(columns)
    return q * np.sign(np.diagonal(r))


def _around_ones(first, rest):
    """U diag(first, rest) U' of plain matrices, U as in :func:`_ones_first`."""
    n = len(first) + len(rest)
    middle = np.zeros((n, n))
    middle[:1, :1], middle[1:, 1:] = first, rest
    basis = _ones_first(n)
    return basis @ middle @ basis.T


def _pauli_model(rng):
    quaternion = rng.standard_normal(4)
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    basis = [np.eye(2, dtype=complex), 1j * _PAULI_X, 1j * _PAULI_Y, 1j * _PAULI_Z]
    rotation = sum(part * matrix for part, matrix in zip((w, x, y, z), basis, strict=True))
    vectors = np.array(
        [[(a @ rotation @ b.conj().T).ravel() / np.sqrt(2) for b in basis] for a in basis]
    )
    return np.einsum("ija,ijb->ijab", vectors, vectors.conj())


def _anticommuting_orthogonal(rng):
    angle = rng.uniform(0, 2 * np.pi)
    cosine, sine = np.cos(angle) * _PAULI_X, np.sin(angle) * _PAULI_Z
    return np.array([[cosine, sine], [sine, cosine]])


def _direct_sum(u, v):
    n, d, e = len(u), u.shape[-1], v.shape[-1]
    total = np.zeros((n, n, d + e, d + e), dtype=complex)
    total[..., :d, :d], total[..., d:, d:] = u, v
    return total


def _beside_classical(make, group, n):
    def draw(rng):
        return _direct_sum(make(rng), sample_group(group, n, rng)[..., None, None])

    return draw


def _bistochastic(rng, first=None):
    """U diag(first, v) U', with U as in :func:`_ones_first` and 2 x 2 matrices as entries."""
    a, b = _haar(2, rng), _haar(2, rng)
    v = np.einsum("ip,pqab,qj->ijab", a, _anticommuting_orthogonal(rng), b)
    middle = np.zeros((3, 3, 2, 2), dtype=complex)
    middle[0, 0] = np.eye(2) if first is None else first
    middle[1:, 1:] = v
    basis = _ones_first(3)
    return np.einsum("ip,pqab,jq->ijab", basis, middle, basis)


def _signed_bistochastic(rng):
    u = _bistochastic(rng)
    return _direct_sum(u, -u)


def _freely_signed_bistochastic(rng):
    rotation = _haar(2, rng, is_complex=True)
    return _bistochastic(rng, first=rotation @ _PAULI_Z @ rotation.conj().T)


_REPRESENTATIONS = {
    ("S+", 4): _pauli_model,
    ("O+", 2): _beside_classical(_anticommuting_orthogonal, "O", 2),
    ("O+", 4): _beside_classical(_pauli_model, "O", 4),
    ("H+", 4): _beside_classical(_pauli_model, "H", 4),
    ("B+", 4): _beside_classical(_pauli_model, "B", 4),
    ("B+", 3): _bistochastic,
    ("B'+", 3): _signed_bistochastic,
    ("B#+", 3): _freely_signed_bistochastic,
}
