"""How often an attacker gets the label that he wants."""

import warnings

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import _check_sample_weight


def attack_success_rate(y_true, y_pred, target, *, sample_weight=None, zero_division="warn"):
    """Share of samples that are predicted to be of the attacker's class without being so.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels of samples that carry the trigger. Those whose label is `target` do not
        count: a prediction of it would be no success.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    target : object
        The label that the attacker wants.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.
    zero_division : "warn", 0.0, 1.0 or nan, default="warn"
        What is returned if no sample counts; "warn" returns 0.0 with a warning.

    Returns
    -------
    float
        Weighted share, from 0 to 1; low is good for the defender.

    Raises
    ------
    ValueError
        If the lengths differ, or `zero_division` is another value.

    See Also
    --------
    sklearn.metrics.accuracy_score : Accuracy, which is measured without the trigger.

    Examples
    --------
    >>> from skml.metrics import attack_success_rate
    >>> attack_success_rate([0, 1, 1, 2, 2], [0, 0, 1, 0, 0], target=0)
    0.75
    """
    is_number = not isinstance(zero_division, str)
    if not (zero_division in ("warn", 0, 1) or (is_number and np.isnan(zero_division))):
        raise ValueError(f"zero_division must be 'warn', 0, 1 or nan, got {zero_division!r}.")
    y_true, y_pred = column_or_1d(y_true), column_or_1d(y_pred)
    check_consistent_length(y_true, y_pred)
    weight = _check_sample_weight(sample_weight, y_true) * (y_true != target)
    if weight.sum() == 0:
        if zero_division == "warn":
            warnings.warn(
                f"The attack success rate is undefined: every sample has the label {target!r} or "
                "no weight.",
                UndefinedMetricWarning,
            )
            return 0.0
        return float(zero_division)
    return float(np.average(y_pred == target, weights=weight))
