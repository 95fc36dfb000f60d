"""Data-free distillation of teachers of all kinds, with networks of all kinds."""

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from torch import nn

from skml.distillation import ATEscDistiller, DataFreeDistiller, NonTransferableClassifier
from skml.distillation._bases import BASES
from skml.distillation._networks import default_classifier, default_generator

from ._trap_problems import (
    QUICK,
    blobs,
    digits,
    distillers,
    image_trap,
    same_student,
    seeded,
    vector_teacher,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:The teacher takes:UserWarning", "ignore:The teacher has no batch:UserWarning"
)


def logits_net(shape=(4,), n_classes=3, criterion=nn.CrossEntropyLoss, softmax=False):
    module = seeded(default_classifier, shape, n_classes, 4)
    if softmax:
        module = nn.Sequential(module, nn.Softmax(dim=1))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        X, y = blobs()
        net = NeuralNetClassifier(
            module, criterion=criterion, max_epochs=5, lr=0.05, verbose=0, train_split=None
        )
        return net.fit(X, y.astype(np.int64))


@distillers
@pytest.mark.parametrize("softmax", [False, True])
def test_skorch_teacher_is_used_as_it_is(distiller, softmax):
    net = logits_net(softmax=softmax, criterion=nn.NLLLoss if softmax else nn.CrossEntropyLoss)
    net.module_.train()
    before = {key: value.clone() for key, value in net.module_.state_dict().items()}
    student = distiller(net, image_shape=(4,), random_state=0, **QUICK).fit()
    assert student.teacher_ is net
    assert net.module_.training
    for key, value in net.module_.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert all(not part._forward_pre_hooks for part in net.module_.modules())
    assert all(parameter.requires_grad for parameter in net.module_.parameters())
    bare = distiller(
        nn.Sequential(net.module_, Logarithm()) if softmax else net.module_,
        image_shape=(4,),
        random_state=0,
        **QUICK,
    ).fit()
    assert same_student(student, bare)


class Logarithm(nn.Module):
    def forward(self, x):
        return x.clamp_min(1e-30).log()


@distillers
@pytest.mark.parametrize("base", BASES)
def test_teacher_in_another_precision_is_asked_in_float32(distiller, base):
    teacher = seeded(default_classifier, (4,), 3, 4)
    settings = {"base": base, "image_shape": (4,), "random_state": 0, **QUICK}
    expected = distiller(teacher, **settings).fit()
    double = copy.deepcopy(teacher).double()
    before = {key: value.clone() for key, value in double.state_dict().items()}
    student = distiller(double, **settings).fit()
    assert same_student(student, expected)  # its weights are those of float32 exactly
    X, _ = blobs()
    assert student.predict(X).shape == (60,)
    if distiller is ATEscDistiller:
        np.testing.assert_array_equal(student.is_fragile(X), expected.is_fragile(X))
    for key, value in double.state_dict().items():
        assert value.dtype == before[key].dtype
        assert torch.equal(value, before[key])


def test_unfitted_skorch_teacher_in_float64_is_fitted_as_it_is():
    X, y = blobs()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = NeuralNetClassifier(
            default_classifier((4,), 3, 4).double(), max_epochs=2, verbose=0, train_split=None
        )
        student = DataFreeDistiller(net, random_state=0, **QUICK).fit(X, y)
    assert next(student.teacher_.module_.parameters()).dtype == torch.float64
    assert student.decision_function(X).dtype == np.float32


def test_binary_teacher_with_one_output():
    X, y = blobs(n_classes=2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        net = NeuralNetBinaryClassifier(module, max_epochs=3, verbose=0, train_split=None)
        net.fit(X, y.astype(np.float32))
    student = DataFreeDistiller(net, image_shape=(4,), random_state=0, **QUICK).fit()
    assert student.decision_function(X).shape == (60,)
    np.testing.assert_array_equal(
        student.predict(X), student.classes_[(student.decision_function(X) > 0).astype(int)]
    )


@distillers
def test_unfitted_skorch_teacher_is_cloned_and_fitted(distiller):
    X, y = blobs()
    names = np.array(["one", "three", "two"])
    net = clone(logits_net())
    student = distiller(net, random_state=0, **QUICK).fit(X, names[y])
    assert not getattr(net, "initialized_", False)
    assert student.teacher_ is not net
    np.testing.assert_array_equal(student.classes_, names)
    assert set(student.predict(X)) <= set(names)
    np.testing.assert_array_equal(student.clip_values_, [X.min(axis=0), X.max(axis=0)])


def test_frozen_teacher_in_pipeline_and_grid_search():
    X, y = blobs(n=90)
    teacher = FrozenEstimator(vector_teacher())
    pipeline = make_pipeline(
        FunctionTransformer(), ATEscDistiller(teacher, clip_values=(-9, 9), random_state=0, **QUICK)
    )
    search = GridSearchCV(pipeline, {"atescdistiller__eps": [0.05, 0.2]}, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_[-1]
    assert best.teacher_.estimator is vector_teacher()
    with pytest.raises(NotFittedError, match="FrozenEstimator around a NonTransferableClassifier"):
        DataFreeDistiller(FrozenEstimator(NonTransferableClassifier())).fit(X, y)


def test_clone_of_a_skorch_teacher_forgets_its_weights():
    X, y = blobs()
    net = logits_net()
    cloned = clone(DataFreeDistiller(net, random_state=0, **QUICK))
    with pytest.raises(ValueError, match="needs X and y to fit its teacher, which is not fitted"):
        cloned.fit()
    assert cloned.fit(X, y).teacher_ is not net


def test_labels_and_shape_come_from_the_teacher():
    X, y = blobs()
    names = np.array(["one", "three", "two"])
    teacher = NonTransferableClassifier(max_epochs=2, random_state=0).fit(X, names[y])
    student = DataFreeDistiller(teacher, random_state=0, **QUICK).fit()
    np.testing.assert_array_equal(student.classes_, names)
    assert student.n_features_in_ == 4
    images = DataFreeDistiller(image_trap(), random_state=0, **QUICK).fit()
    assert images.input_shape_ == (1, 8, 8)
    assert images.n_features_in_ == 64
    assert images.sample(3).shape == (3, 64)
    np.testing.assert_array_equal(
        images.predict(images.sample(5)), images.predict(images.sample(5).reshape(5, 1, 8, 8))
    )


def test_own_student_and_generator_are_copied():
    student = seeded(default_classifier, (4,), 3, 2)
    generator = seeded(default_generator, 16, (4,), 2)
    before = [copy.deepcopy(module.state_dict()) for module in (student, generator)]
    distiller = DataFreeDistiller(
        vector_teacher(), student, generator=generator, latent_dim=16, random_state=0, **QUICK
    ).fit()
    for module, state in zip((student, generator), before, strict=True):
        for key, value in module.state_dict().items():
            assert torch.equal(value, state[key])
    assert distiller.student_ is not student
    assert not same_student(
        distiller,
        DataFreeDistiller(
            vector_teacher(), generator=generator, latent_dim=16, random_state=0, **QUICK
        ).fit(),
    )


@distillers
def test_round_trip_keeps_student_generator_and_mask(distiller):
    fitted = distiller(image_trap(), random_state=0, **QUICK).fit()
    loaded = pickle.loads(pickle.dumps(fitted))
    X, _ = digits()
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(loaded.sample(9), fitted.sample(9))
    if distiller is ATEscDistiller:
        np.testing.assert_array_equal(loaded.is_fragile(X), fitted.is_fragile(X))
    assert loaded.net_.generator_ is loaded.generator_
