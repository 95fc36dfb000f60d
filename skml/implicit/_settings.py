"""Parameters of the regressor that do not go together, or have no effect on the data."""

import warnings

from ._network_training import check_fr_params


def check_settings(estimator, n_samples):
    """Refuse parameters that do not go together.

    Parameters
    ----------
    estimator : INRRegressor
        Its parameters are read.
    n_samples : int
        Number of points.
    """
    if estimator.module is not None and estimator.training in ("fr", "bn"):
        raise ValueError(
            f"training={estimator.training!r} changes the layers of a built-in architecture; with "
            "module= choose training='iga' or 'standard'"
        )
    check_fr_params(estimator.fr_params or {})
    if estimator.training == "bn" and n_samples < 2:
        raise ValueError(f"training='bn' needs at least 2 samples, got n_samples = {n_samples}")


def warn_few_balanced(estimator):
    """Warn the caller of `fit` where fewer eigenvalues are balanced than the parameters say.

    Parameters
    ----------
    estimator : INRRegressor
        Its parameters and `groups_` are read.
    """
    if estimator.training != "iga":
        return
    n_balanced, n_groups = estimator.n_balanced, len(estimator.groups_)
    if n_balanced >= n_groups:
        warnings.warn(
            f"n_balanced={n_balanced} needs more than {n_balanced} groups; there "
            f"are {n_groups}, so at most {n_groups - 1} eigenvalues are balanced. Smaller "
            "groups give more of them.",
            UserWarning,
            stacklevel=5,  # past two decorators of fit, to its caller
        )
    if 0 < n_balanced <= estimator.balance_start:
        warnings.warn(
            f"balance_start={estimator.balance_start} is not below n_balanced={n_balanced}, "
            "so no eigenvalue is balanced and training is that of training='standard'.",
            UserWarning,
            stacklevel=5,
        )
