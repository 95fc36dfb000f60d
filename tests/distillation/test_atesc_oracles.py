"""Facts that follow from the mathematics of trap escaping, in the numbering of its notes."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from skml.adversarial import pgd_attack
from skml.distillation import ATEscDistiller, DataFreeDistiller
from skml.distillation._generator_losses import (
    BatchStatistics,
    adversarial_loss,
    balance_loss,
    onehot_loss,
)
from skml.distillation._networks import default_classifier
from skml.distillation._non_transferable_loss import NonTransferableLoss, multi_kernel_mmd
from skml.distillation._split import RobustnessSplit, fragile_samples
from skml.distillation._student_loss import TrapEscapingLoss

from ._trap_problems import QUICK, blobs, digits, image_trap, linear, rng, seeded, vector_teacher

UNBOUNDED = None


def fragile(module, X, eps, n_steps=5, start=None, **options):
    labels = module(X).argmax(dim=1).detach()
    start = torch.zeros_like(X) if start is None else start
    options = {"step_size": None, "clip_values": UNBOUNDED, **options}
    return fragile_samples(module, X, labels, eps=eps, start=start, n_steps=n_steps, **options)


def linear_radius(module, X):
    """Distance in the maximum norm from the nearest boundary of a linear classifier."""
    z = module(X).detach()
    W = module.weight.detach()
    radii = torch.full((len(X),), math.inf)
    labels = z.argmax(dim=1)
    for j in range(z.shape[1]):
        gap = z.gather(1, labels[:, None]).squeeze(1) - z[:, j]
        norm = (W[labels] - W[j]).abs().sum(dim=1)
        radii = torch.where(labels == j, radii, torch.minimum(radii, gap / norm))
    return radii


# 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("random_start", [False, True])
def test_oracle_01_linear_radius_of_two_classes_is_exact(seed, random_start):
    X = torch.randn(400, 5, generator=rng(seed))
    module = linear(torch.randn(2, 5, generator=rng(seed + 10)), bias=[0.3, -0.2])
    radius = linear_radius(module, X)
    start = 2 * torch.rand(X.shape, generator=rng(seed)) - 1 if random_start else None
    for eps in (0.05, 0.3, 1.0):
        seen = fragile(module, X, eps, start=start)  # 5 steps of eps / 2 reach every corner
        decided = (radius - eps).abs() > 1e-4
        assert torch.equal(seen[decided], (radius < eps)[decided])
        assert seen.any()
        assert decided.double().mean() > 0.98


def test_oracle_01_fragile_implies_radius_of_many_classes():
    X = torch.randn(500, 5, generator=rng(0))
    module = linear(torch.randn(6, 5, generator=rng(1)))
    radius = linear_radius(module, X)
    for eps in (0.05, 0.2, 0.5):
        seen = fragile(module, X, eps)
        assert (radius[seen] < eps + 1e-4).all()
        # The attack follows the nearest competitor, so it misses few.
        assert (~seen[radius < eps]).double().mean() < 0.2


def test_oracle_01_scale_of_the_logits_does_not_matter():
    X, _ = digits()
    X = torch.from_numpy(X[:200]).reshape(-1, 1, 8, 8)
    teacher = copy.deepcopy(image_trap().module_)
    louder = nn.Sequential(teacher, Louder())
    start = 2 * torch.rand(X.shape, generator=rng()) - 1
    for eps in (0.02, 0.05, 0.1):
        quiet = fragile(teacher, X, eps, start=start, clip_values=(0, 1))
        assert torch.equal(quiet, fragile(louder, X, eps, start=start, clip_values=(0, 1)))
    assert 0 < quiet.double().mean()


class Louder(nn.Module):
    def forward(self, x):
        return 1000 * x


# 2


def test_oracle_02_no_radius_everything_is_robust_and_only_forgetting_is_left():
    module = linear(torch.randn(2, 5, generator=rng(0)))
    X = torch.randn(50, 5, generator=rng(1))
    seen = fragile(module, X, 0.0, start=torch.ones_like(X))
    assert not seen.any()
    logits = torch.randn(50, 2, generator=rng(2), requires_grad=True)
    close, far = TrapEscapingLoss().terms(logits, module(X).log_softmax(1).detach(), seen)
    assert close.item() == 0
    assert far.item() > 0
    assert torch.autograd.grad(close, logits, retain_graph=True)[0].abs().max() == 0


def test_oracle_02_large_radius_is_plain_distillation_bit_for_bit():
    teacher = linear([[1.0, -1.0, 0.5], [-1.0, 1.0, 0.2]])
    settings = {**QUICK, "image_shape": (3,), "bn_weight": 0.0, "random_state": 3}
    plain = DataFreeDistiller(teacher, **settings).fit()
    split = ATEscDistiller(teacher, eps=50.0, step_size=50.0, **settings)
    # The bounds would keep the attack from crossing the boundary.
    split._split = lambda logits, domain, eps, attack_seed: RobustnessSplit(
        logits, eps, UNBOUNDED, n_steps=5, step_size=50.0, rng=rng(attack_seed)
    )
    split.fit()
    assert (split.fragile_fraction_ == 1).all()
    for key, value in plain.student_.state_dict().items():
        assert torch.equal(value, split.student_.state_dict()[key]), key


# 3


def student_loss_gradient(logits, target, mask, **options):
    logits = logits.clone().requires_grad_(True)
    loss = TrapEscapingLoss(**options)(logits, (target, mask))
    return torch.autograd.grad(loss, logits)[0]


def test_oracle_03_gradients_of_the_student_loss():
    logits, teacher = (torch.randn(20, 4, generator=rng(s)) for s in range(2))
    target = teacher.log_softmax(dim=1)
    mask = torch.arange(20) < 12
    no_forgetting = student_loss_gradient(logits, target, mask, forget_weight=0.0)
    assert no_forgetting[~mask].abs().max() == 0
    assert no_forgetting[mask].abs().max() > 0
    same = student_loss_gradient(teacher, target, mask, forget_weight=0.0)
    assert same.abs().max() < 1e-7
    close, _ = TrapEscapingLoss().terms(teacher, target, mask)
    assert abs(close.item()) < 1e-6
    divergence = (target.exp() * (target - logits.log_softmax(1))).sum(dim=1)
    clip = divergence[~mask].median().item()
    pushed = student_loss_gradient(logits, target, mask, forget_clip=clip)
    beyond = ~mask & (divergence > clip)
    assert beyond.any()
    assert pushed[beyond].abs().max() == 0
    assert (pushed[~mask & (divergence < clip)].abs().amax(dim=1) > 0).all()


def test_oracle_03_loss_is_the_formula_in_double_loops():
    logits, teacher = (torch.randn(9, 3, generator=rng(s)).double() for s in range(2))
    mask = torch.tensor([True, False, True, True, False, False, True, False, True])
    T, lam, c = 2.0, 0.7, 0.5
    values = {True: [], False: []}
    for z, t, is_fragile in zip(logits, teacher, mask, strict=True):
        s, t = torch.softmax(z / T, 0), torch.softmax(t / T, 0)
        d = T**2 * sum(float(t[k] * math.log(t[k] / s[k])) for k in range(3))
        values[bool(is_fragile)].append(d if is_fragile else min(c, d))
    expected = np.mean(values[True]) - lam * np.mean(values[False])
    loss = TrapEscapingLoss(T, lam, c)(logits, ((teacher / T).log_softmax(1), mask))
    assert loss.item() == pytest.approx(expected, rel=1e-10)


# 4


def test_oracle_04_batch_statistics():
    bn = nn.BatchNorm2d(3)
    x = torch.randn(10, 3, 4, 4, generator=rng(0))
    bn.running_mean.copy_(x.mean(dim=(0, 2, 3)))
    bn.running_var.copy_(x.var(dim=(0, 2, 3), correction=0))
    bn.eval()
    with BatchStatistics(bn) as statistics:
        bn(x)
        assert statistics.loss() < 1e-5
        statistics.forget()
        bn(torch.zeros(7, 3, 2, 2))
        expected = bn.running_mean.norm() + bn.running_var.norm()
        torch.testing.assert_close(statistics.loss(), expected)
        with torch.no_grad():
            bn.weight.fill_(7)
            bn.bias.fill_(-3)
        statistics.forget()
        bn(torch.zeros(7, 3, 2, 2))
        torch.testing.assert_close(statistics.loss(), expected)
    assert not bn._forward_pre_hooks


def test_oracle_04_statistics_are_those_of_the_input_of_each_layer():
    first, second = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    with torch.no_grad():
        first.bias.fill_(5)
    module = nn.Sequential(first, second).eval()
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    with BatchStatistics(module) as statistics:
        module(x)
        # Layer 1 sees mean 0 and variance (1, 0), layer 2 mean 5 and variance (1, 0).
        expected = 0 + 1 + 5 * math.sqrt(2) + 1
        assert statistics.loss().item() == pytest.approx(expected, rel=1e-4)


# 5


def test_oracle_05_balance_and_one_hot():
    K = 6
    assert balance_loss(torch.zeros(8, K)).item() == pytest.approx(-math.log(K))
    assert balance_loss(200 * torch.eye(K)).item() == pytest.approx(-math.log(K))
    assert balance_loss(200 * torch.eye(K)[[2] * 5]).item() == pytest.approx(0, abs=1e-6)
    for a in (0.5, 3.0):
        expected = math.log(1 + (K - 1) * math.exp(-a))
        assert onehot_loss(a * torch.eye(K)).item() == pytest.approx(expected, rel=1e-5)
    wanted = onehot_loss(3 * torch.eye(K), torch.roll(torch.arange(K), 1))
    assert wanted.item() == pytest.approx(math.log(math.exp(3) + K - 1), rel=1e-5)


def test_oracle_05_adversarial_term_is_minus_the_divergence():
    t, s = (torch.randn(30, 3, generator=rng(seed)) for seed in range(2))
    rows = nn.functional.kl_div(s.log_softmax(1), t.softmax(1), reduction="none").sum(dim=1)
    assert adversarial_loss(t, s).item() == pytest.approx(-rows.mean().item(), rel=1e-5)
    agree = t.argmax(1) == s.argmax(1)
    expected = -(rows * agree).mean().item()
    assert adversarial_loss(t, s, agreeing_only=True).item() == pytest.approx(expected, rel=1e-5)


# 6


def two_clusters(n, distance=1.0):
    a = torch.zeros(n, 2, dtype=torch.float64)
    return a, a + torch.tensor([distance, 0.0], dtype=torch.float64)


def test_oracle_06_discrepancy():
    assert multi_kernel_mmd(*two_clusters(4)).item() == pytest.approx(7.465212, abs=5e-7)
    by_hand = 10 - 2 * sum(math.exp(-7 / 2**i) for i in range(5))
    assert multi_kernel_mmd(*two_clusters(4)).item() == pytest.approx(by_hand, rel=1e-12)
    assert multi_kernel_mmd(*two_clusters(2000)).item() == pytest.approx(7.7432, abs=1e-3)
    a, b = (torch.randn(n, 3, generator=rng(n)).double() for n in (7, 9))
    value = multi_kernel_mmd(a, b).item()
    assert value > 0
    for scale in (1e-3, 50.0):
        assert multi_kernel_mmd(scale * a, scale * b).item() == pytest.approx(value, rel=1e-9)
    assert multi_kernel_mmd(a, a).item() == pytest.approx(0, abs=1e-12)
    assert multi_kernel_mmd(torch.ones(3, 2), torch.ones(3, 2)).item() == 0


def test_oracle_06_discrepancy_equals_double_loops():
    a, b = (torch.randn(n, 3, generator=rng(n)).double() for n in (4, 6))
    points = torch.cat([a, b])
    D = torch.cdist(points, points).square()
    width = D.sum() / (10 * 9) / 4
    kernel = sum(torch.exp(-D / (width * 2**i)) for i in range(5))
    expected = kernel[:4, :4].mean() + kernel[4:, 4:].mean() - 2 * kernel[:4, 4:].mean()
    torch.testing.assert_close(multi_kernel_mmd(a, b), expected)


# 7


@pytest.mark.parametrize("zero", ["alpha", "beta"])
def test_oracle_07_without_a_weight_it_is_supervised_training(zero):
    X, y = (torch.from_numpy(part) for part in blobs(32))
    other, other_y = X + 3, y.roll(1)
    y, other_y = y.long(), other_y.long()
    modules = [seeded(default_classifier, (4,), 3, 4) for _ in range(2)]
    for module, is_plain in zip(modules, (False, True), strict=True):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        logits = module(torch.cat([X, other]))  # one joint pass for both
        if is_plain:
            loss = nn.functional.cross_entropy(logits[:32], y) / 3
        else:
            loss = NonTransferableLoss(**{zero: 0.0})(
                logits[:32], y, logits[32:], other_y, (X, other)
            )
        loss.backward()
        optimizer.step()
    first, second = (module.state_dict() for module in modules)
    for key, value in first.items():
        torch.testing.assert_close(value, second[key], rtol=0, atol=0)


@pytest.mark.parametrize("divergence", ["kl", "ce"])
def test_oracle_07_clamps_bound_the_loss(divergence):
    logits, other = torch.randn(10, 4, generator=rng(0)), 1e4 * torch.randn(10, 4, generator=rng(1))
    y = torch.arange(10) % 4
    features = two_clusters(10)
    supervised = NonTransferableLoss(divergence=divergence)(logits, y)
    for alpha, beta in ((0.1, 0.1), (1e6, 1e6), (1e-3, 0.5)):
        criterion = NonTransferableLoss("close", alpha, beta, divergence)
        loss = criterion(logits, y, other, y, features)
        assert supervised - 1 - 1e-6 <= loss <= supervised
        assert loss < supervised - 1e-3


def test_oracle_07_element_wise_mean_is_torch_kl_div():
    logits, y = torch.randn(10, 4, generator=rng(0)), torch.arange(10) % 4
    onehot = nn.functional.one_hot(y, 4).float()
    expected = nn.functional.kl_div(logits.log_softmax(1), onehot, reduction="mean")
    torch.testing.assert_close(NonTransferableLoss()(logits, y), expected)


# 8


def test_oracle_08_no_sample_matters_and_the_teacher_is_left_alone():
    trap = image_trap()
    before = {key: value.clone() for key, value in trap.module_.state_dict().items()}
    X, _ = digits()
    students = [
        ATEscDistiller(trap, random_state=0, **QUICK).fit(data)
        for data in (None, X, np.full_like(X, np.nan)[:5], 1 - X)
    ]
    for key, value in students[0].student_.state_dict().items():
        for other in students[1:]:
            assert torch.equal(value, other.student_.state_dict()[key]), key
    for key, value in trap.module_.state_dict().items():
        assert torch.equal(value, before[key]), key


# 9


def test_oracle_09_attack_stays_inside_and_larger_radii_find_more():
    X, _ = digits()
    X = torch.from_numpy(X[:200]).reshape(-1, 1, 8, 8)
    module = copy.deepcopy(image_trap().module_)
    labels = module(X).argmax(dim=1).detach()
    start = 2 * torch.rand(X.shape, generator=rng()) - 1
    shares = []
    for eps in (0.025, 0.05, 0.1, 0.2):
        attacked = pgd_attack(module, X, labels, eps=eps, n_steps=5, random_start=start)
        assert (attacked - X).abs().max() <= eps + 1e-6
        assert attacked.min() >= 0
        assert attacked.max() <= 1
        shares.append(fragile(module, X, eps, start=start, clip_values=(0, 1)).double().mean())
    for small, large in itertools.pairwise(shares):
        assert large >= small - 0.02
    assert shares[-1] > shares[0] + 0.2


# 10


def test_oracle_10_samples_are_in_range_and_repeat():
    bounds = (np.full(4, -2.0), np.array([1.0, 2.0, 3.0, -1.0]))
    first, second = (
        DataFreeDistiller(vector_teacher(), clip_values=bounds, random_state=seed, **QUICK).fit()
        for seed in (5, 5)
    )
    samples = first.sample(40)
    assert samples.shape == (40, 4)
    assert (samples >= bounds[0]).all()
    assert (samples <= bounds[1]).all()
    np.testing.assert_array_equal(samples, first.sample(40))
    np.testing.assert_array_equal(samples, second.sample(40))
    other = DataFreeDistiller(vector_teacher(), clip_values=bounds, random_state=6, **QUICK).fit()
    assert not np.array_equal(samples, other.sample(40))


# 11


class Constant(nn.Module):
    def forward(self, x):
        return torch.tensor([0.0, 1.0, 0.0]) + 0 * x.sum(dim=1, keepdim=True)


def test_oracle_11_constant_teacher_leaves_the_student_at_its_start():
    student = seeded(default_classifier, (4,), 3, 4)
    distiller = ATEscDistiller(Constant(), student, image_shape=(4,), random_state=0, **QUICK)
    with pytest.warns(UserWarning, match="No sample of the pool is fragile in round 0"):
        distiller.fit()
    for key, value in student.state_dict().items():
        assert torch.equal(value, distiller.student_.state_dict()[key]), key
    assert (distiller.fragile_fraction_ == 0).all()
    assert np.isnan(distiller.loss_curve_).all()
    assert set(distiller.predict(np.zeros((3, 4)))) <= {0, 1, 2}
