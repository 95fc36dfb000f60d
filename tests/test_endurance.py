"""Fitting and predicting again and again keeps no memory.

``make endurance`` sets SKML_ENDURANCE to 200 fits, and to as many calls of the output methods, and
prints what each estimator keeps per call. Otherwise the fits are few, which shows a leak as well
(the numbers are exact), but not one that begins late.
"""

import ctypes
import functools
import itertools
import mmap
import multiprocessing
import os
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from skml.utils._contract_inputs import fresh, inputs_for
from tests._estimators import CLASSES, TINY, tiny_estimator
from tests._growth import growth_per_call

N_CALLS = int(os.environ.get("SKML_ENDURANCE", 0))
IS_LONG = N_CALLS > 0
COUNTS = (
    {"n_calls": N_CALLS, "warm_up": 30, "n_stretches": 10}
    if IS_LONG
    else {"n_calls": 16, "warm_up": 8, "n_stretches": 4}
)

# Code that the default parameters do not reach.
VARIANTS = {
    "MAGradientBoostingClassifier": [{"max_bins": 16, "n_estimators": 5}],
    "MARandomForestRegressor": [{"n_estimators": 5, "oob_score": True}],
    "RewardProportionalSampler": [
        {"solver": "mlp", "max_iter": 3, "hidden_layer_sizes": (8,)},
        {"objective": "tb", "solver": "mlp", "max_iter": 3, "hidden_layer_sizes": (8,)},
    ],
}
# One for each compiled module and each training loop: what `make test` has time for.
FEW = {
    "CATEBounder",
    "DataFreeDistiller",
    "EquivariantPolynomialFeatures",
    "GANQQuantizer",
    "GPTQQuantizer",
    "INRRegressor",
    "LeTETimeEncoder",
    "MADecisionTreeRegressor",
    "MAGradientBoostingClassifier",
    "MALassoCV",
    "MALogisticRegression",
    "MARandomForestClassifier",
    "NonTransferableClassifier",
    "QuantizedEstimator",
    "QuantumGroupEquivariantClassifier",
    "ShufflingSGDClassifier",
}
CASES = [(name, TINY.get(name, {})) for name in CLASSES if IS_LONG or name in FEW]
CASES += [
    (name, params)
    for name, variants in VARIANTS.items()
    for params in (variants if IS_LONG else variants[:1])
]


def case_id(case):
    name, params = case
    label = "-".join(str(value) for value in params.values())
    return name if params == TINY.get(name, {}) else f"{name}-{label}"


@pytest.fixture(scope="module")
def measure():
    """Calls a function of this module in a process that does nothing else.

    Threads that other tests have left, those of a cluster for one, allocate whenever they like.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield lambda function, *args: pool.submit(function, *args).result()


def case_of(name, params):
    estimator = tiny_estimator(name).set_params(**params)
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=0)  # every fit takes as much memory as the one before
    return estimator, inputs_for(estimator)("small")


def growth_of_two_fits(name, params):
    """One of the same estimator every time, the other of a new one."""
    warnings.simplefilter("ignore")
    estimator, inputs = case_of(name, params)
    same = fresh(estimator)

    def fit_twice():
        inputs.fit(same)
        inputs.fit(fresh(estimator))

    counts = {key: count // 2 if key != "n_stretches" else count for key, count in COUNTS.items()}
    return growth_per_call(fit_twice, **counts)


def growth_of_outputs(name, params):
    """All output methods of one estimator."""
    warnings.simplefilter("ignore")
    estimator, inputs = case_of(name, params)
    inputs.fit(estimator)
    return growth_per_call(lambda: inputs.outputs(estimator), **COUNTS)


def report(what, growth, capsys):
    if IS_LONG:
        with capsys.disabled():
            print(f"\n{what:55s}{growth}", end="")


@pytest.mark.parametrize("growth_of", [growth_of_two_fits, growth_of_outputs])
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_estimators_keep_no_memory(case, growth_of, measure, capsys):
    growth = measure(growth_of, *case)
    report(f"{case_id(case)} {growth_of.__name__.removeprefix('growth_of_')}", growth, capsys)
    assert not growth.excess(), growth


def calls_on_a_network():
    """Functions that watch or change a network, or multiply with packed weights, by name."""
    torch = pytest.importorskip("torch")
    from skml.adversarial import mma_attack, pgd_attack
    from skml.implicit import empirical_ntk
    from skml.quantization import (
        GANQQuantizer,
        RTNQuantizer,
        int8_matmul,
        lut_matmul,
        quantize_module,
    )

    network = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    ).eval()
    X = np.random.default_rng(0).random((10, 6), dtype=np.float32)
    images, y = torch.from_numpy(X), torch.arange(10) % 3
    table, even = (cls(4).fit(X).quantize(X) for cls in (GANQQuantizer, RTNQuantizer))
    budget = {"eps": 0.1, "n_steps": 3, "random_start": False}
    return {
        "quantize_module": lambda: quantize_module(network, GANQQuantizer(3), images),
        "empirical_ntk": lambda: empirical_ntk(network, images),
        "pgd_attack": lambda: pgd_attack(network, images, y, **budget),
        "mma_attack": lambda: mma_attack(network, images, y, **budget),
        "lut_matmul": lambda: lut_matmul(X, table),
        "int8_matmul": lambda: int8_matmul(X, even),
    }


@pytest.mark.parametrize(
    "name",
    ["quantize_module", "empirical_ntk", "pgd_attack", "mma_attack", "lut_matmul", "int8_matmul"],
)
def test_functions_keep_no_memory(name, measure, capsys):
    growth = measure(growth_of_function, name)
    report(name, growth, capsys)
    assert not growth.excess(), growth


def growth_of_function(name):
    return growth_per_call(calls_on_a_network()[name], **COUNTS)


class Leaking(BaseEstimator):
    """Keeps what `leak` keeps in every fit."""

    def __init__(self, leak=None):
        self.leak = leak

    def fit(self, X, y=None):
        self.leak()
        self.mean_ = X.mean()
        return self


def leak_an_array(kept=[]):  # noqa: B006 - it is the fault
    kept.append(np.zeros(2000))


def leak_from_the_c_library():
    ctypes.CDLL(None).malloc(1000)


def leak_a_hook(module=[]):  # noqa: B006
    torch = pytest.importorskip("torch")
    if not module:
        module.append(torch.nn.Linear(2, 2))
    module[0].register_forward_hook(lambda *args: None)


@functools.cache
def cached(key):
    return len(str(key))


def leak_through_a_cache():
    cached(object())


def leak_mapped_pages(kept=[]):  # noqa: B006
    pages = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    pages[:: mmap.PAGESIZE] = b"1234"
    kept.append(pages)


@pytest.mark.parametrize(
    ("leak", "seen"),
    [
        (leak_an_array, {"heap", "blocks"}),
        (leak_from_the_c_library, {"heap"}),
        (leak_a_hook, {"blocks", "objects"}),
        (leak_through_a_cache, {"blocks"}),
        (leak_mapped_pages, {"resident"}),
    ],
)
def test_a_leak_is_seen(leak, seen, measure):
    growth = measure(growth_of_leak, leak)
    if not growth.heap and "heap" in seen:
        pytest.skip("this C library does not count what it hands out")
    assert seen <= growth.excess().keys(), growth


def growth_of_leak(leak):
    X = np.ones((5, 2))
    return growth_per_call(lambda: Leaking(leak).fit(X), **COUNTS)


_filled_soon = {}
_numbers = itertools.cycle(range(6))


def fill_a_small_cache():
    _filled_soon.setdefault(next(_numbers), np.zeros(1000))


def test_a_cache_that_is_full_soon_is_no_leak(measure):
    assert not measure(growth_of_leak, fill_a_small_cache).excess()
