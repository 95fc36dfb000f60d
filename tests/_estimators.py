"""The public estimators as the common tests fit them."""

from skml.utils._contract_inputs import adapt, fresh
from skml.utils.estimator_checks import make_instance
from tests.test_common import CHECK_PARAMS, ESTIMATORS

CLASSES = {name: cls for name, cls in ESTIMATORS if hasattr(cls, "fit")}

# Settings that reach all of the code of a fit in a few iterations, and learn next to nothing.
_TINY_DISTILLER = {
    "max_iter": 1,
    "generator_steps": 2,
    "distill_steps": 2,
    "pool_size": 16,
    "batch_size": 16,
}
TINY = {
    "ATEscDistiller": _TINY_DISTILLER,
    "CATEBounder": {"max_iter": 3, "max_epochs": 2},
    "DataFreeDistiller": _TINY_DISTILLER,
    "FunctionalTimeEncoder": {"max_iter": 3},
    "INRRegressor": {"max_iter": 3, "hidden_width": 16},
    "LeTETimeEncoder": {"max_iter": 3},
    "MAGradientBoostingClassifier": {"n_estimators": 5},
    "MAGradientBoostingRegressor": {"n_estimators": 5},
    "NonTransferableClassifier": {"max_epochs": 2},
    "QuantumGroupEquivariantClassifier": {"max_epochs": 2},
    "QuantumGroupEquivariantRegressor": {"max_epochs": 2},
}


def quick_estimator(name):
    """A new estimator of the class, with the parameters of the common checks.

    Where `fit` needs further arrays, it is the adapter that derives them from X.
    """
    estimator = make_instance(CLASSES[name]).set_params(**CHECK_PARAMS.get(name, {}))
    return fresh(adapt(estimator))


def tiny_estimator(name):
    """The same, for tests that fit it many times."""
    return quick_estimator(name).set_params(**TINY.get(name, {}))
