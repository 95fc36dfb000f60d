"""
===============================================
Symmetry in place of data, classical or quantum
===============================================

A linear map between matrices has :math:`n^4` weights. If it may not depend on how the n points are
numbered, fifteen are left, whatever n; if it commutes with the free quantum group
:math:`S_n^+`, fourteen. This example draws them, and shows what they save.
"""

# %%
# The diagrams
# ------------
# Each map is a diagram that joins two inputs (above) and two outputs (below). Those of the quantum
# group can be drawn without crossings; the crossing one, which exchanges rows and columns, is the
# one that is missing.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

from skml.equivariant import (
    QuantumGroupEquivariantRegressor,
    equivariance_error,
    equivariant_basis,
    quantum_representation,
)
from skml.inspection import PartitionDisplay

fig, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
for ax, group in zip(axes, ["S", "S+"], strict=True):
    display = PartitionDisplay.from_group(group, 4, 2, 2, n_columns=4, ax=ax)
    ax.set_title(f"{group}: {len(display.partitions)} diagrams")
plt.show()

# %%
# The weight matrices
# -------------------
# A general equivariant matrix has a value for each diagram, here a random one. The rotations of
# "O" and its quantum version know only pairs.

rng = np.random.default_rng(0)
fig, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for ax, group in zip(axes, ["S", "S+", "H+", "O+"], strict=True):
    maps = equivariant_basis(group, 4, 2, 2)
    weights = np.einsum("d,dji->ji", rng.normal(size=len(maps)), maps)
    ax.imshow(weights, cmap="RdBu_r", vmin=-4, vmax=4)
    ax.set_title(f"{group}(4), {len(maps)} weights")
    ax.set_xticks([])
    ax.set_yticks([])
plt.show()

# %%
# How many samples it takes
# -------------------------
# The target commutes with :math:`S_5^+` and comes with noise. The right group learns it from a few
# matrices, a group that is too large (rotations) cannot express it, and without a group there are
# 625 weights to find.

maps = equivariant_basis("S+", 5, 2, 2)
target = np.einsum("d,dji->ji", rng.normal(size=len(maps)), maps)
X_test = rng.normal(size=(200, 25))
sizes = [3, 5, 10, 20, 50, 100]
errors = {name: [] for name in ("S+", "S", "O", "Ridge")}
for size in sizes:
    X = rng.normal(size=(size, 25))
    Y = X @ target.T
    Y += 0.5 * Y.std() * rng.normal(size=Y.shape)
    for name, found in errors.items():
        model = Ridge(5.0)
        if name != "Ridge":
            model = QuantumGroupEquivariantRegressor(
                name, order_in=2, order_out=2, hidden_layer_sizes=(), alpha=1e-6
            )
        residual = model.fit(X, Y).predict(X_test) - X_test @ target.T
        found.append(np.mean(residual**2) / np.mean((X_test @ target.T) ** 2))

fig, ax = plt.subplots(layout="constrained")
for name, found in errors.items():
    ax.plot(sizes, found, marker="o", label=name)
ax.set_xscale("log")
ax.set_yscale("log")
ax.set_xlabel("Training matrices")
ax.set_ylabel("Error over variance")
ax.legend()
plt.show()

# %%
# Which maps a fitted model uses
# ------------------------------
# The display shades each diagram by its weight. Of the two invariants that are linear, the model
# has found the one that makes up the target: the trace, and not the sum of all entries.

graphs = rng.normal(size=(60, 25))
y = np.trace(graphs.reshape(-1, 5, 5), axis1=1, axis2=2) + 0.1 * rng.normal(size=60)
model = QuantumGroupEquivariantRegressor("S", order_in=2, hidden_layer_sizes=()).fit(graphs, y)
PartitionDisplay.from_estimator(model)
plt.show()
print(f"deviation from symmetry: {equivariance_error(model, graphs):.1e}")

# %%
# What the quantum group sees
# ---------------------------
# A permutation matrix of zeros and ones has commuting entries. An element of the quantum group has
# projections that do not commute in their place: only noncrossing maps survive it.

u = quantum_representation("S+", 4, random_state=0)
first, second = u[0, 0], u[1, 1]
print(f"entries fail to commute by {np.abs(first @ second - second @ first).max():.2f}")
