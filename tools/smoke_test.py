"""Fit the compiled code of an installed wheel; run outside the source tree."""

import pickle
from pathlib import Path

import numpy as np

import skml
from skml.metrics import missingness_reliance
from skml.tree import MADecisionTreeClassifier, MADecisionTreeRegressor

root = Path(__file__).resolve().parents[1]
if Path(skml.__file__).resolve().is_relative_to(root / "skml"):
    raise SystemExit(f"skml was imported from the source tree: {skml.__file__}")

rng = np.random.default_rng(0)
X = rng.normal(size=(500, 6))
y = X[:, 0] + (X[:, 1] > 0)
X[rng.random(X.shape) < 0.2] = np.nan
for tree, target in (
    (MADecisionTreeClassifier(max_depth=4), y > 0.5),
    (MADecisionTreeRegressor(max_depth=4), y),
):
    tree.fit(X, target)
    score, reliance = tree.score(X, target), missingness_reliance(tree, X)
    print(f"{type(tree).__name__}: score {score:.3f}, reliance {reliance:.3f}")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(tree)).predict(X), tree.predict(X))
    if score < 0.3:
        raise SystemExit(f"{type(tree).__name__} learnt nothing: score {score:.3f}")
print(f"skml {skml.__version__} works")
