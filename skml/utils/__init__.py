"""Discovery of estimators, contract checks and the small pieces that several methods share."""

import importlib

from ._optional import lazy_exports

__all__ = ["SkmlTags", "discovery", "estimator_checks", "extend_tags", "restores_on_error"]

_load_name, __dir__ = lazy_exports(
    __name__,
    {"SkmlTags": "_tags", "extend_tags": "_tags", "restores_on_error": "_atomic"},
    namespace=globals(),
)


def __getattr__(name):
    # Both import scikit-learn and more, which `from skml.utils._optional import ...` must not.
    if name in {"discovery", "estimator_checks"}:
        return importlib.import_module(f"{__name__}.{name}")
    return _load_name(name)
