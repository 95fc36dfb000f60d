"""Contract inputs of the sampler: tables of letters, so that held-out rows are known objects."""

import numpy as np

from skml.gflownet import RewardProportionalSampler
from skml.utils.estimator_checks import ContractInputs, Malformed, register_inputs


@register_inputs(RewardProportionalSampler)
def make_inputs(size):
    n_samples, n_features = {"small": (40, 3), "large": (60, 4)}[size]
    rng = np.random.default_rng(n_samples)
    X = rng.integers(3, size=(n_samples, n_features)).astype(float)
    X[:3] = X[-3:] = np.arange(3)[:, None]
    y = rng.random(n_samples) + 0.1
    return ContractInputs(
        X=X,
        y=y,
        param_grid={"reward_floor": [0.01, 0.1]},
        malformed=(
            Malformed({"X": X.reshape(*X.shape, 1)}, r"dim|2D"),
            Malformed({"X": X[:0], "y": y[:0]}, r"0 sample"),
            Malformed({"y": y[:-1]}, r"inconsistent"),
            Malformed({"y": np.where(y == y[0], np.nan, y)}, r"nan"),
            Malformed({"y": -y}, r"y must hold scores of at least 0, got -"),
            Malformed({"y": 0 * y}, r"All rewards are zero"),
            Malformed({"X": np.where(X == 1, np.nan, X)}, r"nan"),
            Malformed({"predict_X": np.column_stack([X, X[:, 0]])}, r"features"),
            Malformed({"predict_X": X + 9}, r"Row 0 of X is no object"),
        ),
    )
