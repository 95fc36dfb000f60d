"""
=====================================
A forest whose trees avoid the same
=====================================

A forest relies on a missing value as soon as one of its trees reads it. This example shows how that
adds up over the trees of :class:`~skml.ensemble.MARandomForestClassifier`, which questions of a
survey are to blame, and how the four missingness-avoiding learners compare.
"""

# %%
# The union of the paths
# ----------------------
# In the General Social Survey 98 % of the rows miss some answer. Each tree of a plain forest
# (``alpha=0``) reads a missing answer for a third of the rows, but not for the same third: with
# every tree that is added there are more rows for which some tree does. With ``alpha=0.1`` single
# trees seldom do, and the union stays low.

import matplotlib.pyplot as plt
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skml.datasets import load_happiness
from skml.ensemble import MAGradientBoostingClassifier, MARandomForestClassifier
from skml.inspection import FeatureRelianceDisplay, PathUnionDisplay, RelianceCurveDisplay
from skml.linear_model import MALogisticRegression
from skml.tree import MADecisionTreeClassifier

happiness = load_happiness()
X_train, X_test, y_train, y_test = train_test_split(
    happiness.data, happiness.target, test_size=0.2, random_state=0
)
forests = {
    alpha: MARandomForestClassifier(20, max_depth=6, alpha=alpha, random_state=0).fit(
        X_train, y_train
    )
    for alpha in (0.0, 0.1)
}
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for ax, (alpha, forest) in zip(axes, forests.items(), strict=True):
    auroc = roc_auc_score(y_test, forest.predict_proba(X_test)[:, 1])
    PathUnionDisplay.from_estimator(forest, X_test, ax=ax)
    ax.set_title(f"alpha = {alpha:g}, AUROC {auroc:.3f}")
    ax.set_ylim(0, 1)
plt.show()

# %%
# Which answers the forests read although they are missing
# --------------------------------------------------------

fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharex=True, layout="constrained")
for ax, (alpha, forest) in zip(axes, forests.items(), strict=True):
    FeatureRelianceDisplay.from_estimator(
        forest, X_test, feature_names=happiness.feature_names, ax=ax, max_features=10
    )
    ax.set_title(f"alpha = {alpha:g}")
plt.show()

# %%
# Four learners in one picture
# ----------------------------
# One curve for each learner and one point for each price, on the held-out rows. Boosting keeps its
# accuracy longest, since a value that one of its trees has read costs the later ones nothing. The
# unit of the price is the learner's own: the logistic model pays for the size of its coefficients.

prices = [0.0, 0.01, 0.03, 0.1, 1.0]
RelianceCurveDisplay.from_estimators(
    {
        "MA-DT": MADecisionTreeClassifier(max_depth=5, random_state=0),
        "MA-RF": MARandomForestClassifier(20, max_depth=6, random_state=0),
        "MA-GBT": MAGradientBoostingClassifier(n_estimators=40, random_state=0),
        "MA-Lasso": MALogisticRegression(),
    },
    X_train,
    y_train,
    X_test=X_test,
    y_test=y_test,
    alphas=dict.fromkeys(("MA-DT", "MA-RF", "MA-GBT"), prices)
    | {"MA-Lasso": [0.01, 0.03, 0.1, 0.3]},
    scoring="roc_auc",
)
plt.show()
