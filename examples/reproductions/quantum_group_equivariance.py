"""Quantum group equivariant models: fewer weights, fewer samples.

The paper (Pearce-Crump, ICML 2025) is a theorem on which weight matrices are equivariant, and has
no experiment. What it promises is measured here: the right symmetry replaces data.

A  a random linear map between matrices (n = 5) that is equivariant under S_5^+, with noise of
   half its size; relative error of the map that least squares finds within the span of a group
B  sum x_i^4 - 3 / (n + 2) (sum x_i^2)^2 from 50 Gaussian vectors (n = 6), which is invariant under
   signed permutations and uncorrelated with every function of the length; test error over
   variance
C  algebraic connectivity of the 853 connected graphs on seven nodes in the atlas of Read and
   Wilson, from 100 of them with their nodes in any order; test error over variance
"""

import sys

import numpy as np
import torch
from _report import Measurement, at_least, at_most, mean_and_spread, reproduce
from networkx import algebraic_connectivity, graph_atlas_g, is_connected, to_numpy_array
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._testing import ignore_warnings

from skml.equivariant import (
    EquivariantPolynomialFeatures,
    QuantumGroupEquivariantRegressor,
    equivariant_basis,
)
from skml.utils._progress import progress

SEEDS_A = list(range(20))
SEEDS = [0, 1, 2, 3, 4]
PENALTIES = np.logspace(-6, 4, 21)


# A: how many samples a linear map takes.

GROUPS = ("S+", "S", "B+", "H", "O")
SIZES = (5, 20, 100)


def estimated_map(name, X, Y):
    """The matrix that maps rows of X to rows of Y, as each model estimates it."""
    if name == "unconstrained":
        return LinearRegression(fit_intercept=False).fit(X, Y).coef_
    if name == "ridge(5)":
        return Ridge(5.0, fit_intercept=False).fit(X, Y).coef_
    model = QuantumGroupEquivariantRegressor(
        name, order_in=2, order_out=2, hidden_layer_sizes=(), alpha=0.0
    ).fit(X, Y)
    return model.module_.layers[0].dense_weight()[0, :, 0].detach().numpy()


def map_errors(seed):
    """Relative squared error of each model at each number of samples."""
    rng = np.random.default_rng(seed)
    maps = equivariant_basis("S+", 5, 2, 2)
    target = np.einsum("d,dji->ji", rng.normal(size=len(maps)), maps)
    errors = {}
    for size in SIZES:
        X = rng.normal(size=(size, 25))
        signal = X @ target.T
        Y = signal + 0.5 * signal.std() * rng.normal(size=signal.shape)
        for name in (*GROUPS, "unconstrained", "ridge(5)"):
            found = estimated_map(name, X, Y)
            errors[size, name] = np.sum((found - target) ** 2) / np.sum(target**2)
    return errors


def measure_maps(seeds):
    results = [map_errors(seed) for seed in progress(seeds, "A")]
    rows = []
    for name in (*GROUPS, "unconstrained", "ridge(5)"):
        row = {"experiment": "A map", "model": name}
        for size in SIZES:
            row |= mean_and_spread(f"N={size}", [errors[size, name] for errors in results])
        rows.append(row)
    at_20 = {row["model"]: row["N=20"] for row in rows}
    gates = [
        at_most("A: error of S+ over S, N = 20", at_20["S+"] / at_20["S"], 1.0),
        at_most(
            "A: error of S over unconstrained, N = 20", at_20["S"] / at_20["unconstrained"], 0.05
        ),
    ]
    return rows, gates


# B: an invariant polynomial.


def signed_permutation_data(seed, n_test):
    X = np.random.default_rng(seed).normal(size=(50 + n_test, 6))
    y = (X**4).sum(axis=1) - 3 / 8 * (X**2).sum(axis=1) ** 2
    return X[:50], X[50:], y[:50], y[50:]


def polynomial_models(seed, max_epochs):
    return {
        "H polynomials + Ridge": make_pipeline(
            EquivariantPolynomialFeatures("H", degree=4), Ridge(1e-6)
        ),
        "H network, matmul": QuantumGroupEquivariantRegressor(
            "H",
            input_power=2,
            nonlinearity="matmul",
            hidden_layer_sizes=([(2, 8)],),
            learning_rate=0.01,
            max_epochs=max_epochs,
            n_iter_no_change=None,
            random_state=seed,
        ),
        "MLPRegressor": MLPRegressor(max_iter=2000, random_state=seed),
        "O polynomials + Ridge": make_pipeline(
            EquivariantPolynomialFeatures("O", degree=4), Ridge(1e-6)
        ),
    }


# C: graphs.


def seven_node_graphs(seed):
    """Adjacency matrices in C order with the nodes in random order, and their connectivity."""
    rng = np.random.default_rng(seed)
    graphs = [graph for graph in graph_atlas_g() if len(graph) == 7 and is_connected(graph)]
    X = np.array([to_numpy_array(graph)[np.ix_(p, p)] for graph, p in _shuffled(graphs, rng)])
    y = np.array([algebraic_connectivity(graph, method="lanczos", seed=0) for graph in graphs])
    return X, y


def _shuffled(graphs, rng):
    return [(graph, rng.permutation(len(graph))) for graph in graphs]


def graph_models(seed, max_epochs):
    """Models by name, each with the input that it takes: matrices or degrees."""
    network = {
        "learning_rate": 0.01,
        "max_epochs": max_epochs,
        "n_iter_no_change": None,
        "random_state": seed,
    }
    return {
        "S polynomials of matrices + RidgeCV": (
            "matrix",
            make_pipeline(
                EquivariantPolynomialFeatures("S", order_in=2, degree=3, include_bias=False),
                StandardScaler(),
                RidgeCV(PENALTIES),
            ),
        ),
        "S network of matrices": (
            "matrix",
            QuantumGroupEquivariantRegressor(
                "S", order_in=2, hidden_layer_sizes=([(2, 8)], [(1, 16)]), **network
            ),
        ),
        "polynomials of degrees + RidgeCV (DeepSets-like)": (
            "degrees",
            make_pipeline(
                EquivariantPolynomialFeatures("S", degree=4, include_bias=False),
                StandardScaler(),
                RidgeCV(PENALTIES),
            ),
        ),
        "network of degrees (DeepSets)": (
            "degrees",
            QuantumGroupEquivariantRegressor(
                "S", hidden_layer_sizes=([(1, 32)], [(0, 32)]), **network
            ),
        ),
        "RidgeCV": ("matrix", make_pipeline(StandardScaler(), RidgeCV(PENALTIES))),
        "MLPRegressor": ("matrix", MLPRegressor(max_iter=1000, random_state=seed)),
        "random forest": (
            "matrix",
            RandomForestRegressor(n_estimators=100, random_state=seed),
        ),
    }


def relative_error(model, X, X_test, y, y_test):
    """Test error over the variance of y: what the mean scores is 1."""
    with ignore_warnings():  # that MLPRegressor has not converged
        predicted = model.fit(X, y).predict(X_test)
    return float(np.mean((predicted - y_test) ** 2) / np.mean((y_test - y.mean()) ** 2))


def graph_errors(seed, max_epochs):
    matrices, y = seven_node_graphs(seed)
    inputs = {"matrix": matrices.reshape(len(y), -1), "degrees": matrices.sum(axis=2)}
    train, test = train_test_split(np.arange(len(y)), train_size=100, random_state=seed)
    return {
        name: relative_error(model, inputs[kind][train], inputs[kind][test], y[train], y[test])
        for name, (kind, model) in graph_models(seed, max_epochs).items()
    }


def rows_of(experiment, results):
    return [
        {
            "experiment": experiment,
            "model": name,
            **mean_and_spread("error", [errors[name] for errors in results]),
        }
        for name in results[0]
    ]


def measure(quick):
    torch.set_num_threads(1)
    rows, gates = measure_maps(SEEDS_A[:2] if quick else SEEDS_A)
    seeds = SEEDS[:1] if quick else SEEDS
    results = []
    for seed in progress(seeds, "B"):
        data = signed_permutation_data(seed, 5000)
        models = polynomial_models(seed, 10 if quick else 1000)
        results.append({name: relative_error(model, *data) for name, model in models.items()})
    in_b = rows_of("B invariant", results)
    results = [graph_errors(seed, 5 if quick else 400) for seed in progress(seeds, "C")]
    in_c = rows_of("C graphs", results)
    b, c = ({row["model"]: row["error"] for row in part} for part in (in_b, in_c))
    gates += [
        at_least(
            "B: error of MLPRegressor over H polynomials",
            b["MLPRegressor"] / b["H polynomials + Ridge"],
            20,
        ),
        at_least(
            "B: error of MLPRegressor over H network",
            b["MLPRegressor"] / b["H network, matmul"],
            5,
        ),
        at_least("B: error of O polynomials over that of the mean", b["O polynomials + Ridge"], 1),
    ]
    names = list(c)
    ours, sets, plain = names[:2], names[2:4], names[4:]
    best = min(c[name] for name in ours)
    gates += [
        at_most("C: best of matrices over best of degrees", best / min(c[k] for k in sets), 1.0),
        at_most("C: best of matrices over best plain model", best / min(c[k] for k in plain), 0.5),
    ]
    return Measurement(rows + in_b + in_c, gates, seeds, packages=("torch", "networkx"))


if __name__ == "__main__":
    sys.exit(reproduce("quantum_group_equivariance", measure, description=__doc__))
