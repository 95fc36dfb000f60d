"""skml: methods of recent machine-learning papers as scikit-learn estimators.

Sub-packages are named by role, as in scikit-learn, and load on first access, so that
``import skml`` costs next to nothing and pulls in no optional dependency.
"""

import importlib

__version__ = "0.1.0"

_SUBPACKAGES = frozenset(
    {
        "adversarial",
        "causal",
        "datasets",
        "distillation",
        "ensemble",
        "equivariant",
        "gflownet",
        "implicit",
        "inspection",
        "linear_model",
        "metrics",
        "model_selection",
        "preprocessing",
        "quantization",
        "tree",
        "utils",
    }
)

__all__ = ["__version__", *sorted(_SUBPACKAGES)]


def __getattr__(name):
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(set(globals()) | _SUBPACKAGES)
