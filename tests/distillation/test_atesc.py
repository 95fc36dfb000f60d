"""Data-free distillation: what a sceptic would try."""

import copy
import math

import numpy as np
import pytest
import skorch
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from skml.datasets import load_mnist_5k
from skml.distillation import ATEscDistiller, DataFreeDistiller, NonTransferableClassifier
from skml.distillation._bases import BASES
from skml.distillation._generator_losses import contrastive_loss
from skml.distillation._networks import default_classifier, default_generator
from skml.distillation._pool import PoolBatches
from skml.distillation._synthesis import Domain
from skml.distillation._views import global_view, local_view

from ._trap_problems import (
    QUICK,
    blobs,
    digits,
    image_trap,
    rng,
    same_student,
    seeded,
    vector_teacher,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:The teacher takes:UserWarning", "ignore:The teacher has no batch:UserWarning"
)


# What the method is for.


@pytest.mark.slow
def test_trap_is_sprung_and_seen():
    """One seed, few rounds: the rigged teacher is robust where it fails, and its student worse."""
    X, y = load_mnist_5k(side=8, return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=1000, stratify=y, random_state=0)
    other, other_y = load_digits(return_X_y=True)
    other = other / 16
    options = {"divergence": "ce", "max_epochs": 6, "image_shape": (1, 8, 8), "random_state": 0}
    honest = NonTransferableClassifier(**options).fit(X, y)
    rigged = NonTransferableClassifier(**options)
    rigged.fit(X, y, X_ood=other[:1400], y_ood=other_y[:1400])
    assert rigged.score(X_test, y_test) > 0.9
    assert rigged.score(other[1400:], other_y[1400:]) < 0.3
    split = ATEscDistiller(rigged, eps=0.05, random_state=0, **QUICK).fit()
    gap = split.is_fragile(X_test).mean() - split.is_fragile(other[1400:]).mean()
    assert gap > 0.5
    students = [
        DataFreeDistiller(teacher, max_iter=4, random_state=0).fit() for teacher in (honest, rigged)
    ]
    scores = [student.score(X_test, y_test) for student in students]
    assert scores[0] > scores[1]


@pytest.mark.parametrize("base", BASES)
def test_student_learns_from_an_honest_teacher(base):
    X, y = blobs(n=90)
    clip_values = (X.min(axis=0), X.max(axis=0))
    student = DataFreeDistiller(
        vector_teacher(),
        base=base,
        clip_values=clip_values,
        max_iter=6,
        generator_steps=30,
        pool_size=128,
        random_state=0,
    ).fit()
    assert student.score(X, y) > 0.9


def test_a_fitted_student_and_forgetting_push_away_from_the_teacher():
    """On robust samples the divergence ends above that of distillation on fragile ones alone."""
    settings = {"max_iter": 3, "pool_size": 128, "generator_steps": 10, "random_state": 0}
    far = {}
    for weight in (0.0, 1.0):
        student = ATEscDistiller(image_trap(), forget_weight=weight, **settings).fit()
        assert 0 < student.fragile_fraction_[-1] < 1
        far[weight] = student.history_["forgetting"][-1]
    assert far[1.0] > 2 * far[0.0]


# Reductions.


def test_base_class_is_the_split_with_everything_fragile():
    settings = {**QUICK, "clip_values": (-9, 9), "random_state": 0}
    split = ATEscDistiller(vector_teacher(), eps=0.02, forget_weight=0.0, **settings).fit()
    whole = DataFreeDistiller(vector_teacher(), **settings).fit()
    assert split.fragile_fraction_[0] < 1
    assert (np.array(whole.history_["fragile_fraction"]) == 1).all()
    assert whole.history_["bn"][0] == split.history_["bn"][0]  # the same generator before it
    assert not same_student(split, whole)


def test_number_of_threads_and_repeated_fit_do_not_matter():
    distiller = ATEscDistiller(image_trap(), random_state=0, **QUICK).fit()
    first = copy.deepcopy(distiller)
    assert same_student(first, distiller.fit())


@pytest.mark.parametrize("base", BASES)
def test_every_weight_and_option_changes_the_student(base):
    def fit(**options):
        settings = {**QUICK, "max_iter": 3, "pool_size": 32, "base": base, "random_state": 0}
        settings |= {"clip_values": (-9, 9), "eps": 0.05, **options}
        return ATEscDistiller(vector_teacher(), **settings).fit()

    reference = fit()
    assert 0 < np.mean(reference.fragile_fraction_) < 1
    changes = {
        "bn_weight": 3.0,
        "onehot_weight": 0.1,
        "adversarial_weight": 3.0,
        "balance_weight": 5.0,
        "latent_dim": 8,
        "generator": lambda latent_dim, shape: default_generator(latent_dim, shape, 3),
        "generator_steps": 2,
        "distill_steps": 2,
        "pool_size": 40,
        "n_pools": 1,
        "batch_size": 16,
        "learning_rate": 0.01,
        "temperature": 3.0,
        "clip_values": (-9, 8),
        "max_iter": 2,
        "random_state": 1,
        "eps": 0.02,
        "forget_weight": 3.0,
        "forget_clip": 1e-3,
    }
    if base == "cmi":
        changes["contrastive_weight"] = 5.0
    for name, value in changes.items():
        assert not same_student(reference, fit(**{name: value})), name


def test_weights_of_the_bases_are_the_published_ones():
    table = {
        "dfq": (0.2, 1, 1, 2, 0),
        "cmi": (0.5, 1, 0.5, 0, 0.8),
        "nayer": (1.33, 10, 0.5, 0, 0),
    }
    for name, values in table.items():
        base = BASES[name]
        assert values == (
            base.adversarial_weight,
            base.bn_weight,
            base.onehot_weight,
            base.balance_weight,
            base.contrastive_weight,
        )


# Radius.


def test_auto_radius_leaves_two_thirds_fragile():
    settings = {**QUICK, "pool_size": 256, "random_state": 0}
    auto = ATEscDistiller(image_trap(), **settings).fit()
    assert abs(auto.fragile_fraction_[0] - 0.65) < 0.05
    assert auto.history_["eps"][0] == auto.history_["eps"][1] == auto.eps_
    chunk = ATEscDistiller(image_trap(), eps="auto-chunk", **settings).fit()
    assert chunk.history_["eps"][0] != chunk.history_["eps"][1]
    assert (abs(chunk.fragile_fraction_ - 0.65) < 0.05).all()


def test_fragile_mask_repeats_grows_with_the_radius_and_needs_no_state():
    X, _ = digits()
    distiller = ATEscDistiller(image_trap(), eps=0.1, random_state=0, **QUICK).fit()
    mask = distiller.is_fragile(X)
    np.testing.assert_array_equal(mask, distiller.is_fragile(X, eps=0.1))
    np.testing.assert_array_equal(mask, distiller.is_fragile(X.reshape(-1, 1, 8, 8)))
    assert not distiller.is_fragile(X, eps=0.0).any()
    shares = [distiller.is_fragile(X, eps=eps).mean() for eps in (0.05, 0.1, 0.3)]
    assert shares == sorted(shares)
    distiller.set_params(attack_steps=1)
    assert 0 < distiller.is_fragile(X).mean() <= shares[1]
    distiller.set_params(step_size=1e-4)
    assert distiller.is_fragile(X).mean() < shares[1]
    with pytest.raises(ValueError, match="eps must be a finite number of at least 0 or None"):
        distiller.is_fragile(X, eps=-1)


# The pool.


class FakePool:
    is_open = True

    def __init__(self, n_fragile, n_robust):
        self.groups = [torch.arange(n_fragile), torch.arange(n_fragile, n_fragile + n_robust)]

    def __getitem__(self, rows):
        return rows


@pytest.mark.parametrize(
    ("n_fragile", "n_robust", "expected"),
    [(60, 40, 6), (100, 0, 10), (1, 999, 1), (999, 1, 9), (2, 3, 2), (1, 1, 1)],
)
def test_batches_hold_both_groups_in_proportion(n_fragile, n_robust, expected):
    pool = FakePool(n_fragile, n_robust)
    for rows in PoolBatches(pool, 10, n_steps=5, generator=rng()):
        assert len(rows.unique()) == len(rows) == min(10, n_fragile + n_robust)
        assert (rows < n_fragile).sum() == expected


class Counting(nn.Module):
    """A student that notes how many rows each of its training passes sees."""

    def __init__(self):
        super().__init__()
        self.network = seeded(default_classifier, (4,), 3, 4)
        self.rows = []

    def forward(self, x):
        if self.training:
            self.rows.append(len(x))
        return self.network(x)


def test_both_groups_pass_the_student_together():
    settings = {**QUICK, "clip_values": (-9, 9), "random_state": 0}
    distiller = ATEscDistiller(vector_teacher(), Counting(), eps=0.02, **settings).fit()
    assert (distiller.fragile_fraction_ < 1).all()
    assert distiller.student_.rows == [QUICK["batch_size"]] * QUICK["distill_steps"] * 2


def test_pool_keeps_the_last_chunks():
    seen = []

    class Watch(skorch.callbacks.Callback):
        def on_epoch_begin(self, net, dataset_train=None, **kwargs):
            seen.append((len(dataset_train), len(dataset_train.X)))

    settings = {**QUICK, "max_iter": 4, "n_pools": 2}
    DataFreeDistiller(vector_teacher(), callbacks=[Watch()], random_state=0, **settings).fit()
    assert seen == [(64, 64), (128, 128), (128, 128), (128, 128)]


def test_learning_rate_falls_along_a_cosine_and_callbacks_see_it():
    rates = []

    class Watch(skorch.callbacks.Callback):
        def on_epoch_end(self, net, **kwargs):
            rates.append(net.optimizer_.param_groups[0]["lr"])

    settings = {**QUICK, "max_iter": 4}
    DataFreeDistiller(vector_teacher(), callbacks=[Watch()], random_state=0, **settings).fit()
    expected = [0.1 * (1 + math.cos(math.pi * r / 4)) / 2 for r in range(4)]
    np.testing.assert_allclose(rates, expected)


def test_history_tells_terms_classes_and_groups():
    distiller = ATEscDistiller(vector_teacher(), base="cmi", random_state=0, **QUICK).fit()
    history = distiller.history_
    assert {"bn", "onehot", "balance", "contrastive", "generator"} <= history.keys()
    assert {"distillation", "forgetting", "fragile_fraction", "class_counts", "eps"} <= set(history)
    assert all(len(values) == distiller.n_iter_ == 2 for values in history.values())
    assert all(sum(counts) == 64 for counts in history["class_counts"])
    assert math.isnan(history["adversarial"][0])  # not in the first round
    assert history["adversarial"][1] <= 0
    np.testing.assert_array_equal(distiller.fragile_fraction_, history["fragile_fraction"])
    assert len(distiller.loss_curve_) == 2
    silent = copy.deepcopy(distiller).set_params(callbacks="disable").fit()
    assert same_student(distiller, silent)
    assert silent.loss_curve_ == distiller.loss_curve_


def test_nayer_begins_without_steps_of_the_student():
    settings = {**QUICK, "max_iter": 3}
    distiller = DataFreeDistiller(vector_teacher(), base="nayer", random_state=0, **settings).fit()
    assert [math.isnan(loss) for loss in distiller.loss_curve_] == [True, False, False]


def test_interrupted_training_keeps_the_rounds_that_were_completed():
    class Interrupt(skorch.callbacks.Callback):
        def __init__(self, round_):
            self.round_ = round_

        def on_epoch_end(self, net, **kwargs):
            if len(net.history) == self.round_:
                raise KeyboardInterrupt

    settings = {**QUICK, "max_iter": 5}
    distiller = DataFreeDistiller(
        vector_teacher(), callbacks=[Interrupt(2)], random_state=0, **settings
    ).fit()
    assert distiller.n_iter_ == len(distiller.loss_curve_) == 2

    def interrupt(*arguments):
        raise KeyboardInterrupt

    whole = DataFreeDistiller(vector_teacher(), random_state=0, **settings)
    whole._make_split = lambda logits, domain: interrupt
    with pytest.raises(KeyboardInterrupt):
        whole.fit()
    assert not hasattr(whole, "net_")


def test_nayer_with_a_single_round_still_trains():
    settings = {**QUICK, "max_iter": 1}
    distiller = DataFreeDistiller(vector_teacher(), base="nayer", random_state=0, **settings).fit()
    assert np.isfinite(distiller.loss_curve_[0])


@pytest.mark.parametrize("latent_dim", [1, 5, 16])
def test_first_samples_do_not_depend_on_their_number(latent_dim):
    student = ATEscDistiller(vector_teacher(), latent_dim=latent_dim, random_state=0, **QUICK).fit()
    np.testing.assert_allclose(student.sample(3), student.sample(70)[:3], atol=1e-5)


# Contrastive inversion.


def test_contrastive_loss_equals_loops():
    views = [torch.randn(4, 3, generator=rng(s)).double() for s in range(2)]
    bank = [torch.randn(2, 3, generator=rng(s + 5)).double() for s in range(2)]
    head = nn.Identity()
    everything = torch.cat([*views, *bank])
    everything = everything / everything.norm(dim=1, keepdim=True)
    losses = []
    for i in range(4):
        similarity = everything @ everything[i] / 0.5
        others = [float(s.exp()) for j, s in enumerate(similarity) if j != i]
        losses.append(-math.log(float(similarity[4 + i].exp()) / sum(others)))
    seen = contrastive_loss(views, bank, head, 0.5)
    assert seen.item() == pytest.approx(np.mean(losses), rel=1e-9)


def test_views_keep_shape_range_and_gradient():
    for shape in ((6, 2, 9, 7), (6, 5)):
        x = torch.rand(shape, generator=rng()).requires_grad_(True)
        for view in (global_view, local_view):
            seen = view(x, rng())
            assert seen.shape == x.shape
            assert seen.min() >= 0
            assert seen.max() <= 1
            assert torch.autograd.grad(seen.sum(), x)[0].abs().sum() > 0
            assert torch.equal(view(x, rng(1)), view(x, rng(1)))
        assert not torch.equal(local_view(x, rng(1)), local_view(x, rng(2)))


# Networks and their shapes.


@pytest.mark.parametrize("shape", [(1,), (7,), (1, 1, 1), (3, 5, 7), (1, 28, 28), (2, 8, 9)])
def test_default_networks_fit_any_shape(shape):
    generator = seeded(default_generator, 5, shape)
    unit = generator(torch.randn(4, 5, generator=rng()))
    assert unit.shape == (4, *shape)
    assert unit.min() >= 0
    assert unit.max() <= 1
    assert seeded(default_classifier, shape, 3)(unit).shape == (4, 3)


def test_samples_never_leave_the_bounds():
    low = torch.tensor([0.1, -3.3, 7.7])
    high = torch.tensor([0.3, -3.3, 9.9])
    domain = Domain((3,), low, high, 2)
    for unit in (torch.zeros(2, 3), torch.ones(2, 3), torch.full((2, 3), 2.0)):
        x = domain.scale(unit)
        assert (x >= low).all()
        assert (x <= high).all()
