"""Data-free distillation: what a sceptic would try."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
import skorch
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from torch import nn

from skml.datasets import load_mnist_5k
from skml.distillation import ATEscDistiller, DataFreeDistiller, NonTransferableClassifier
from skml.distillation._bases import BASES
from skml.distillation._generator_losses import contrastive_loss
from skml.distillation._networks import default_classifier, default_generator
from skml.distillation._pool import PoolBatches
from skml.distillation._synthesis import Domain
from skml.distillation._views import global_view, local_view

from ._trap_problems import QUICK, blobs, digits, image_trap, rng, seeded, vector_teacher

pytestmark = pytest.mark.filterwarnings(
    "ignore:The teacher takes:UserWarning", "ignore:The teacher has no batch:UserWarning"
)
distillers = pytest.mark.parametrize("distiller", [DataFreeDistiller, ATEscDistiller])


def same_student(first, second):
    return all(
        torch.equal(value, second.student_.state_dict()[key])
        for key, value in first.student_.state_dict().items()
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


# Teachers of all kinds.


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


# What goes wrong.


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


# The rigged teacher.


def test_rigged_teacher_problems_are_named():
    X, y = blobs()

    def fit(X_ood=X, y_ood=y, **options):
        return NonTransferableClassifier(**options).fit(X, y, X_ood=X_ood, y_ood=y_ood)

    with pytest.raises(ValueError, match="mode='close' needs y_ood"):
        fit(y_ood=None)
    with pytest.raises(ValueError, match=r"y_ood must hold labels of y, \[0, 1, 2\]; got \[7\]"):
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
    from sklearn import config_context

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
    from skml.utils._torch_classifiers import PenultimateFeatures

    module = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    x = torch.randn(4, 3, generator=rng())
    with PenultimateFeatures(module) as features:
        module(x)
        torch.testing.assert_close(features.take(), module[:2](x))
    assert not module[0]._forward_pre_hooks
    with pytest.raises(ValueError, match="module must contain an nn.Linear"):
        PenultimateFeatures(nn.ReLU()).__enter__()


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


def test_module_of_another_width_is_named():
    X, y = blobs()
    with pytest.raises(ValueError, match=r"module must give 3 logits .* \(2, 7\)"):
        NonTransferableClassifier(module=nn.Linear(4, 7)).fit(X, y)
    with pytest.raises(ValueError, match=r"module does not take samples of the shape \(4,\)"):
        NonTransferableClassifier(module=nn.Linear(5, 3)).fit(X, y)
    with pytest.raises(ValueError, match=r"module must have weights of .* got torch\.float16"):
        NonTransferableClassifier(module=nn.Linear(4, 3).half()).fit(X, y)


def test_clip_values_and_labels_of_no_kind_are_named():
    X, _y = blobs()
    with pytest.raises(ValueError, match="clip_values must be a pair of numbers or arrays, got"):
        ATEscDistiller(vector_teacher(), clip_values=("a", "b")).fit()
    with pytest.raises(ValueError, match="y must hold labels of one kind"):
        NonTransferableClassifier().fit(X, np.array(["a", None] * (len(X) // 2), dtype=object))


def test_images_may_be_nested_lists():
    X, y = blobs()
    images = X.reshape(-1, 1, 2, 2)
    teacher = NonTransferableClassifier(max_epochs=1, random_state=0)
    expected = clone(teacher).fit(images, y, X_ood=images, y_ood=y).predict(images)
    teacher.fit(images.tolist(), y, X_ood=images.tolist(), y_ood=y)
    assert np.array_equal(teacher.predict(images.tolist()), expected)


@pytest.mark.parametrize("latent_dim", [1, 5, 16])
def test_first_samples_do_not_depend_on_their_number(latent_dim):
    student = ATEscDistiller(vector_teacher(), latent_dim=latent_dim, random_state=0, **QUICK).fit()
    np.testing.assert_allclose(student.sample(3), student.sample(70)[:3], atol=1e-5)
