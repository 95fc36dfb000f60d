"""Learning rates and sampling orders for training with torch and skorch."""

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import LRScheduler
from torch.utils.data import DataLoader, TensorDataset

from skml.linear_model.torch import ShuffleOnceSampler, ShufflingLR


def make_optimizer(n_groups=1):
    groups = [{"params": [torch.nn.Parameter(torch.zeros(2))]} for _ in range(n_groups)]
    return torch.optim.SGD(groups, lr=123.0)


def rates(epochs, **params):
    optimizer = make_optimizer()
    scheduler = ShufflingLR(optimizer, **params)
    seen = []
    for _ in range(epochs):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return np.array(seen)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, lambda t: 7 ** (1 / 3) * t ** (-1 / 3)),
        ({"order": "shuffle_once"}, lambda t: t ** (-1 / 3)),
        ({"offset": 4.0}, lambda t: 7 ** (1 / 3) * (t + 4) ** (-1 / 3)),
        ({"rule": "linear", "horizon": 5}, lambda t: 1 - (t - 1) / 5),
        (
            {"rule": "log", "horizon": 5, "mu": 10.0},
            lambda t: 6 * np.log(5) / (10 * 5) / 0.5 * np.ones_like(t),
        ),
    ],
)
def test_rules(params, expected):
    t = np.arange(1.0, 6.0)
    found = rates(5, eta0=0.5, n_batches=7, **params)
    np.testing.assert_allclose(found, 0.5 * expected(t) / 7, rtol=1e-12)


def test_first_rate_of_the_page():
    assert rates(1, eta0=0.5, n_batches=7)[0] == pytest.approx(0.13664, abs=1e-5)


def test_rate_does_not_depend_on_the_current_one():
    optimizer = make_optimizer(2)
    scheduler = ShufflingLR(optimizer, eta0=0.5, n_batches=7)
    for group in optimizer.param_groups:
        group["lr"] = 99.0
    optimizer.step()
    scheduler.step()
    assert [group["lr"] for group in optimizer.param_groups] == [
        pytest.approx(0.5 * (7 / 2) ** (1 / 3) / 7)
    ] * 2


def test_horizon_is_the_end():
    optimizer = make_optimizer()
    scheduler = ShufflingLR(optimizer, eta0=0.5, n_batches=7, horizon=3, rule="linear")
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match="horizon=3 epochs are over: step 4"):
        scheduler.step()


def test_state_round_trip():
    scheduler = ShufflingLR(make_optimizer(), eta0=0.5, n_batches=7)
    scheduler.optimizer.step()
    scheduler.step()
    other = ShufflingLR(make_optimizer(), eta0=1.0, n_batches=2)
    other.load_state_dict(scheduler.state_dict())
    assert other.get_lr() == scheduler.get_lr()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"rule": "cosine"}, "rule must be one of"),
        ({"order": "random"}, "order must be one of"),
        ({"eta0": 0.0}, "eta0 must be a positive number, got 0.0"),
        ({"n_batches": 0}, "n_batches must be a positive integer, got 0"),
        ({"rule": "linear"}, "rule='linear' needs horizon"),
        ({"rule": "log", "horizon": 3}, "rule='log' needs mu"),
        ({"offset": -1.0}, "offset must be a non-negative number"),
    ],
)
def test_bad_arguments(params, message):
    with pytest.raises(ValueError, match=message):
        ShufflingLR(make_optimizer(), **{"eta0": 0.5, "n_batches": 7, **params})


def test_skorch_steps_once_an_epoch():
    torch.manual_seed(0)
    X = torch.randn(112, 4)
    y = (X[:, 0] > 0).long()
    net = NeuralNetClassifier(
        torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Softmax(dim=-1)),
        max_epochs=4,
        optimizer=torch.optim.SGD,
        batch_size=16,
        train_split=None,
        iterator_train__shuffle=True,
        callbacks=[
            (
                "lr",
                LRScheduler(policy=ShufflingLR, eta0=0.5, n_batches=7, step_every="epoch"),
            )
        ],
        verbose=0,
    ).fit(X, y)
    expected = 0.5 * 7 ** (1 / 3) * np.arange(1, 5) ** (-1 / 3) / 7
    np.testing.assert_allclose(net.history[:, "event_lr"], expected, rtol=1e-6)
    assert all(len(batches) == 7 for batches in net.history[:, "batches"])


def test_sampler_repeats_one_order_and_leaves_the_global_stream_alone():
    data = TensorDataset(torch.arange(20))
    before = torch.get_rng_state()
    sampler = ShuffleOnceSampler(data, random_state=0)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(sampler) == 20
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    first, second = ([row for (batch,) in loader for row in batch.tolist()] for _ in range(2))
    assert first == second
    assert sorted(first) == list(range(20))
    assert first != list(range(20))
    assert list(ShuffleOnceSampler(data, random_state=0)) == first
    assert list(ShuffleOnceSampler(data, random_state=1)) != first
