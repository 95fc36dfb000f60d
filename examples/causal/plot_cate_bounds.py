"""
==================================================
Effects that are known up to bounds
==================================================

Treatment and outcome have a common cause that nobody observed, so the effect of the treatment is
not identified. An instrument bounds it. :class:`~skml.causal.CATEBounder` learns which values of
the instrument belong together, so that the bounds are tight; this example looks at the bounds, at
the cells behind them, and at what goes wrong without cells.
"""

# %%
# Bounds along a covariate
# ------------------------
# The instrument acts on the treatment by its distance from zero: both of its ends encourage, the
# middle discourages. Four clusters along the instrument cut it into intervals. Cells that are
# learnt for tight bounds put both ends together.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from skml.causal import CATEBounder, DiscreteCATEBounder
from skml.datasets import load_401ksubs, make_iv_cate
from skml.inspection import CATEBoundsDisplay
from skml.metrics import bounds_coverage, mean_bounds_width

data = make_iv_cate(1, n_samples=1000, random_state=41)
train, test = slice(600), slice(600, 800)
arrays = {"treatment": data.treatment[train], "instrument": data.instrument[train]}
bounder = CATEBounder(
    n_cells=2, outcome_bounds=data.outcome_bounds, n_init=3, warm_start=True, random_state=0
)

fig, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
for column, partitioner in enumerate(["kmeans", "neural"]):
    bounder.set_params(partitioner=partitioner).fit(data.X[train], data.y[train], **arrays)
    CATEBoundsDisplay.from_estimator(bounder, data.X[test], tau=data.tau[test], ax=axes[0, column])
    CATEBoundsDisplay.from_cells(bounder, data.instrument, ax=axes[1, column])
    bounds = bounder.predict_bounds(data.X[test])
    coverage = bounds_coverage(data.tau[test], bounds)
    axes[0, column].set_title(
        f"{partitioner}: coverage {coverage:.0%}, width {mean_bounds_width(bounds):.2f}"
    )
    axes[0, column].set_ylim(-1.2, 2)
plt.show()

# %%
# Real data: an offer as the instrument
# -------------------------------------
# Does a 401(k) plan make a household hold an individual retirement account too? The offer of a plan
# is the instrument, and it depends on income, so the bounds are fitted inside each level of the
# offer, given income. Without an offer nobody takes part, which makes these bounds narrow.

pensions = load_401ksubs()
income = pensions.data[:, :1]
arrays = {"treatment": pensions.treatment, "instrument": pensions.instrument}
plan = DiscreteCATEBounder(
    propensity_estimator=HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8),
    outcome_estimator=HistGradientBoostingRegressor(max_iter=30, max_leaf_nodes=8),
    outcome_bounds=(0, 1),
).fit(income, pensions.target, **arrays)
shown = np.linspace(10, 120, 200)[:, None]
display = CATEBoundsDisplay.from_estimator(plan, shown)
display.ax_.set_xlabel("Yearly income (1000 dollars)")
display.ax_.axhline(0, color="0.5", linewidth=0.8)
average = plan.average_bounds(income, pensions.target, **arrays)
low, high = average.confidence_interval
display.ax_.set_title(f"Average effect between {low:.2f} and {high:.2f} (95 %)")
plt.show()

# %%
# Why there are cells at all
# --------------------------
# Every value of an instrument bounds the effect by itself, so why not take the extremes over all of
# them? Because the nuisances are estimated, and an extreme over hundreds of estimates is an extreme
# of their errors. With fifty genotypes the bounds of all rows cross: the lower one exceeds the
# upper one, and none contains the effect.


class OneCellPerRow:
    """No partition."""

    def fit(self, Z):
        return self

    def predict(self, Z):
        return np.arange(len(Z))


genes = make_iv_cate("polygenic", n_samples=1500, random_state=0)
train, test = slice(1000), slice(1000, None)
arrays = {"treatment": genes.treatment[train], "instrument": genes.instrument[train]}
bounder = CATEBounder(outcome_bounds=(0, 1), warm_start=True, max_reference=500, random_state=0)
labels = {"one cell per row": OneCellPerRow(), "k-means": "kmeans", "learnt": "neural"}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.5), sharey=True, layout="constrained")
for ax, (label, partitioner) in zip(axes, labels.items(), strict=True):
    bounder.set_params(partitioner=partitioner).fit(genes.X[train], genes.y[train], **arrays)
    lower, upper = bounder.predict_bounds(genes.X[test]).T
    order = np.argsort(genes.tau[test])
    ax.vlines(
        np.arange(len(order)), lower[order], upper[order], color="C0", alpha=0.3, label="bounds"
    )
    ax.plot(genes.tau[test][order], color="black", label="effect")
    ax.set_title(f"{label}: {np.mean(lower > upper):.0%} cross")
axes[0].legend()
plt.show()
