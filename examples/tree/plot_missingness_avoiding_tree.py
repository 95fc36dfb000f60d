"""
===================================
A tree that avoids missing values
===================================

A prediction relies on missing values when the path of its row tests a feature that the row does
not have. :class:`~skml.tree.MADecisionTreeClassifier` pays ``alpha`` for the share of such rows at
every split. This example shows what that changes: the questions that the tree asks, whom it asks
them, and the price in accuracy.
"""

# %%
# A test that is taken only where it is called for
# -------------------------------------------------
# In these records every patient has an age. Old patients took a cognitive test (``mmse``), and
# nearly all with a positive result were scanned (``mri``). The scan predicts best by far, but
# 78 % of the rows do not have it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.tree import plot_tree

from skml.datasets import load_happiness, make_contextual_missingness
from skml.inspection import RelianceCurveDisplay
from skml.metrics import missingness_reliance
from skml.tree import MADecisionTreeClassifier

X, y = make_contextual_missingness(4000, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
names = ["age", "mmse", "mri"]
for name, share in zip(names, np.isnan(X).mean(axis=0), strict=True):
    print(f"{name}: {share:.0%} missing")

# %%
# A plain tree (``alpha=0``, imputed means) asks everybody for the scan first. With ``alpha=1`` the
# tree asks for the age, the old for the test, and those with a positive test for the scan: a path
# on which each answer is there. The colour of a node is the share of its training rows whose
# path so far has read a missing value.


def draw_tree(tree, ax):
    texts = plot_tree(tree, ax=ax, feature_names=names, impurity=False, label="none", fontsize=7)
    # Nodes have a box; the words on the first two branches have none.
    boxes = [text.get_bbox_patch() for text in texts if text.get_bbox_patch() is not None]
    colours = plt.get_cmap("OrRd")(0.75 * tree.node_missingness_reliance_)
    for box, colour in zip(boxes, colours, strict=True):
        box.set_facecolor(colour)


fig, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for ax, alpha in zip(axes, [0.0, 1.0], strict=True):
    tree = MADecisionTreeClassifier(max_depth=3, alpha=alpha, random_state=0)
    tree.fit(X_train, y_train)
    auroc = roc_auc_score(y_test, tree.predict_proba(X_test)[:, 1])
    reliance = missingness_reliance(tree, X_test)
    draw_tree(tree, ax)
    ax.set_title(f"alpha = {alpha:g}: AUROC {auroc:.3f}, reliance {reliance:.1%}")
plt.show()

# %%
# Which answers a survey's predictions need
# -----------------------------------------
# In the General Social Survey 98 % of the rows miss some answer. ``missingness_reliance`` of the
# fitted tree is a table of rows and features, True where the prediction of the row reads a value
# that it does not have. Its column means say which questions are to blame.

happiness = load_happiness()
X_train, X_test, y_train, y_test = train_test_split(
    happiness.data, happiness.target, test_size=0.2, random_state=0
)
trees = {
    alpha: MADecisionTreeClassifier(max_depth=5, alpha=alpha, random_state=0).fit(X_train, y_train)
    for alpha in [0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
}
missing = np.isnan(X_test).mean(axis=0)
shown = np.argsort(missing)[::-1][:8]

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
position = np.arange(len(shown))
ax.barh(position, missing[shown], height=0.8, color="0.9", label="missing")
for offset, alpha in [(-0.25, 0.0), (0, 0.01), (0.25, 0.1)]:
    relied = trees[alpha].missingness_reliance(X_test).mean(axis=0)
    ax.barh(position + offset, relied[shown], height=0.22, label=f"read, alpha = {alpha:g}")
ax.set_yticks(position, np.array(happiness.feature_names)[shown])
ax.invert_yaxis()
ax.set_xlabel("Share of held-out rows")
ax.legend()
plt.show()

# %%
# What the price buys
# -------------------
# One point for each ``alpha``, on the held-out rows. Reliance falls from a third to a few percent
# before the AUROC gives way; the cross is a plain tree on the columns without gaps, the only other
# way to a reliance of zero.

complete = ~np.isnan(X_train).any(axis=0)
dropped = MADecisionTreeClassifier(max_depth=5, alpha=0.0, random_state=0)
dropped.fit(X_train[:, complete], y_train)
auroc = roc_auc_score(y_test, dropped.predict_proba(X_test[:, complete])[:, 1])

fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
RelianceCurveDisplay.from_estimator(
    MADecisionTreeClassifier(max_depth=5, random_state=0),
    X_train,
    y_train,
    X_test=X_test,
    y_test=y_test,
    alphas=list(trees),
    scoring="roc_auc",
    ax=ax,
    label="penalised tree",
)
ax.plot(0, auroc, "x", color="k", markersize=10, label="columns without gaps")
ax.legend()
plt.show()
