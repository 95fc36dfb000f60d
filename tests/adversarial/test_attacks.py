"""Gradient attacks on torch classifiers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch import nn

from skml.adversarial import fgsm_attack, mma_attack, pgd_attack

ATTACKS = {"pgd": pgd_attack, "fgsm": fgsm_attack, "mma": mma_attack}
attacks = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def make_module(n_inputs=6, n_classes=4, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(n_inputs, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, n_classes)
        ).eval()


def samples(n=50, n_inputs=6, seed=0):
    X = torch.rand(n, n_inputs, generator=rng(seed))
    return X, make_module(n_inputs)(X).argmax(dim=1)


def linear(weight, bias=None):
    module = nn.Linear(len(weight[0]), len(weight), bias=bias is not None)
    with torch.no_grad():
        module.weight.copy_(torch.as_tensor(weight))
        if bias is not None:
            module.bias.copy_(torch.as_tensor(bias))
    return module


@attacks
@pytest.mark.parametrize("norm", ["inf", "l2"])
def test_attacked_samples_stay_in_ball_and_bounds(attack, norm):
    X, y = samples()
    attacked = attack(make_module(), X, y, eps=0.1, norm=norm)
    offset = (attacked - X).flatten(1)
    reach = offset.abs().amax(dim=1) if norm == "inf" else offset.norm(dim=1)
    assert reach.max() <= 0.1 + 1e-6
    assert reach.max() > 0.09
    assert attacked.min() >= 0
    assert attacked.max() <= 1


@attacks
def test_attack_lowers_accuracy(attack):
    X, y = samples(200)
    module = make_module()
    with torch.no_grad():
        noise = 0.3 * (2 * torch.rand(X.shape, generator=rng(1)) - 1)
        hits = module(attack(module, X, y, eps=0.3)).argmax(dim=1) == y
        noisy_hits = module((X + noise).clamp(0, 1)).argmax(dim=1) == y
    assert hits.double().mean() < noisy_hits.double().mean() - 0.15


@attacks
def test_attack_works_in_evaluation_mode_and_restores_modes(attack):
    X, y = samples()
    module = make_module()
    expected = attack(
        module, X, y, eps=0.1, **({} if attack is fgsm_attack else {"generator": rng()})
    )
    module.train()
    module[3].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    module[0].weight.grad = torch.ones_like(module[0].weight)
    seen = attack(module, X, y, eps=0.1, **({} if attack is fgsm_attack else {"generator": rng()}))
    torch.testing.assert_close(seen, expected, rtol=0, atol=0)
    assert [part.training for part in module] == [True, True, True, False]
    assert (module[0].weight.grad == 1).all()
    assert module[3].weight.grad is None
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name


@attacks
def test_mode_is_restored_after_an_error(attack):
    class Failing(nn.Module):
        def forward(self, x):
            raise RuntimeError("broken")

    module = Failing().train()
    with pytest.raises(RuntimeError, match="broken"):
        attack(module, torch.zeros(2, 3), [0, 1], eps=0.1)
    assert module.training


def test_inputs_are_not_changed_and_need_no_gradient():
    X, y = samples()
    X.requires_grad_(True)
    before = X.detach().clone()
    with torch.no_grad():  # a caller's grad mode is none of the attack's business
        attacked = pgd_attack(make_module(), X, y, eps=0.1)
    assert torch.equal(X.detach(), before)
    assert not attacked.requires_grad
    assert X.grad is None


def test_one_step_is_the_sign_of_the_gradient():
    X, y = samples(10)
    X = 0.3 + 0.4 * X
    module = make_module()
    x = X.clone().requires_grad_(True)
    loss = nn.functional.cross_entropy(module(x), y, reduction="sum")
    expected = X + 0.05 * torch.autograd.grad(loss, x)[0].sign()
    seen = fgsm_attack(module, X, y, eps=0.05, loss="cross_entropy")
    torch.testing.assert_close(seen, expected)


def test_l2_step_on_a_linear_classifier_goes_along_the_difference_of_weights():
    module = linear([[3.0, 0.0], [0.0, 4.0]])
    X = torch.tensor([[0.5, 0.3]])
    seen = fgsm_attack(module, X, [0], eps=0.1, norm="l2")
    torch.testing.assert_close(seen, X + 0.1 * torch.tensor([[-0.6, 0.8]]))


def test_margin_sees_through_a_classifier_whose_cross_entropy_has_no_gradient():
    module = linear([[1000.0, 0.0], [0.0, 1000.0]])
    X = torch.tensor([[0.6, 0.4]])
    stuck = pgd_attack(module, X, [0], eps=0.2, loss="cross_entropy", random_start=False)
    torch.testing.assert_close(stuck, X)
    freed = pgd_attack(module, X, [0], eps=0.2, random_start=False)
    assert freed[0, 0] < freed[0, 1]


def test_targeted_attack_reaches_its_class():
    X, y = samples(100)
    module = make_module()
    target = (y + 1) % 4
    attacked = pgd_attack(module, X, target, eps=0.5, targeted=True, n_steps=20, generator=rng())
    with torch.no_grad():
        reached = module(attacked).argmax(dim=1) == target
        assert not (module(X).argmax(dim=1) == target).any()
    assert reached.double().mean() > 0.2


def test_callable_loss():
    module = linear([[1.0, 0.0], [0.0, 1.0]])
    X = torch.tensor([[0.5, 0.5]])
    seen = fgsm_attack(module, X, [0], eps=0.1, loss=lambda logits, y: logits.sum(dim=1))
    torch.testing.assert_close(seen, X + 0.1)


def test_clip_values_scale_the_radius_of_each_feature():
    module = linear([[1.0, 1.0], [-1.0, -1.0]])
    X = torch.tensor([[5.0, 0.5]])
    low, high = torch.tensor([0.0, 0.0]), torch.tensor([10.0, 1.0])
    seen = fgsm_attack(module, X, [0], eps=0.1, clip_values=(low, high))
    torch.testing.assert_close(seen, torch.tensor([[4.0, 0.4]]))
    no_range = fgsm_attack(module, X, [0], eps=0.1, clip_values=(X[0], X[0]))
    torch.testing.assert_close(no_range, X)


def test_no_clip_values_no_bounds():
    module = linear([[1.0, 0.0], [0.0, 1.0]])
    seen = fgsm_attack(module, torch.tensor([[70.0, -3.0]]), [0], eps=2.0, clip_values=None)
    torch.testing.assert_close(seen, torch.tensor([[68.0, -1.0]]))


def test_given_start_is_shared_by_all_radii():
    X, y = samples()
    X = 0.4 + 0.2 * X
    start = 2 * torch.rand(X.shape, generator=rng()) - 1
    for eps in (0.05, 0.1):
        seen = pgd_attack(make_module(), X, y, eps=eps, n_steps=0, random_start=start)
        torch.testing.assert_close(seen, X + eps * start)


@pytest.mark.parametrize("norm", ["inf", "l2"])
def test_random_start_fills_the_ball(norm):
    X = torch.full((4000, 2), 0.5)
    y = torch.zeros(4000, dtype=torch.int64)
    seen = pgd_attack(make_module(2), X, y, eps=0.2, n_steps=0, norm=norm, generator=rng())
    offset = (seen - X) / 0.2
    radius = offset.abs().amax(dim=1) if norm == "inf" else offset.norm(dim=1)
    # The volume inside of radius r grows as its square.
    assert abs((radius < 0.5).double().mean() - 0.25) < 0.03
    assert offset.mean(dim=0).abs().max() < 0.05


def test_generator_repeats_and_the_global_one_stays():
    X, y = samples()
    state = torch.random.get_rng_state()
    first, second = (pgd_attack(make_module(), X, y, eps=0.1, generator=rng(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(state, torch.random.get_rng_state())
    other = pgd_attack(make_module(), X, y, eps=0.1, n_steps=0, generator=rng(4))
    assert not torch.equal(first, other)


def test_stop_at_success_rests_at_the_first_point_that_is_misclassified():
    X, y = samples(100)
    module = make_module()
    start = 2 * torch.rand(X.shape, generator=rng()) - 1
    options = {"eps": 0.1, "step_size": 0.03, "random_start": start}
    path = [pgd_attack(module, X, y, n_steps=k, **options) for k in range(6)]
    seen = pgd_attack(module, X, y, n_steps=5, stop_at_success=True, **options)
    with torch.no_grad():
        wrong = torch.stack([module(x).argmax(dim=1) != y for x in path])
    assert 0.1 < wrong.any(dim=0).double().mean() < 1
    first = torch.where(wrong.any(dim=0), wrong.to(torch.int8).argmax(dim=0), 5)
    expected = torch.stack(path)[first, torch.arange(100)]
    torch.testing.assert_close(seen, expected, rtol=0, atol=1e-6)


def test_minimum_margin_attack_is_the_best_of_its_targeted_runs():
    X, y = samples(60)
    module = make_module()
    start = 2 * torch.rand(X.shape, generator=rng()) - 1
    options = {"eps": 0.1, "n_steps": 5, "random_start": start}
    with torch.no_grad():
        others = module(X).scatter(1, y[:, None], -np.inf).topk(2, dim=1).indices

    def margin(x, target):
        logits = module(x)
        return (logits.gather(1, target[:, None]) - logits.gather(1, y[:, None])).squeeze(1)

    best = torch.full((60,), -np.inf)
    for target in others.T:

        def gain(logits, y, target=target):
            return (logits.gather(1, target[:, None]) - logits.gather(1, y[:, None])).squeeze(1)

        end = pgd_attack(module, X, y, loss=gain, **options)
        best = torch.maximum(best, margin(end, target).detach())
    seen = mma_attack(module, X, y, n_targets=2, **options)
    with torch.no_grad():
        reached = torch.stack([margin(seen, target) for target in others.T]).amax(dim=0)
    torch.testing.assert_close(reached, best)


def test_more_targets_than_classes_are_all_other_classes():
    X, y = samples(20)
    start = torch.zeros_like(X)
    few = mma_attack(make_module(), X, y, eps=0.1, n_targets=3, random_start=start)
    many = mma_attack(make_module(), X, y, eps=0.1, n_targets=9, random_start=start)
    assert torch.equal(few, many)


@attacks
def test_images_double_precision_arrays_and_empty_batches(attack):
    module = nn.Sequential(nn.Flatten(), linear(np.eye(3, 12).tolist()))
    images = torch.rand(5, 3, 2, 2, generator=rng())
    assert attack(module, images, [0, 1, 2, 0, 1], eps=0.1).shape == (5, 3, 2, 2)
    assert attack(module, images.numpy(), np.zeros(5, dtype=int), eps=0.1).shape == (5, 3, 2, 2)
    assert attack(module.double(), images.double(), [0] * 5, eps=0.1).dtype == torch.float64
    assert attack(
        module, images[:0].double(), torch.zeros(0, dtype=torch.int64), eps=0.1
    ).shape == (
        0,
        3,
        2,
        2,
    )


@given(
    eps=st.floats(0, 2),
    step_size=st.floats(0, 3),
    n_steps=st.integers(0, 4),
    norm=st.sampled_from(["inf", "l2"]),
    low=st.floats(-2, 0),
    high=st.floats(1, 3),
)
def test_ball_and_bounds_hold_for_any_setting(eps, step_size, n_steps, norm, low, high):
    X, y = samples(8)
    attacked = pgd_attack(
        make_module(),
        X,
        y,
        eps=eps,
        step_size=step_size,
        n_steps=n_steps,
        norm=norm,
        clip_values=(low, high),
        generator=rng(),
    )
    offset = ((attacked - X) / (high - low)).flatten(1)
    reach = offset.abs().amax(dim=1) if norm == "inf" else offset.norm(dim=1)
    assert reach.max() <= eps * (1 + 1e-5) + 1e-6
    assert attacked.min() >= np.float32(low)
    assert attacked.max() <= np.float32(high)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"eps": -0.1}, "eps must be a finite number of at least 0, got -0.1"),
        ({"eps": np.nan}, "eps must be a finite number"),
        ({"eps": "auto"}, "eps must be a finite number of at least 0, got 'auto'"),
        ({"step_size": -1}, "step_size must be"),
        ({"n_steps": -1}, "n_steps must be an int of at least 0, got -1"),
        ({"n_steps": 2.5}, "n_steps must be an int"),
        ({"norm": "l1"}, "norm must be 'inf' or 'l2', got 'l1'"),
        ({"loss": "mse"}, "loss must be 'margin', 'cross_entropy' or a callable, got 'mse'"),
        ({"clip_values": (0, 0.5)}, "X must lie inside clip_values, got values from .* to"),
        ({"clip_values": (1, 0)}, "clip_values must be finite and ascending"),
        ({"clip_values": 1}, "clip_values must be a pair"),
        ({"clip_values": (torch.zeros(5), 1)}, r"of the shape \(6,\) of a sample, got \(5,\)"),
        ({"random_start": torch.zeros(3)}, "random_start must have the shape"),
        ({"y": torch.zeros(3, dtype=torch.int64)}, "y must be 50 whole numbers"),
        ({"y": torch.zeros(50)}, "y must be 50 whole numbers"),
        ({"X": torch.zeros(50)}, r"X must have the shape \(n, ...\)"),
        ({"X": torch.zeros(50, 6, dtype=torch.int64)}, "X must hold floating-point numbers"),
        ({"X": torch.full((50, 6), np.nan)}, "X must lie inside clip_values"),
    ],
)
def test_bad_arguments_are_named(changes, match):
    X, y = samples()
    arguments = {"X": X, "y": y, "eps": 0.1, **changes}
    with pytest.raises(ValueError, match=match):
        pgd_attack(make_module(), arguments.pop("X"), arguments.pop("y"), **arguments)


def test_other_bad_arguments():
    X, y = samples()
    with pytest.raises(TypeError, match="module must be a torch.nn.Module .*, got function"):
        pgd_attack(lambda x: x, X, y, eps=0.1)
    with pytest.raises(ValueError, match="n_targets must be an int of at least 1, got 0"):
        mma_attack(make_module(), X, y, eps=0.1, n_targets=0)


@pytest.mark.parametrize("random_start", [False, True])
def test_same_as_torchattacks(random_start):
    torchattacks = pytest.importorskip("torchattacks")
    X, y = samples(200)
    module = make_module()
    peer = torchattacks.PGD(module, eps=0.1, alpha=0.03, steps=7, random_start=random_start)
    torch.manual_seed(0)
    expected = peer(X, y)
    # The peer starts anywhere in the ball too, from a draw of its own; give ours the same.
    torch.manual_seed(0)
    start = torch.empty_like(X).uniform_(-0.1, 0.1) / 0.1 if random_start else False
    seen = pgd_attack(
        module,
        X,
        y,
        eps=0.1,
        step_size=0.03,
        n_steps=7,
        loss="cross_entropy",
        random_start=start,
    )
    torch.testing.assert_close(seen, expected, rtol=0, atol=2e-6)


def test_single_step_same_as_torchattacks():
    torchattacks = pytest.importorskip("torchattacks")
    X, y = samples(200)
    expected = torchattacks.FGSM(make_module(), eps=0.07)(X, y)
    seen = fgsm_attack(make_module(), X, y, eps=0.07, loss="cross_entropy")
    torch.testing.assert_close(seen, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"y": [99] * 50}, ValueError, "y must hold columns of the logits, 0 to .*, got 99"),
        ({"y": [-1] * 50}, ValueError, "y must hold columns of the logits, from 0, got -1"),
        ({"y": ["a"] * 50}, ValueError, "y must be 50 whole numbers"),
        ({"X": [["a"] * 6] * 50}, ValueError, "X must be a Tensor or a dense array"),
        ({"X": sparse.eye_array(50, 6)}, ValueError, "X must be a Tensor or a dense array"),
        ({"X": torch.full((50, 6), np.inf), "clip_values": None}, ValueError, "got NaN or inf"),
        ({"norm": ["inf"]}, ValueError, "norm must be 'inf' or 'l2'"),
        ({"clip_values": ("a", "b")}, ValueError, "clip_values must be a pair of numbers"),
        ({"generator": 0}, TypeError, "generator must be a torch.Generator or None, got 0"),
        ({"random_start": "yes"}, TypeError, "random_start must be a bool or a torch.Tensor"),
    ],
)
@pytest.mark.parametrize("attack", [pgd_attack, mma_attack])
def test_bad_kinds_of_arguments_are_named(attack, changes, error, match):
    X, y = samples()
    arguments = {"X": X, "y": y, "eps": 0.1, **changes}
    with pytest.raises(error, match=match):
        attack(make_module(), arguments.pop("X"), arguments.pop("y"), **arguments)


@attacks
def test_module_that_gives_no_logits_is_named(attack):
    X = torch.rand(4, 3)
    with pytest.raises(ValueError, match=r"module must return logits .* got \(4, 1\)"):
        attack(torch.nn.Linear(3, 1), X, [0] * 4, eps=0.1)


@attacks
def test_arrays_take_the_type_of_the_weights_and_empty_lists_pass(attack):
    module = torch.nn.Linear(3, 2).double()
    assert attack(module, [[0.1, 0.2, 0.3]], [0], eps=0.1).dtype == torch.float64
    assert attack(module, np.empty((0, 3)), [], eps=0.1).shape == (0, 3)
