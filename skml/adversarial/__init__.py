"""Attacks on torch classifiers by small changes of their input."""

from skml.utils._optional import lazy_exports

__all__ = ["fgsm_attack", "mma_attack", "pgd_attack"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {"fgsm_attack": "_fgsm", "mma_attack": "_mma", "pgd_attack": "_pgd"},
    extra="torch",
    namespace=globals(),
)
