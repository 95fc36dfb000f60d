"""Data-free distillation that cannot go well says why."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from skorch import NeuralNetClassifier
from torch import nn

from skml.distillation import ATEscDistiller, DataFreeDistiller, NonTransferableClassifier
from skml.distillation._networks import default_classifier, default_generator

from ._trap_problems import (
    QUICK,
    blobs,
    seeded,
    vector_teacher,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:The teacher takes:UserWarning", "ignore:The teacher has no batch:UserWarning"
)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"teacher": LogisticRegression()}, TypeError, "must be a torch.nn.Module, a skorch net"),
        ({"teacher": seeded(default_classifier, (4,), 3)}, ValueError, "image_shape must be given"),
        ({"image_shape": (1, 2, 3)}, ValueError, r"teacher takes samples of the shape \(4,\)"),
        ({"image_shape": (2, 2)}, ValueError, r"image_shape must be .* got \(2, 2\)"),
        ({"clip_values": (1, 0)}, ValueError, "clip_values must be finite and ascending"),
        ({"clip_values": (0, 1, 2)}, ValueError, "clip_values must be 'auto' or a pair"),
        ({"clip_values": ([0, 0], 1)}, ValueError, "clip_values must .* 4 values each"),
        ({"student": nn.Linear(4, 2)}, ValueError, r"student must give 3 logits .* \(2, 2\)"),
        ({"student": nn.Linear(5, 3)}, ValueError, r"student does not take .* shape \(4,\)"),
        ({"student": lambda shape, k: 3}, TypeError, "must return a torch.nn.Module, got int"),
        ({"generator": nn.Linear(64, 7)}, ValueError, "generator must give 4 values"),
        (
            {"student": nn.Linear(4, 3).double()},
            ValueError,
            r"student must have weights of torch\.float32, .*, got torch\.float64",
        ),
        (
            {"generator": nn.Linear(64, 4).double()},
            ValueError,
            r"generator must have weights of torch\.float32, .*, got torch\.float64",
        ),
        (
            {"contrastive_weight": 0.5},
            ValueError,
            "contrastive_weight must be None or 0 unless base is 'cmi', .* got 0.5 with base='dfq'",
        ),
        (
            {"contrastive_weight": 1, "base": "nayer"},
            ValueError,
            "contrastive_weight must be None or 0 unless base is 'cmi', .* got 1 with base='nayer'",
        ),
    ],
)
def test_bad_arguments_are_named(options, error, match):
    arguments = {"teacher": vector_teacher(), "random_state": 0, **QUICK, **options}
    with pytest.raises(error, match=match):
        ATEscDistiller(**arguments).fit()


def test_teacher_problems_are_named():
    X, _y = blobs()
    with pytest.raises(ValueError, match="needs X and y to fit its teacher, which is None"):
        DataFreeDistiller().fit()
    with pytest.raises(ValueError, match="requires y to be passed"):
        DataFreeDistiller().fit(X)
    with pytest.raises(ValueError, match=r"X or image_shape says \(3,\)"):
        DataFreeDistiller(vector_teacher()).fit(X[:, :3])
    one_output = nn.Sequential(nn.Linear(4, 2), nn.Flatten(0))
    with pytest.raises(ValueError, match="teacher does not take|teacher must give"):
        DataFreeDistiller(nn.Sequential(one_output), image_shape=(5,)).fit()
    mse = NeuralNetClassifier(nn.Linear(4, 3), criterion=nn.MSELoss).initialize()
    with pytest.raises(TypeError, match="criterion MSELoss, which does not say"):
        DataFreeDistiller(mse, image_shape=(4,)).fit()


@pytest.mark.filterwarnings("error::UserWarning")
def test_teacher_without_batch_normalisation_warns():
    module = seeded(nn.Linear, 4, 3)
    with pytest.warns(UserWarning, match="has no batch normalisation with running statistics"):
        DataFreeDistiller(module, image_shape=(4,), random_state=0, **QUICK).fit()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="The teacher has no batch")
        warnings.filterwarnings("ignore", message="The teacher takes")
        DataFreeDistiller(module, image_shape=(4,), bn_weight=0, random_state=0, **QUICK).fit()


class Broken(nn.Module):
    def forward(self, x):
        return torch.full((len(x), 3), torch.nan) * x.sum()


def test_not_a_number_stops_and_names_the_term():
    distiller = DataFreeDistiller(Broken(), image_shape=(4,), random_state=0, **QUICK)
    with pytest.raises(RuntimeError, match="The onehot term of the generator's loss became nan"):
        distiller.fit()
    with pytest.raises(NotFittedError):
        distiller.predict(np.zeros((1, 4)))
    wild = DataFreeDistiller(vector_teacher(), learning_rate=1e30, random_state=0, **QUICK)
    with pytest.raises(RuntimeError, match="term of the (student|generator)'s loss became"):
        wild.fit()
    settings = {**QUICK, "clip_values": (-1e6, 1e6), "max_iter": 1, "random_state": 0}
    lost = DataFreeDistiller(vector_teacher(), generator=Lost(), **settings)
    with pytest.raises(RuntimeError, match="The generator's samples became NaN in round 0"):
        lost.fit()


class Lost(nn.Module):
    """A generator that fails outside of training alone."""

    def __init__(self):
        super().__init__()
        self.network = seeded(default_generator, 64, (4,), 2)

    def forward(self, z):
        return self.network(z) if self.training else torch.full((len(z), 4), torch.nan)


def test_collapse_is_told():
    with pytest.warns(UserWarning, match="synthetic samples for the class 1: the generator may"):
        DataFreeDistiller(
            nn.Sequential(nn.BatchNorm1d(4, affine=False), Tilted()),
            image_shape=(4,),
            random_state=0,
            **QUICK,
        ).fit()


class Tilted(nn.Module):
    def forward(self, x):
        return torch.tensor([0.0, 50.0, 0.0]) + x[:, :3]


def test_clip_values_and_labels_of_no_kind_are_named():
    X, _y = blobs()
    with pytest.raises(ValueError, match="clip_values must be a pair of numbers or arrays, got"):
        ATEscDistiller(vector_teacher(), clip_values=("a", "b")).fit()
    with pytest.raises(ValueError, match="y must hold labels of one kind"):
        NonTransferableClassifier().fit(X, np.array(["a", None] * (len(X) // 2), dtype=object))
