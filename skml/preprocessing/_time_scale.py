"""Origin, unit and range of frequencies of a column of times."""

import numpy as np

# A frequency that turns by more than this between neighbouring times could not be told from
# others by the data: pi / 8 leaves 16 points to a period.
_PHASE_PER_GAP = np.pi / 8
_LARGEST_OMEGA = 1e6


def time_scale(times, time_unit):
    """Origin and unit of a column.

    Parameters
    ----------
    times : ndarray of shape (n_samples,), dtype float64
        The times.
    time_unit : float, "auto" or None
        "auto": the times are mapped to [-1, 1]. A number: it is the unit, and the middle of the
        range the origin. None: times are taken as they are.

    Returns
    -------
    origin, unit : float
        The scaled time is (times - origin) / unit.
    """
    if time_unit is None:
        return 0.0, 1.0
    low, high = float(times.min()), float(times.max())
    origin = low / 2 + high / 2
    if time_unit != "auto":
        return origin, float(time_unit)
    half_range = high / 2 - low / 2
    return (origin, half_range) if half_range > 0 else (low, 1.0)


def frequency_range(tau, omega_range):
    """First and last initial frequency for scaled times.

    Parameters
    ----------
    tau : ndarray of shape (n_samples,), dtype float64
        Scaled times.
    omega_range : "auto" or pair of float
        "auto": from pi / 8 per median gap between different times down to one radian per half
        the range, at most 1e6 times that.

    Returns
    -------
    first, last : float
        Frequencies in radians per scaled unit.
    """
    if not isinstance(omega_range, str):
        return tuple(float(omega) for omega in omega_range)
    gaps = np.diff(np.unique(tau))
    half_range = (tau.max() / 2 - tau.min() / 2) if len(gaps) else 0.0
    if not half_range > 0:
        return 1.0, 1.0
    first = np.clip(_PHASE_PER_GAP / (np.median(gaps) / half_range), 1.0, _LARGEST_OMEGA)
    return float(first / half_range), float(1.0 / half_range)
