"""
======================================
A Lasso that avoids missing values
======================================

A linear model reads every feature that has a coefficient, whether or not a row has a value for it.
:class:`~skml.linear_model.MALasso` charges a coefficient for the share of rows that miss its
feature. This example follows the coefficients along the price, and compares the trade-off of score
and reliance with that of a plain Lasso.
"""

# %%
# Wages, schooling, and tests that were not taken
# -----------------------------------------------
# Card's data explain the logarithm of the hourly wage. A third of the men have no IQ score, a
# quarter no entry for the schooling of the father.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LassoCV, lasso_path
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skml.datasets import load_card
from skml.linear_model import MALassoCV, ma_lasso_path
from skml.metrics import missingness_reliance

card = load_card()
names = np.array(card.feature_names)
X_train, X_test, y_train, y_test = train_test_split(
    card.data, card.target, test_size=0.2, random_state=0
)
missing = np.isnan(X_train).mean(axis=0)
for j in np.argsort(missing)[::-1][:4]:
    print(f"{names[j]}: {missing[j]:.0%} missing")

# %%
# The path of the coefficients
# ----------------------------
# From right to left the price falls. The plain Lasso takes the test KWW first of all, because it
# predicts best. With the charge, features enter in the order of their gaps: the complete ones
# (grey) long before KWW, and IQ last. Coefficients are those of the standardised features.

scale = np.nanstd(X_train, axis=0)
prepare = make_pipeline(StandardScaler(), SimpleImputer())
Z_train, Z_test = prepare.fit_transform(X_train), prepare.transform(X_test)
plain_alphas, plain_coefs, _ = lasso_path(Z_train, y_train - y_train.mean(), eps=1e-2)
alphas, coefs, intercepts, _ = ma_lasso_path(X_train, y_train, eps=1e-2)

fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
for ax, prices, values, title in [
    (axes[0], plain_alphas, plain_coefs, "Lasso"),
    (axes[1], alphas, coefs * scale[:, np.newaxis], "MALasso"),
]:
    for j in np.argsort(missing):
        incomplete = missing[j] > 0.01
        ax.plot(
            prices,
            values[j],
            color=plt.get_cmap("autumn")(0.75 * (1 - missing[j] / missing.max()))
            if incomplete
            else "0.8",
            linewidth=2 if incomplete else 1,
            label=f"{names[j]} ({missing[j]:.0%} missing)" if incomplete else None,
        )
    ax.set_xscale("log")
    ax.set_xlabel("alpha")
    ax.set_title(title)
    ax.legend(fontsize="small")
axes[0].set_ylabel("Coefficient of the standardised feature")
plt.show()

# %%
# Score against reliance
# ----------------------
# Each point is one price. The plain Lasso keeps KWW as long as it keeps anything, so no price makes
# it do without missing values. The penalised model gives up the incomplete features alone, and
# keeps its score.


def trade_off(coefs, predictions):
    scores = [r2_score(y_test, predicted) for predicted in predictions.T]
    gaps = np.isnan(X_test)
    return [gaps[:, used].any(axis=1).mean() for used in coefs.T != 0], scores


imputed = SimpleImputer().fit(X_train).transform(X_test)
fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.plot(*trade_off(plain_coefs, Z_test @ plain_coefs + y_train.mean()), ".-", label="Lasso")
ax.plot(*trade_off(coefs, imputed @ coefs + intercepts), ".-", label="MALasso")

# %%
# :class:`~skml.linear_model.MALassoCV` chooses the price by cross-validation: the lowest reliance
# among the prices whose mean score is at least ``gamma`` times the best.

chosen = MALassoCV(gamma=0.95).fit(X_train, y_train)
rival = make_pipeline(StandardScaler(), SimpleImputer(), LassoCV()).fit(X_train, y_train)
for model, label, marker in [(rival, "LassoCV", "s"), (chosen, "MALassoCV", "*")]:
    rho, score = missingness_reliance(model, X_test), model.score(X_test, y_test)
    ax.plot(rho, score, marker, color="k", markersize=11, label=label)
    print(f"{label}: R² {score:.3f}, reliance {rho:.1%}")
ax.set_xlabel("Missingness reliance")
ax.set_ylabel("R² on held-out rows")
ax.legend()
plt.show()
