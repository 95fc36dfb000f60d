"""Equivariant polynomials of a tensor, one for each diagram."""

from itertools import permutations
from math import factorial
from numbers import Integral
from string import ascii_letters

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from skml.utils import restores_on_error

from ._basis import basis_labels, spanning_labels
from ._formatting import format_partition
from ._groups import REAL_GROUPS, get_group, no_map_message
from ._independence import blocks_of_joins, is_independent, select_independent
from ._partitions import as_blocks, as_labels, canonical, count_partitions, n_blocks
from ._tensor_input import infer_dimension

_CHUNK_ENTRIES = 2**22
_MOST_VARIANTS = 2**22
_MOST_DIAGRAMS = 2**20


class EquivariantPolynomialFeatures(TransformerMixin, BaseEstimator):
    r"""All polynomials of a tensor, up to a degree, that commute with a group.

    In front of a linear model they make an equivariant model that is solved exactly.

    Parameters
    ----------
    group : str, default="S"
        Name of the group, as in :func:`equivariant_basis`; not a unitary one.

    order_in : int, default=1
        Order k of the tensors; X has n**k columns in C order.

    order_out : int, default=0
        Order l of the tensors that come out.

    degree : int, default=2
        Largest degree.

    include_bias : bool, default=True
        Whether to include degree 0: the invariant tensors of order l.

    Attributes
    ----------
    partitions_ : list of tuple of (int, tuple)
        For each output tensor its degree d and the partition of d k + l points.

    n_ : int
        Dimension n of the base space.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    Raises
    ------
    ValueError
        If there is no such polynomial, or there are too many.

    See Also
    --------
    QuantumGroupEquivariantRegressor : Networks, for what polynomials do not reach.
    sklearn.preprocessing.PolynomialFeatures : All polynomials.

    Notes
    -----
    A feature is :math:`T_\pi x^{\otimes d}` with :math:`\pi \in C(dk, l)`, for example
    :math:`\sum_i x_i^2` for the block {1,2}. Diagrams that differ by a permutation of the d equal
    copies give the same polynomial, of which one is kept; polynomials that depend on others at this
    n are left out. The numbers of a row of X commute, so that a free quantum group has polynomials
    of its own only where noncrossing diagrams are fewer even after such permutations.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    >>> from skml.equivariant import EquivariantPolynomialFeatures
    >>> features = EquivariantPolynomialFeatures("H", degree=4, include_bias=False)
    >>> features.fit_transform([[1.0, 2.0, 3.0]])
    array([[ 14.,  98., 196.]])
    >>> features.get_feature_names_out()
    array(['{1,2}', '{1,2,3,4}', '{1,2}{3,4}'], dtype=object)
    """

    _parameter_constraints: dict = {
        "group": [StrOptions(set(REAL_GROUPS))],
        "order_in": [Interval(Integral, 1, None, closed="left")],
        "order_out": [Interval(Integral, 0, None, closed="left")],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "include_bias": ["boolean"],
    }

    def __init__(self, group="S", *, order_in=1, order_out=0, degree=2, include_bias=True):
        self.group = group
        self.order_in = order_in
        self.order_out = order_out
        self.degree = degree
        self.include_bias = include_bias

    @_fit_context(prefer_skip_nested_validation=True)
    @restores_on_error
    def fit(self, X, y=None):
        """Find the polynomials; only the number of columns of X matters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Tensors.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        n = infer_dimension(X.shape[1], self.order_in, 1, order_name="order_in", channels_name="")
        partitions = []
        for degree in range(0 if self.include_bias else 1, self.degree + 1):
            if count_partitions(self.group, degree * self.order_in + self.order_out):
                labels = polynomial_labels(self.group, n, degree, self.order_in, self.order_out)
                partitions += [(degree, as_blocks(row)) for row in labels.tolist()]
        if not partitions:
            raise ValueError(
                no_map_message(self.group, self.order_in, self.order_out)
                + f" that is a polynomial of degree={self.degree} or less."
            )
        self.n_, self.partitions_ = n, partitions
        return self

    def transform(self, X):
        """Compute the polynomials.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Tensors.

        Returns
        -------
        ndarray of shape (n_samples, n_partitions * n**order_out)
            The output tensors in C order, one after the other.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        size = self.n_**self.order_out
        features = np.zeros((len(X), len(self.partitions_), size), dtype=X.dtype)
        tensors = X.reshape(len(X), *[self.n_] * self.order_in)
        step = max(1, _CHUNK_ENTRIES // max(X.shape[1], size))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            for number, (degree, partition) in enumerate(self.partitions_):
                labels = as_labels(partition, degree * self.order_in + self.order_out)
                add_polynomial(features[rows, number], tensors[rows], labels.tolist(), degree)
        return features.reshape(len(X), -1)

    def get_feature_names_out(self, input_features=None):
        """Name the output columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Only checked against the names seen in fit.

        Returns
        -------
        ndarray of shape (n_partitions * n**order_out,), dtype object
            The partition, with the upper points of degree d numbered 1, ..., d k, and the index of
            the output tensor if it has one: ``{1,1'}[0]``. The constant is ``1``.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        names = []
        for degree, partition in self.partitions_:
            name = format_partition(partition, degree * self.order_in) or "1"
            for index in np.ndindex(*[self.n_] * self.order_out):
                names.append(f"{name}[{','.join(map(str, index))}]" if index else name)
        return np.array(names, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.requires_fit = True
        return tags

    def _equivariant_map(self):
        return self.transform, self.n_, self.order_in, self.order_out


def polynomial_labels(group, n, degree, order_in, order_out):
    """Partitions whose polynomials of one degree are a basis.

    Parameters
    ----------
    group : str
        Name of the group.
    n : int
        Dimension of the base space.
    degree, order_in, order_out : int
        d, k and l.

    Returns
    -------
    ndarray of shape (n_polynomials, degree * order_in + order_out)
        Labels, few blocks first.
    """
    group = get_group(group)
    if n == 1:
        return basis_labels(group, 1, degree * order_in, order_out)
    labels = spanning_labels(group, n, degree * order_in, order_out)
    labels = labels[_first_of_orbits(labels, degree, order_in)]
    if len(labels) <= 1 or is_independent(get_group(group.classical), n, labels.shape[1]):
        return labels
    n_variants = factorial(degree) * labels.size
    if n_variants > _MOST_VARIANTS:
        raise ValueError(
            f"The polynomials of degree={degree} are dependent at n={n}; to choose a basis takes "
            f"{factorial(degree)} permutations of each of {len(labels)} diagrams, {n_variants} "
            f"numbers in all, and at most {_MOST_VARIANTS} are tried. Lower degree."
        )
    orders = [
        _copy_order(order, order_in, labels.shape[1]) for order in permutations(range(degree))
    ]
    variants = np.stack([canonical(labels[:, order]) for order in orders])
    return labels[_independent_polynomials(labels, variants, n)]


def _first_of_orbits(labels, degree, order_in):
    """Number of the first of those diagrams that differ by a permutation of the copies."""
    # Swaps of neighbours generate all permutations, but lead out of the noncrossing diagrams.
    m = labels.shape[1]
    swaps = [
        _copy_order([*range(copy), copy + 1, copy, *range(copy + 2, degree)], order_in, m)
        for copy in range(degree - 1)
    ]
    place = {row.tobytes(): number for number, row in enumerate(labels)}
    sources, targets, frontier = [], [], labels
    while len(frontier):
        fresh = []
        for swap in swaps:
            for row, image in zip(frontier, canonical(frontier[:, swap]), strict=True):
                n_known = len(place)
                sources.append(place[row.tobytes()])
                targets.append(place.setdefault(image.tobytes(), n_known))
                if targets[-1] == n_known:
                    fresh.append(image)
        frontier = np.array(fresh, dtype=labels.dtype).reshape(len(fresh), m)
        if len(place) > _MOST_DIAGRAMS:
            raise ValueError(
                f"The polynomials of degree={degree} come from more than {_MOST_DIAGRAMS} "
                "diagrams; lower degree."
            )
    graph = coo_array((np.ones(len(sources)), (sources, targets)), shape=(len(place),) * 2)
    _, orbit = connected_components(graph, directed=False)
    _, first = np.unique(orbit[: len(labels)], return_index=True)
    return np.sort(first)


def _copy_order(order, order_in, m):
    """Points after the copies of the input are put in another order."""
    moved = [copy * order_in + axis for copy in order for axis in range(order_in)]
    return moved + [*range(len(moved), m)]


def _independent_polynomials(labels, variants, n):
    counts = n_blocks(labels)

    def products(i):
        """Scalar products of the symmetrised tensor i with all."""
        joint = [blocks_of_joins(labels[i], variant, counts) for variant in variants]
        return np.mean(float(n) ** np.array(joint), axis=0)

    norms = np.sqrt([products(i)[i] for i in range(len(labels))])
    return select_independent(len(labels), lambda i: products(i) / (norms[i] * norms))


def add_polynomial(target, tensors, labels, degree):
    """Add T_pi applied to the d-th tensor power, without forming the power.

    Parameters
    ----------
    target : ndarray of shape (n_samples, n**l)
        What is added to.
    tensors : ndarray of shape (n_samples, n, ..., n)
        The tensors, of order k.
    labels : list of int
        Labels of the partition of degree * k + l points.
    degree : int
        d.
    """
    n_samples, order = len(tensors), tensors.ndim - 1
    above, below = labels[: degree * order], labels[degree * order :]
    letter = dict(zip(dict.fromkeys(labels), ascii_letters[1:], strict=False))
    through = [label for label in dict.fromkeys(below) if label in above]
    operands = [
        "a" + "".join(letter[label] for label in above[copy * order : (copy + 1) * order])
        for copy in range(degree)
    ]
    if operands:
        result = "a" + "".join(letter[label] for label in through)
        equation = f"{','.join(operands)}->{result}"
        # Pairwise, so that the cost is that of the largest pair and not of all indices.
        values = np.einsum(equation, *[tensors] * degree, optimize="greedy")
    else:
        values = np.ones(n_samples, dtype=target.dtype)
    n = tensors.shape[1]
    item = target.itemsize
    blocks = through + [label for label in dict.fromkeys(below) if label not in above]
    strides = [
        item * sum(n ** (len(below) - 1 - axis) for axis, b in enumerate(below) if b == label)
        for label in blocks
    ]
    diagonal = np.lib.stride_tricks.as_strided(
        target, (n_samples, *[n] * len(blocks)), (target.strides[0], *strides)
    )
    diagonal += values.reshape(*values.shape, *[1] * (len(blocks) - len(through)))
