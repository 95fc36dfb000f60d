"""Small teachers and data for the tests of data-free distillation."""

import functools

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from skml.distillation import ATEscDistiller, DataFreeDistiller, NonTransferableClassifier

distillers = pytest.mark.parametrize("distiller", [DataFreeDistiller, ATEscDistiller])


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def seeded(make, *args, seed=0):
    """Build a module with weights that do not depend on the global generator."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make(*args)


def linear(weight, bias=None):
    weight = torch.as_tensor(weight, dtype=torch.float32)
    module = nn.Linear(weight.shape[1], len(weight), bias=bias is not None)
    with torch.no_grad():
        module.weight.copy_(weight)
        if bias is not None:
            module.bias.copy_(torch.as_tensor(bias, dtype=torch.float32))
    return module


def blobs(n=60, n_classes=3, n_features=4, seed=0):
    """Well separated Gaussian classes."""
    draw = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    centers = 4 * draw.normal(size=(n_classes, n_features))
    return (centers[y] + 0.5 * draw.normal(size=(n, n_features))).astype(np.float32), y


@functools.cache
def digits(n_class=3):
    """Digits of 8 x 8 pixels in [0, 1]."""
    X, y = load_digits(n_class=n_class, return_X_y=True)
    return (X / 16).astype(np.float32), y


@functools.cache
def vector_teacher():
    """A classifier of blobs; callers leave it as it is."""
    X, y = blobs()
    return NonTransferableClassifier(max_epochs=15, random_state=0).fit(X, y)


@functools.cache
def image_trap():
    """A classifier of three digits that fails on their negatives; callers leave it as it is."""
    X, y = digits()
    trap = NonTransferableClassifier(
        divergence="ce", max_epochs=8, image_shape=(1, 8, 8), random_state=0
    )
    return trap.fit(X, y, X_ood=1 - X, y_ood=y)


def same_student(first, second):
    """Whether the students of two distillers have the same weights, to the bit."""
    return all(
        torch.equal(value, second.student_.state_dict()[key])
        for key, value in first.student_.state_dict().items()
    )


QUICK = {"max_iter": 2, "generator_steps": 4, "distill_steps": 5, "pool_size": 64, "batch_size": 32}
