"""Which tensors a network holds in its layers."""

from numbers import Integral

from ._groups import no_map_message
from ._partitions import count_partitions


def lifted_spec(order_in, n_channels, input_power):
    """Orders and channels of x, x ⊗ x, ..., with the products of all channels."""
    return [(order_in * power, n_channels**power) for power in range(1, input_power + 1)]


def resolve_input_power(group, order_in, order_out, input_power):
    """Take the number, or for "auto" the smallest up to two with a map to the output.

    Raises
    ------
    ValueError
        If there is no map to the output.
    """
    powers = range(1, 3) if input_power == "auto" else [input_power]
    for power in powers:
        if any(count_partitions(group, order_in * p + order_out) for p in range(1, power + 1)):
            return power
    # Hidden layers compose maps of the same kind, and open no other way.
    raise ValueError(
        no_map_message(group, order_in, order_out) + f" with the given input_power={input_power!r}."
    )


def plan_hidden_layers(group, in_spec, hidden_layer_sizes, order_in, order_out, nonlinearity):
    """Turn `hidden_layer_sizes` into tensors, and check that they connect.

    Parameters
    ----------
    group : str
        Name of the group.
    in_spec : list of tuple of (int, int)
        Order and channels of what the first layer sees.
    hidden_layer_sizes : sequence
        For each layer an int, or a list of pairs (order, channels).
    order_in, order_out : int
        Orders of input and output.
    nonlinearity : str
        "matmul" makes an int stand for orders 0 and 2 instead of 0 and `order_in`.

    Returns
    -------
    list of list of tuple of (int, int)
        The tensors of each hidden layer. Those of an int are left out where nothing leads to
        them, or they lead to nothing.

    Raises
    ------
    ValueError
        If an entry is malformed, or a tensor that was asked for cannot be reached.
    """
    layers = [_read_layer(size, order_in, nonlinearity == "matmul") for size in hidden_layer_sizes]
    sources = [order for order, _ in in_spec]
    for number, (layer, is_free) in enumerate(layers):
        reached = [entry for entry in layer if _leads(group, sources, [entry[0]])]
        if not is_free and len(reached) < len(layer):
            missed = next(entry for entry in layer if entry not in reached)
            raise ValueError(
                f"{no_map_message(group, sources[0], missed[0])}, so that {missed} in layer "
                f"{number} of hidden_layer_sizes cannot be reached with the given input_power."
            )
        layers[number] = (reached, is_free)
        sources = [order for order, _ in reached]
    if not _leads(group, sources, [order_out]):
        raise ValueError(
            no_map_message(group, order_in, order_out)
            + " with the given input_power and hidden_layer_sizes."
        )
    targets = [order_out]
    for number in range(len(layers) - 1, -1, -1):
        layer, is_free = layers[number]
        if is_free:
            layer = [entry for entry in layer if _leads(group, [entry[0]], targets)]
        layers[number] = (layer, is_free)
        targets = [order for order, _ in layer]
    return [layer for layer, _ in layers]


def _read_layer(size, order_in, has_matmul):
    if isinstance(size, Integral) and not isinstance(size, bool) and size >= 1:
        orders = sorted({0, 2 if has_matmul else order_in})
        return [(order, int(size)) for order in orders], True
    try:
        pairs = [(order, channels) for order, channels in size]
    except (TypeError, ValueError):
        pairs = []
    is_valid = pairs and all(
        isinstance(value, Integral) and not isinstance(value, bool) and value >= least
        for pair in pairs
        for value, least in zip(pair, (0, 1), strict=True)
    )
    if not is_valid:
        raise ValueError(
            "hidden_layer_sizes must hold for each layer a positive int or a list of pairs "
            f"(order, channels), got {size!r}."
        )
    return [(int(order), int(channels)) for order, channels in pairs], False


def _leads(group, sources, targets):
    return any(count_partitions(group, k + l) for k in sources for l in targets)
