"""
===================================================
Stochastic steps for losses without Lipschitz slope
===================================================

The curvature of the Poisson loss grows with its slope, so the step that the curvature at the start
suggests overflows. :class:`~skml.linear_model.ShufflingSGDRegressor` finds a step by itself. This
example shows the steps, what the order of the rows changes, and a fit to a stream of chunks.
"""

# %%
# A step that looks safe and is not
# ---------------------------------
# Counts of ten features. The inverse of the greatest curvature at the start is the step that
# textbooks take.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import PoissonRegressor

from skml.linear_model import ShufflingSGDRegressor

rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(size=(1000, 9)), np.ones(1000)])
w = np.append(0.5 * rng.normal(size=9), 1.5)
y = rng.poisson(np.exp(X @ w))
shared = {"loss": "poisson", "alpha": 1e-3, "fit_intercept": False, "random_state": 0}


def objective(coef):
    z = X @ coef
    return np.mean(np.exp(z) - y * z) + 1e-3 / 2 * coef @ coef


peer = PoissonRegressor(alpha=1e-3, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
least = objective(peer.coef_)

lipschitz_step = 1 / np.max(np.sum(X**2, axis=1))
with warnings.catch_warnings(record=True, action="always") as caught:
    ShufflingSGDRegressor(learning_rate="constant", eta0=lipschitz_step, **shared).fit(X, y)
print(next(str(w.message) for w in caught if w.category is ConvergenceWarning))

# %%
# The default tries steps from 16 times this one downwards, and lets the best decay.

auto = ShufflingSGDRegressor(max_iter=50, **shared).fit(X, y)
print(f"first step {auto.step_sizes_[0]:.2g}, Lipschitz step {lipschitz_step:.2g}")

# %%
# The order of the rows
# ---------------------
# With the same constant step, reshuffled epochs come closest to the optimum: errors within an epoch
# cancel, because each row has its turn.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for order in ("reshuffle", "shuffle_once", "incremental"):
    model = ShufflingSGDRegressor(
        learning_rate="constant", eta0=1e-4, max_iter=100, order=order, **shared
    ).fit(X, y)
    left.semilogy(np.array(model.objective_curve_) - least, label=order)
left.semilogy(np.array(auto.objective_curve_) - least, "k--", label="auto, 50 epochs")
left.set(xlabel="Epoch", ylabel="Objective above the optimum", title="Constant step of 1e-4")
left.legend()

# %%
# A stream
# --------
# ``partial_fit`` takes one chunk after the other. Averaging the iterates takes the noise out.

for average in (False, True):
    stream = ShufflingSGDRegressor(average=average, **shared)
    gaps = []
    for _ in range(30):
        for chunk in np.array_split(rng.permutation(len(y)), 5):
            stream.partial_fit(X[chunk], y[chunk])
            gaps.append(objective(stream.coef_) - least)
    right.loglog(np.arange(1, len(gaps) + 1), gaps, label=f"average={average}")
right.set(xlabel="Chunk of 200 rows", title="partial_fit")
right.legend()
plt.show()
