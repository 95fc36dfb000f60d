"""
=========================================
Boosting that reads a value only once
=========================================

A boosted model relies on a missing value as soon as one of its trees reads it, and every tree is a
new temptation. :class:`~skml.ensemble.MAGradientBoostingClassifier` charges ``alpha`` for the share
of rows that would read a missing value for the first time; what an earlier tree has read is free.
This example follows reliance and loss over the stages.
"""

# %%
# Reliance grows with the stages
# ------------------------------
# In the General Social Survey 98 % of the people skipped some question. The model predicts who is
# very happy. ``warm_start=True`` adds stages to those there are, and recomputes from them what is
# free of charge, so the reliance can be read off after every few stages.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skml.datasets import load_happiness
from skml.ensemble import MAGradientBoostingClassifier
from skml.metrics import missingness_reliance

X, y = load_happiness(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
print(f"{np.isnan(X).any(axis=1).mean():.0%} of the rows miss something")

stages = [1, 2, 4, 7, 12, 20, 30, 40]


def follow(**params):
    """Reliance on held-out rows after some stages, and the loss after every one."""
    model = MAGradientBoostingClassifier(warm_start=True, random_state=0, **params)
    reliance = []
    for n_estimators in stages:
        model.set_params(n_estimators=n_estimators).fit(X_train, y_train)
        reliance.append(missingness_reliance(model, X_test))
    return model, reliance


fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for alpha in [0.0, 0.01, 0.03, 0.1]:
    model, reliance = follow(alpha=alpha)
    auroc = roc_auc_score(y_test, model.decision_function(X_test))
    left.plot(stages, reliance, marker="o", label=f"alpha = {alpha:g}, AUROC {auroc:.3f}")
    right.plot(np.arange(1, 41), model.train_score_)
left.set(xlabel="Stages", ylabel="Reliance of held-out rows", ylim=(0, 1))
left.legend()
right.set(xlabel="Stages", ylabel="Training loss (twice the log-loss)")
plt.show()

# %%
# Without a price, twenty stages rely on the missing answers of nearly everybody. A price of .01
# keeps the reliance below 20 % at nearly the same AUROC; with .03 or more it hardly grows after the
# first stages, because what is free by then is read again and again.
#
# What is free after it was read
# ------------------------------
# ``penalty_scope`` says what an earlier tree makes free: nothing, the cells that it read, or all
# cells of the rows that rely already, which cannot rely any more than they do.

fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for scope in ["node", "feature", "row"]:
    model, reliance = follow(alpha=0.01, penalty_scope=scope)
    auroc = roc_auc_score(y_test, model.decision_function(X_test))
    ax.plot(stages, reliance, marker="o", label=f'"{scope}", AUROC {auroc:.3f}')
ax.set(xlabel="Stages", ylabel="Reliance of held-out rows", title="alpha = 0.01", ylim=(0, None))
ax.legend(title="penalty_scope")
plt.show()
