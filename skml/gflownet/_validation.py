"""Parameters of a sampler and states of a process, checked."""

from numbers import Integral

import numpy as np

from skml.utils._optional import import_optional

from ._process import IndexedProcess


def check_parameters(sampler):
    """Refuse what the constraints of single parameters let pass.

    Parameters
    ----------
    sampler : RewardProportionalSampler
        Its parameters are read.

    Raises
    ------
    ValueError
        If parameters do not go together, a layer has no width, or there is no such device.
    """
    if sampler.objective != "rpe" and sampler.solver == "exact":
        raise ValueError(
            f"solver='exact' evaluates a fixed policy, objective='rpe', got objective="
            f"{sampler.objective!r}."
        )
    if sampler.missing_reward == "estimator" and sampler.reward_estimator is None:
        raise ValueError("missing_reward='estimator' needs a reward_estimator, got None.")
    exploration = 1.0 if sampler.exploration is None else sampler.exploration
    if sampler.objective == "rpe" and sampler.target != "td" and exploration < 1:
        raise ValueError(
            f"target={sampler.target!r} averages over the paths themselves, which must then be "
            f"those of the uniform policy: exploration must be 1, got {sampler.exploration}."
        )
    _check_layers(sampler.hidden_layer_sizes)
    _check_device(sampler.device)


def _check_layers(sizes):
    for size in sizes:
        if isinstance(size, (bool, np.bool_)) or not isinstance(size, Integral) or size < 1:
            raise ValueError(f"hidden_layer_sizes must be integers of at least 1, got {size!r}.")
    if not len(sizes):
        raise ValueError("hidden_layer_sizes must name at least one layer, got none.")


def _check_device(device):
    """Also where nothing is trained; the usual names are known without torch."""
    if isinstance(device, str) and device in {"cpu", "auto"}:
        return
    import_optional("torch", extra="torch", needed_by=f"device={device!r}")
    from skml.utils._torch import resolve_device

    resolve_device(device)


def checked_states(process, states):
    """Validate states that a user passes.

    Parameters
    ----------
    process : Process
        With all sizes.
    states : array-like of shape (n, n_entries)
        States.

    Returns
    -------
    ndarray of shape (n, n_entries), dtype int64
        The states.

    Raises
    ------
    ValueError
        If they are no states of the process.
    """
    states = np.asarray(states)
    sizes = np.array(process.state_sizes)
    if states.ndim != 2 or states.shape[1] != len(sizes):
        raise ValueError(
            f"states must have the shape (n, {len(sizes)}), got {states.shape}. Objects become "
            "states by process_.terminals."
        )
    wanted = "states must hold integers from 0 to state_sizes - 1 of the process, got "
    if states.dtype.kind not in "iub":
        raise ValueError(f"{wanted}{states[:1].tolist()} of dtype {states.dtype}.")
    if ((states < 0) | (states >= sizes)).any():
        raise ValueError(f"{wanted}values from {states.min()} to {states.max()}.")
    states = states.astype(np.int64)
    if isinstance(process, IndexedProcess):
        impossible = ~process._can_be_built(states)
        if impossible.any():
            raise ValueError(
                f"states must be states of {process}; no path leads to "
                f"{states[impossible][0].tolist()}."
            )
    return states
