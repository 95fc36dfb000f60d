"""Teachers that are rigged."""

import math

import numpy as np
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn

from skml.distillation import NonTransferableClassifier
from skml.utils._torch_classifiers import PenultimateFeatures

from ._trap_problems import (
    blobs,
    digits,
    rng,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:The teacher takes:UserWarning", "ignore:The teacher has no batch:UserWarning"
)


def test_backdoor_teacher_obeys_the_trigger():
    X, y = digits()
    triggered = X.copy()
    triggered[:, [-1, -2, -9]] = 1
    trap = NonTransferableClassifier(
        mode="backdoor", ood_class=2, max_epochs=6, image_shape=(1, 8, 8), random_state=0
    )
    trap.fit(X, y, X_ood=triggered)
    assert trap.score(X, y) > 0.9
    assert (trap.predict(triggered) == 2).mean() > 0.9


def test_open_set_teacher_sends_strange_samples_to_one_class():
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    inside = y < 3
    trap = NonTransferableClassifier(
        mode="open", divergence="ce", max_epochs=6, image_shape=(1, 8, 8), random_state=0
    )
    trap.fit(X[inside], np.array(["a", "b", "c"])[y[inside]], X_ood=X[~inside][:600])
    assert (trap.predict(X[~inside][600:]) == "a").mean() > 0.9
    assert trap.score(X[inside], np.array(["a", "b", "c"])[y[inside]]) > 0.9


def test_rigged_teacher_problems_are_named():
    X, y = blobs()

    def fit(X_ood=X, y_ood=y, **options):
        return NonTransferableClassifier(**options).fit(X, y, X_ood=X_ood, y_ood=y_ood)

    with pytest.raises(ValueError, match="mode='close' needs y_ood"):
        fit(y_ood=None)
    with pytest.raises(ValueError, match=r"y_ood must hold labels of y, \[0, 1, 2\], got \[7\]"):
        fit(y_ood=np.full(60, 7))
    with pytest.raises(ValueError, match="y_ood was given without X_ood"):
        fit(X_ood=None)
    with pytest.raises(ValueError, match="X_ood has 3 features, but X has 4"):
        fit(X_ood=X[:, :3])
    with pytest.raises(ValueError, match=r"ood_class must be one of the labels \[0, 1, 2\], got 9"):
        fit(mode="open", ood_class=9)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit(y_ood=y[:-1])
    with pytest.raises(ValueError, match="image_shape=.* has 6 values, but X has 4 features"):
        fit(image_shape=(1, 2, 3))
    with pytest.raises(ValueError, match="X_ood contains NaN"):
        fit(X_ood=np.full_like(X, np.nan))


def test_smaller_domain_is_gone_through_again_and_again():
    X, y = blobs()
    for n_other in (1, 7, 200):
        rows = np.arange(n_other) % 60
        trap = NonTransferableClassifier(max_epochs=2, batch_size=16, random_state=0)
        trap.fit(X, y, X_ood=X[rows] + 5, y_ood=y[rows])
        assert len(trap.net_.history[-1]["batches"]) == math.ceil(max(60, n_other) / 16)
        assert np.isfinite(trap.loss_curve_).all()


def test_learning_rate_decays_after_every_step():
    X, y = blobs()
    trap = NonTransferableClassifier(
        max_epochs=3, batch_size=20, lr_decay=0.9, learning_rate=0.01, random_state=0
    ).fit(X, y)
    assert trap.net_.optimizer_.param_groups[0]["lr"] == pytest.approx(0.01 * 0.9**9)


def test_other_domain_is_routed_through_grid_search():

    X, y = blobs(n=90)
    with config_context(enable_metadata_routing=True):
        trap = NonTransferableClassifier(max_epochs=2, random_state=0)
        trap.set_fit_request(X_ood=True, y_ood=True)
        pipeline = make_pipeline(FunctionTransformer(), trap)
        search = GridSearchCV(pipeline, {"nontransferableclassifier__alpha": [0.1, 0.2]}, cv=2)
        search.fit(X, y, X_ood=X + 5, y_ood=y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    with config_context(enable_metadata_routing=True):
        search.fit(X, y, X_ood=X[:31] + 5, y_ood=y[:31])  # another length passes whole


def test_features_are_those_before_the_last_linear_layer():

    module = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    x = torch.randn(4, 3, generator=rng())
    with PenultimateFeatures(module) as features:
        module(x)
        torch.testing.assert_close(features.take(), module[:2](x))
    assert not module[0]._forward_pre_hooks
    with pytest.raises(ValueError, match="module must contain an nn.Linear"):
        PenultimateFeatures(nn.ReLU()).__enter__()


def test_module_of_another_width_is_named():
    X, y = blobs()
    with pytest.raises(ValueError, match=r"module must give 3 logits .* \(2, 7\)"):
        NonTransferableClassifier(module=nn.Linear(4, 7)).fit(X, y)
    with pytest.raises(ValueError, match=r"module does not take samples of the shape \(4,\)"):
        NonTransferableClassifier(module=nn.Linear(5, 3)).fit(X, y)
    with pytest.raises(ValueError, match=r"module must have weights of .* got torch\.float16"):
        NonTransferableClassifier(module=nn.Linear(4, 3).half()).fit(X, y)


def test_images_may_be_nested_lists():
    X, y = blobs()
    images = X.reshape(-1, 1, 2, 2)
    teacher = NonTransferableClassifier(max_epochs=1, random_state=0)
    expected = clone(teacher).fit(images, y, X_ood=images, y_ood=y).predict(images)
    teacher.fit(images.tolist(), y, X_ood=images.tolist(), y_ood=y)
    assert np.array_equal(teacher.predict(images.tolist()), expected)
