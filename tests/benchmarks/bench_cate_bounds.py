"""Stage 2 from tables, beside the evaluation of the nuisance networks in each batch and cell.

Times are processor times: both sides hold one thread, and other work on the machine counts for
neither.
"""

import time

import numpy as np
import pytest
import torch
from _timing import compare, compare_memory
from torch import nn

from skml.causal import CATEBounder
from skml.causal._neural_partition import (
    NeuralPartition,
    PartitionNet,
    straight_through_cells,
)
from skml.causal._partitions import PartitionData
from skml.datasets import make_iv_cate

PACKAGES = ("torch", "skorch")
pytestmark = pytest.mark.usefixtures("one_torch_thread")

N, N_CELLS, BATCH = 2000, 4, 128
N_ROWS = 100_000


@pytest.fixture(scope="module")
def fitted():
    data = make_iv_cate(1, N, random_state=0)
    estimator = CATEBounder(
        N_CELLS, outcome_bounds=data.outcome_bounds, max_epochs=5, max_iter=1, random_state=0
    )
    arrays = {"treatment": data.treatment, "instrument": data.instrument}
    return estimator.fit(data.X, data.y, **arrays), data


def pairs_of(x, z):
    return torch.cat([x.repeat_interleave(len(z), 0), z.repeat(len(x), 1)], dim=1)


def re_evaluated_step(nets, module, optimizer, x, z, generator):
    """A step of the published kind: the frozen networks see every pair for each cell and arm."""
    logits, guess = module(z)
    cells = straight_through_cells(logits, 1.0, generator)
    share = cells.mean(dim=0).clamp(1e-4, 1 - 1e-4)
    propensity, outcome = nets
    shares, moments = [], []
    for k in range(N_CELLS):
        weight = cells[:, k] / share[k] / len(z)
        for arm in (0, 1):
            with torch.no_grad():
                pairs = pairs_of(x, z)
                pi = propensity(pairs).softmax(dim=1)[:, arm].reshape(len(x), len(z))
                mu = outcome(pairs).clamp(0, 1)[:, arm].reshape(len(x), len(z))
            shares.append(pi @ weight)
            moments.append((pi * mu) @ weight)
    pi = torch.stack(shares[1::2], dim=-1)
    m0, m1 = torch.stack(moments[::2], dim=-1), torch.stack(moments[1::2], dim=-1)
    width = (m1 + 1 - pi).amin(1) - m0.amax(1) - m1.amax(1) + (m0 + pi).amin(1)
    loss = width.mean() - torch.log(cells.mean(dim=0) + 1e-4).mean()
    loss = loss + nn.functional.cross_entropy(guess, cells)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def test_stage_2(benchmark, record, fitted):
    """A hundredth of either training: 3 of 300 steps over all rows, 1 of 100 epochs of batches.

    Our side has its share of the tables, and more than its share of the validation.
    """
    estimator, data = fitted
    train, valid = slice(2 * N // 3), slice(2 * N // 3, None)
    nuisances = estimator._nuisances
    nets = [
        model.net_.module_
        for model in (estimator.propensity_estimator_, estimator.outcome_estimator_)
    ]

    def rows(part):
        X, Z = data.X[part], data.instrument[part]
        tables = nuisances.tables(X, Z, np.float32)
        return PartitionData(tables, Z, data.treatment[part], data.y[part], np.ones(len(X)))

    training, validation = rows(train), rows(valid)
    share = len(data.X[train]) // 100

    def ours():
        nuisances.tables(data.X[:share], data.instrument[train], np.float32)
        partition = NeuralPartition(N_CELLS, max_iter=3, random_state=0)
        partition.fit(training, validation)

    x, z = (torch.as_tensor(part[train], dtype=torch.float32) for part in (data.X, data.instrument))

    def theirs():
        module = PartitionNet(1, (32, 32), N_CELLS)
        optimizer = torch.optim.Adam(module.parameters(), lr=0.03)
        generator = torch.Generator().manual_seed(0)
        for batch in torch.randperm(len(x), generator=generator).split(BATCH):
            re_evaluated_step(nets, module, optimizer, x[batch], z[batch], generator)

    row = compare(
        benchmark,
        f"a hundredth of stage 2, n = {N}, K = {N_CELLS}",
        ours,
        f"networks evaluated in each batch of {BATCH}, for each cell and arm",
        theirs,
        goal=20,
        rounds=20,
        clock=time.process_time,
    )
    record.add(row)


def test_stage_2_whole(benchmark, record, fitted):
    """Tables and at most 300 steps, against a single epoch of the other side; no goal."""
    estimator, data = fitted
    train, valid = slice(2 * N // 3), slice(2 * N // 3, None)

    def rows(part):
        X, Z = data.X[part], data.instrument[part]
        tables = estimator._nuisances.tables(X, Z, np.float32)
        return PartitionData(tables, Z, data.treatment[part], data.y[part], np.ones(len(X)))

    def tables():
        return rows(train), rows(valid)

    row = compare(
        benchmark,
        f"all of stage 2, n = {N}, K = {N_CELLS}",
        lambda: NeuralPartition(N_CELLS, random_state=0).fit(*tables()),
        "its tables alone",
        tables,
        rounds=2,
        clock=time.process_time,
    )
    record.add(row)


def test_memory_of_many_rows(record):
    data = make_iv_cate(1, N_ROWS, random_state=0)
    arrays = {"treatment": data.treatment, "instrument": data.instrument}
    reference = 500
    estimator = CATEBounder(
        outcome_bounds=data.outcome_bounds,
        max_reference=reference,
        max_epochs=1,
        max_iter=20,
        random_state=0,
    )

    def fit_and_predict():
        return estimator.fit(data.X, data.y, **arrays).predict_bounds(data.X[:20_000])

    row = compare_memory(
        f"peak memory, fit and predict_bounds, n = {N_ROWS}, max_reference = {reference}",
        fit_and_predict,
        allowed=400 * 2**20,
        what=f"a tenth of the tables of all pairs with {reference} instruments is 60 MB; "
        "400 MiB in all",
    )
    record.add(row)
