"""The calculus of diagrams: composition, tensor product and adjoint of partitions."""

from ._partitions import as_blocks, as_labels, check_order


def compose_partitions(outer, inner, order_in, order_middle, order_out):
    r"""Put one diagram below another, as the product of their matrices.

    Parameters
    ----------
    outer : iterable of iterable of int
        Blocks of a partition :math:`\pi` from `order_middle` to `order_out` points.
    inner : iterable of iterable of int
        Blocks of a partition :math:`\sigma` from `order_in` to `order_middle` points.
    order_in, order_middle, order_out : int
        Number of points in the rows.

    Returns
    -------
    partition : tuple of tuple of int
        The blocks of :math:`\pi\sigma`.
    n_loops : int
        Number of blocks that were left in the middle alone.

    See Also
    --------
    tensor_partitions : Side by side.
    adjoint_partition : Upside down.

    Notes
    -----
    :math:`T_\pi T_\sigma = n^{\mathrm{loops}} T_{\pi\sigma}`.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    A cap above a cup closes a loop:

    >>> from skml.equivariant import compose_partitions
    >>> compose_partitions([(0, 1)], [(0, 1)], 0, 2, 0)
    ((), 1)
    """
    k, m, l = _orders(order_in=order_in, order_middle=order_middle, order_out=order_out)
    below = as_labels(outer, m + l, "outer").tolist()
    above = as_labels(inner, k + m, "inner").tolist()
    n_above = max(above, default=-1) + 1
    below = [label + n_above for label in below]
    parent = list(range(n_above + max(below, default=-1) + 1))

    def root(label):
        while parent[label] != label:
            label = parent[label]
        return label

    for point in range(m):
        parent[root(below[point])] = root(above[k + point])
    outer_points = [root(label) for label in above[:k] + below[m:]]
    middle = {root(label) for label in below[:m]}
    return as_blocks(outer_points), len(middle - set(outer_points))


def tensor_partitions(left, right, left_orders, right_orders):
    r"""Put one diagram to the right of another, as the Kronecker product of their matrices.

    Parameters
    ----------
    left, right : iterable of iterable of int
        Blocks of the two partitions.
    left_orders, right_orders : tuple of (int, int)
        Number of upper and of lower points of each.

    Returns
    -------
    tuple of tuple of int
        The blocks of :math:`\pi \otimes \sigma`.

    See Also
    --------
    compose_partitions : One below the other.
    adjoint_partition : Upside down.

    Notes
    -----
    :math:`T_\pi \otimes T_\sigma = T_{\pi \otimes \sigma}`.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    >>> from skml.equivariant import tensor_partitions
    >>> tensor_partitions([(0, 1)], [(0, 1)], (1, 1), (1, 1))
    ((0, 2), (1, 3))
    """
    k1, l1 = _pair_of_orders(left_orders, "left_orders")
    k2, l2 = _pair_of_orders(right_orders, "right_orders")
    first = as_labels(left, k1 + l1, "left").tolist()
    second = [label + len(first) for label in as_labels(right, k2 + l2, "right").tolist()]
    return as_blocks(first[:k1] + second[:k2] + first[k1:] + second[k2:])


def adjoint_partition(partition, order_in, order_out):
    r"""Turn a diagram upside down, as the transpose of its matrix.

    Parameters
    ----------
    partition : iterable of iterable of int
        Blocks of a partition.
    order_in, order_out : int
        Its numbers of upper and lower points.

    Returns
    -------
    tuple of tuple of int
        The blocks of :math:`\pi^*`, from `order_out` to `order_in` points.

    See Also
    --------
    compose_partitions : One below the other.
    tensor_partitions : Side by side.

    Notes
    -----
    :math:`T_\pi^\top = T_{\pi^*}`.

    References
    ----------
    .. [1] E. Pearce-Crump. "Compact matrix quantum group equivariant neural networks." ICML 2025.
       https://arxiv.org/abs/2311.06358

    Examples
    --------
    >>> from skml.equivariant import adjoint_partition
    >>> adjoint_partition([(0, 1), (2,)], 2, 1)
    ((0,), (1, 2))
    """
    k, l = _orders(order_in=order_in, order_out=order_out)
    labels = as_labels(partition, k + l).tolist()
    return as_blocks(labels[k:] + labels[:k])


def _pair_of_orders(orders, name):
    try:
        upper, lower = orders
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a pair of the numbers of upper and lower points, got {orders!r}."
        ) from None
    return check_order(upper, f"{name}[0]"), check_order(lower, f"{name}[1]")


def _orders(**orders):
    return [check_order(value, name) for name, value in orders.items()]
