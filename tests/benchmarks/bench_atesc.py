"""Trap escaping beside the same distillation without the split, and the attack beside a peer's.

A ratio is the other side's time over ours. A whole fit may take 1.5 times that of the loop without
the split, so the goal there is two thirds. Processor time is counted: the sides differ by little.
The attack alone has no goal.
"""

import time

import numpy as np
import pytest
import torch
import torchattacks
from _timing import compare
from sklearn.datasets import load_digits

from skml.adversarial import pgd_attack
from skml.distillation import ATEscDistiller, DataFreeDistiller, NonTransferableClassifier

PACKAGES = ("torch", "skorch", "torchattacks")
pytestmark = pytest.mark.usefixtures("one_torch_thread")

# Fewer rounds than by default, so that the search of the radius weighs more.
N_ROUNDS, N_ATTACKED, STEPS, EPS = 6, 1024, 10, 0.1


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(np.float32), y


@pytest.fixture(scope="module")
def teacher(digits):
    X, y = digits
    teacher = NonTransferableClassifier(
        divergence="ce", max_epochs=5, image_shape=(1, 8, 8), random_state=0
    )
    return teacher.fit(X, y, X_ood=1 - X, y_ood=y)


def fit(cls, teacher, **options):
    return lambda: cls(teacher, random_state=0, **options).fit()


@pytest.mark.parametrize("eps", [0.05, "auto"])
@pytest.mark.filterwarnings("ignore:The teacher takes")
def test_whole_fit(benchmark, record, teacher, eps):
    row = compare(
        benchmark,
        f"fit, {N_ROUNDS} rounds, dfq, 8 x 8 pixels, eps = {eps!r}",
        fit(ATEscDistiller, teacher, max_iter=N_ROUNDS, eps=eps),
        "the same without the split",
        fit(DataFreeDistiller, teacher, max_iter=N_ROUNDS),
        goal=1 / 1.5,
        rounds=1,
        warm_up=False,
        clock=time.process_time,
    )
    record.add(row)


@pytest.mark.parametrize("stop", [False, True], ids=["all steps", "until success"])
def test_attack(benchmark, record, digits, teacher, stop):
    X = torch.from_numpy(digits[0][:N_ATTACKED]).reshape(-1, 1, 8, 8)
    module = teacher.module_
    y = module(X).argmax(dim=1).detach()
    peer = torchattacks.PGD(module, eps=EPS, alpha=EPS / 4, steps=STEPS)
    row = compare(
        benchmark,
        f"PGD, {STEPS} steps, {N_ATTACKED} images, {'until success' if stop else 'all steps'}",
        lambda: pgd_attack(
            module, X, y, eps=EPS, step_size=EPS / 4, n_steps=STEPS, stop_at_success=stop
        ),
        "torchattacks",
        lambda: peer(X, y),
        rounds=5,
        clock=time.process_time,
    )
    record.add(row)
