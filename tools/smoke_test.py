"""Use the compiled code of an installed wheel without any extra; run outside the source tree."""

import pickle
import sys
from pathlib import Path

import numpy as np

import skml
from skml.linear_model import ShufflingSGDRegressor
from skml.metrics import missingness_reliance
from skml.quantization import LUTWeight, kernel_info, lut_matmul
from skml.tree import MADecisionTreeClassifier, MADecisionTreeRegressor

root = Path(__file__).resolve().parents[1]
if Path(skml.__file__).resolve().is_relative_to(root / "skml"):
    raise SystemExit(f"skml was imported from the source tree: {skml.__file__}")
optional = {"torch", "matplotlib", "pandas", "numba", "transformers"} & set(sys.modules)
if optional:
    raise SystemExit(f"the core of skml loads {sorted(optional)}")

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

X = np.nan_to_num(X)
y = X @ np.arange(1.0, 7.0)
score = ShufflingSGDRegressor(random_state=0).fit(X, y).score(X, y)
if score < 0.9:
    raise SystemExit(f"ShufflingSGDRegressor learnt too little: score {score:.3f}")

weight = LUTWeight.from_codes(rng.integers(0, 16, (32, 48)), rng.normal(size=(32, 16)))
inputs = rng.normal(size=(3, 48)).astype(np.float32)
for backend in kernel_info()["available"]:
    product = lut_matmul(inputs, weight, backend=backend)
    np.testing.assert_allclose(product, inputs @ weight.dequantize().T, rtol=1e-4, atol=1e-4)
print(f"products on {kernel_info()['available']}")

try:
    from skml.preprocessing import LeTETimeEncoder  # noqa: F401
except ImportError as error:
    if "skml[torch]" not in str(error):
        raise SystemExit(f"the message names no extra: {error}") from error
print(f"skml {skml.__version__} works")
