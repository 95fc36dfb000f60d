"""The formulas of the LeTE paper, written out with loops and the Cox-de Boor recursion."""

import numpy as np


def cox_de_boor(x, knots, degree):
    """All B-splines on the knots at the points x, ndarray of shape (n_points, n_functions)."""
    x = np.asarray(x, dtype=np.float64)[:, None]
    basis = ((x >= knots[:-1]) & (x < knots[1:])).astype(np.float64)
    for k in range(1, degree + 1):
        left = (x - knots[: -k - 1]) / (knots[k:-1] - knots[: -k - 1])
        right = (knots[k + 1 :] - x) / (knots[k + 1 :] - knots[1:-k])
        basis = left * basis[:, :-1] + right * basis[:, 1:]
    return basis


def extended_knots(n_intervals, degree, grid_range):
    low, high = grid_range
    step = (high - low) / n_intervals
    return low + step * (np.arange(n_intervals + 2 * degree + 1) - degree)


def encode(layer, tau):
    """What a LeTEEncoding gives for scaled times, in float64, one term at a time."""
    state = {name: value.detach().double().numpy() for name, value in layer.named_parameters()}
    blocks = []
    if layer.fourier is not None:
        blocks.append(_fourier(state, tau, layer.fourier.is_full))
    if layer.spline is not None:
        blocks.append(_spline(state, tau, layer.spline.is_full, layer.spline.grid))
    out = np.concatenate(blocks, axis=1)
    if "norm.weight" in state:
        centred = out - out.mean(axis=1, keepdims=True)
        out = centred / np.sqrt(out.var(axis=1, keepdims=True) + layer.norm.eps)
        out = out * state["norm.weight"] + state["norm.bias"]
    return out * state.get("scale", 1.0)


def _fourier(state, tau, is_full):
    cos_weight, sin_weight = state["fourier.cos_weight"], state["fourier.sin_weight"]
    d = len(state["fourier.omega"])
    out = np.tile(state["fourier.bias"], (len(tau), 1))
    for j in range(d):
        for i in range(d) if is_full else [j]:
            index = (j, i) if is_full else j
            x = state["fourier.omega"][i] * tau + state["fourier.phase"][i]
            for m, (c, s) in enumerate(zip(cos_weight[index], sin_weight[index], strict=True), 1):
                out[:, j] += c * np.cos(m * x) + s * np.sin(m * x)
    return out


def _spline(state, tau, is_full, grid):
    base_weight, spline_weight = state["spline.base_weight"], state["spline.spline_weight"]
    d = len(state["spline.omega"])
    out = np.zeros((len(tau), d))
    for j in range(d):
        for i in range(d) if is_full else [j]:
            index = (j, i) if is_full else j
            x = state["spline.omega"][i] * tau + state["spline.phase"][i]
            basis = cox_de_boor(x, extended_knots(*grid), grid[1])
            out[:, j] += base_weight[index] * np.tanh(x) + basis @ spline_weight[index]
    return out
