"""Steps of training at 128 x 128 pixels and width 256, beside siren-pytorch and plain training.

The goals: a plain step takes at most 1.05 times that of siren-pytorch (ratio 1/1.05), and a step
with balanced residuals at the defaults at most 1.15 times a plain one (ratio 1/1.15). The kernel is
compared with the one from single gradients. Both sides run on one thread, and processor time is
compared, which other work on the machine hardly changes.
"""

import time

import numpy as np
import pytest
import torch
from _timing import compare

from skml.implicit import CoordinateMLP, INRRegressor, empirical_ntk
from skml.implicit._empirical_ntk import _kernel_in_chunks
from skml.implicit._grouping import group_points
from skml.implicit._network_training import training_step

PACKAGES = ("torch", "siren-pytorch")
pytestmark = pytest.mark.usefixtures("one_torch_thread")

SIDE, WIDTH = 128, 256
# A matrix serves this many steps by default, so a round holds as many.
STEPS = 10


@pytest.fixture(scope="module")
def signal():
    axis = np.linspace(-1, 1, SIDE)
    X = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return X, np.random.default_rng(0).random((SIDE**2, 3))


def training(signal, architecture, kind):
    """A function that makes STEPS steps as the estimator does."""
    X, y = signal
    estimator = INRRegressor(architecture, training=kind, hidden_width=WIDTH, random_state=0)
    estimator.groups_, estimator.leftovers_ = group_points(X)
    torch.manual_seed(0)
    step, _ = training_step(estimator, X, y, torch.device("cpu"), torch.Generator())

    def steps():
        for iteration in range(STEPS):
            float(step(iteration))

    return steps


def peer_training(signal):
    """The same network of siren-pytorch, with Adam and the mean squared error."""
    siren_pytorch = pytest.importorskip("siren_pytorch")
    X, y = (torch.from_numpy(values).float() for values in signal)
    network = siren_pytorch.SirenNet(
        dim_in=2, dim_hidden=WIDTH, dim_out=3, num_layers=3, w0=30.0, w0_initial=30.0
    )
    n_ours = sum(p.numel() for p in CoordinateMLP(2, 3, hidden_width=WIDTH).parameters())
    assert sum(p.numel() for p in network.parameters()) == n_ours
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def steps():
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(network(X), y)
            loss.backward()
            optimizer.step()
            loss.item()

    return steps


def gemm_limit():
    """Seconds of the matrix products alone, at the rate of one large product."""
    a, b = torch.rand(SIDE**2, WIDTH), torch.rand(WIDTH, WIDTH)
    seconds = []
    for _ in range(7):
        start = time.process_time()
        a @ b
        seconds.append(time.process_time() - start)
    n_weights = sum(layer.weight.numel() for layer in CoordinateMLP(2, 3).layers)
    # Forward, by the inputs and by the weights; the first layer needs no gradient by its input.
    return STEPS * min(seconds) * (3 * n_weights - 2 * WIDTH) / WIDTH**2


def test_plain_step_beside_siren_pytorch(benchmark, record, signal):
    record.add(
        compare(
            benchmark,
            f"{STEPS} plain steps, SIREN, {SIDE}x{SIDE}, width {WIDTH}",
            training(signal, "siren", "standard"),
            "siren-pytorch",
            peer_training(signal),
            goal=1 / 1.05,
            rounds=4,
            clock=time.process_time,
            limit_s=gemm_limit(),
        )
    )


@pytest.mark.parametrize("architecture", ["siren", "relu_pe"])
def test_balanced_step_beside_a_plain_one(benchmark, record, signal, architecture):
    record.add(
        compare(
            benchmark,
            f"{STEPS} steps of IGA, {architecture}, {SIDE}x{SIDE}, width {WIDTH}",
            training(signal, architecture, "iga"),
            "plain steps",
            training(signal, architecture, "standard"),
            goal=1 / 1.15,
            rounds=4,
            clock=time.process_time,
        )
    )


def test_kernel_beside_single_gradients(benchmark, record):
    torch.manual_seed(0)
    module, X = CoordinateMLP(2, 3, hidden_width=WIDTH), torch.rand(256, 2) * 2 - 1
    record.add(
        compare(
            benchmark,
            f"kernel of 256 points, width {WIDTH}",
            lambda: empirical_ntk(module, X),
            "gradients of single points (torch.func)",
            lambda: _kernel_in_chunks(module, X, 256),
            goal=10,
            rounds=5,
            clock=time.process_time,
        )
    )
