"""LeTE beside Time2Vec, beside its own model with the Cox-de Boor recursion, and fixed splines.

A ratio is the peer's time over ours. LeTE computes more than Time2Vec, so its goals there are below
one: 1/6 for a training step, 1/5 for transform.

Both sides run in one thread, so processor time is their time, without what other work on the
machine takes.
"""

import time

import numpy as np
import pytest
import torch
from _timing import compare, compare_memory, memory_rate
from sklearn.preprocessing import SplineTransformer
from torch import nn

from skml.preprocessing import FunctionalTimeEncoder, LeTEEncoding, LeTETimeEncoder

PACKAGES = ("torch",)
pytestmark = pytest.mark.usefixtures("one_torch_thread")

N_TRAIN, D = 1668, 16  # three quarters of the weekly carbon dioxide series
N_TRANSFORM = 1_000_000
STEPS = 2
RUN = 50  # steps in a row, as `fit` makes them: by then the caches hold what a step needs


class RecursiveSplines(nn.Module):
    """The spline functions of a layer by the Cox-de Boor recursion, as KAN layers compute them."""

    def __init__(self, functions):
        super().__init__()
        n_intervals, degree, (low, high) = functions.grid
        step = (high - low) / n_intervals
        self.degree = degree
        self.knots = low + step * (torch.arange(n_intervals + 2 * degree + 1) - degree)
        self.omega, self.phase = functions.omega, functions.phase
        self.base_weight, self.spline_weight = functions.base_weight, functions.spline_weight

    def forward(self, tau):
        x = torch.addcmul(self.phase, tau.unsqueeze(-1), self.omega)
        points, knots = x.unsqueeze(-1), self.knots
        basis = ((points >= knots[:-1]) & (points < knots[1:])).to(x.dtype)
        for k in range(1, self.degree + 1):
            left = (points - knots[: -k - 1]) / (knots[k:-1] - knots[: -k - 1])
            right = (knots[k + 1 :] - points) / (knots[k + 1 :] - knots[1:-k])
            basis = left * basis[..., :-1] + right * basis[..., 1:]
        splines = basis.flatten(1) @ self.spline_weight.flatten(1).T
        return (x.tanh() @ self.base_weight.T + splines).T


class BroadcastFourier(nn.Module):
    """The Fourier functions of a layer, one sine and cosine for each weight's term."""

    def __init__(self, functions):
        super().__init__()
        self.multiples = torch.arange(1, functions.n_harmonics + 1)
        self.omega, self.phase, self.bias = functions.omega, functions.phase, functions.bias
        self.cos_weight, self.sin_weight = functions.cos_weight, functions.sin_weight

    def forward(self, tau):
        x = torch.addcmul(self.phase, tau.unsqueeze(-1), self.omega)
        angles = (x.unsqueeze(-1) * self.multiples).unsqueeze(1)
        terms = angles.cos() * self.cos_weight + angles.sin() * self.sin_weight
        return (terms.sum(dim=(2, 3)) + self.bias).T


def new_layer():
    torch.manual_seed(0)
    return LeTEEncoding(D, omega_range=(448.0, 1.0))


def layer_with_recursion():
    layer = new_layer()
    layer.spline = RecursiveSplines(layer.spline)
    return layer


def layer_as_published():
    layer = layer_with_recursion()
    layer.fourier = BroadcastFourier(layer.fourier)
    return layer


def time2vec_layer():
    return FunctionalTimeEncoder(D)._make_module((448.0, 1.0), 0.0, 1.0)


def training(layer, n_steps=STEPS):
    """A function that makes training steps on all rows, as the encoders do."""
    tau = torch.linspace(-1, 1, N_TRAIN)
    y = torch.sin(40 * tau).unsqueeze(-1)
    head = nn.Linear(D, 1)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=1e-3, fused=True)

    def steps():
        for _ in range(n_steps):
            optimizer.zero_grad()
            (head(layer.encode(tau)) - y).square().mean().backward()
            optimizer.step()

    return steps


@pytest.fixture(scope="module")
def encoders():
    t = np.linspace(0, 1, N_TRAIN).reshape(-1, 1)
    y = np.sin(40 * t.ravel())
    return tuple(
        cls(D, max_iter=5, random_state=0).fit(t, y)
        for cls in (LeTETimeEncoder, FunctionalTimeEncoder)
    )


@pytest.fixture(scope="module")
def times():
    return np.random.default_rng(0).random((N_TRANSFORM, 1), dtype=np.float32)


def test_models_are_the_same():
    tau = torch.linspace(-1, 1, 50)
    expected = new_layer().encode(tau)
    for make in (layer_with_recursion, layer_as_published):
        torch.testing.assert_close(make().encode(tau), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("peer", "make", "goal"),
    [
        ("Time2Vec", time2vec_layer, 1 / 6),
        ("the same with the spline recursion", layer_with_recursion, 4),
        ("the same with recursion and a broadcast Fourier sum", layer_as_published, None),
    ],
)
def test_training_step(benchmark, record, peer, make, goal):
    row = compare(
        benchmark,
        f"{STEPS} training steps beside {peer}, n = {N_TRAIN}, d = {D}",
        training(new_layer()),
        peer,
        training(make()),
        goal=goal,
        rounds=60,
        clock=time.process_time,
    )
    record.add(row)


def test_training_run(benchmark, record):
    row = compare(
        benchmark,
        f"{RUN} training steps in a row beside the same with the spline recursion, "
        f"n = {N_TRAIN}, d = {D}",
        training(new_layer(), RUN),
        "the same with the spline recursion",
        training(layer_with_recursion(), RUN),
        goal=4,
        rounds=12,
        clock=time.process_time,
    )
    record.add(row)


def test_spline_functions(benchmark, record):
    """The spline functions alone, forward and backward, beside the recursion."""
    tau = torch.linspace(-1, 1, N_TRAIN)

    def passes(functions):
        def run():
            for _ in range(STEPS):
                functions(tau).sum().backward()

        return run

    row = compare(
        benchmark,
        f"{STEPS} passes of the spline functions, n = {N_TRAIN}, d = {D // 2}",
        passes(new_layer().spline),
        "the recursion",
        passes(layer_with_recursion().spline),
        rounds=60,
        clock=time.process_time,
    )
    record.add(row)


def test_transform(benchmark, record, encoders, times):
    lete, time2vec = encoders
    row = compare(
        benchmark,
        f"transform, n = {N_TRANSFORM}, d = {D}, float32",
        lambda: lete.transform(times),
        "Time2Vec",
        lambda: time2vec.transform(times),
        goal=1 / 5,
        rounds=7,
        clock=time.process_time,
        # Input read and output written once.
        limit_s=4 * N_TRANSFORM * (1 + D) / memory_rate(),
    )
    record.add(row)


def test_transform_beside_splines(benchmark, record, encoders, times):
    splines = SplineTransformer(n_knots=D - 2).fit(times)
    row = compare(
        benchmark,
        f"transform beside fixed splines, n = {N_TRANSFORM}, d = {D}",
        lambda: encoders[0].transform(times),
        "SplineTransformer",
        lambda: splines.transform(times),
        rounds=5,
        clock=time.process_time,
    )
    record.add(row)


def test_memory_of_transform(record, encoders, times):
    row = compare_memory(
        f"peak memory of transform, n = {N_TRANSFORM}, d = {D}, float32",
        lambda: encoders[0].transform(times),
        allowed=N_TRANSFORM * (4 * D + 8 * 5) + 2**24,
        what="the output, five float64 columns, 16 MiB",
    )
    record.add(row)
