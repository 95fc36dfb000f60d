"""The definition of the penalised split in plain Python, against which trees are checked."""

import itertools

import numpy as np
import pytest


def impurity_of(criterion, y, w):
    if criterion == "squared_error":
        return np.average((y - np.average(y, weights=w)) ** 2, weights=w)
    p = np.array([w[y == c].sum() for c in np.unique(y)]) / w.sum()
    p = p[p > 0]
    return 1 - np.sum(p**2) if criterion == "gini" else -np.sum(p * np.log2(p))


def children_impurity(criterion, y, w, left):
    return (
        sum(w[side].sum() * impurity_of(criterion, y[side], w[side]) for side in (left, ~left))
        / w.sum()
    )


def candidate_splits(X, rows, min_samples_leaf=1):
    for j in range(X.shape[1]):
        values = np.unique(X[rows, j])
        for below, above in itertools.pairwise(values):
            tau = (below + above) / 2
            left = X[rows, j] <= tau
            if min(left.sum(), (~left).sum()) >= min_samples_leaf:
                yield j, tau, left


def price_of(rows, j, w, charged, alpha):
    return alpha * (w[rows] @ charged[rows, j]) / w[rows].sum()


def best_split(X, y, w, charged, rows, *, criterion, alpha, min_samples_leaf=1):
    """The split of least C + alpha P: (cost, j, tau, left), or None where there is none."""
    best = None
    for j, tau, left in candidate_splits(X, rows, min_samples_leaf):
        cost = children_impurity(criterion, y[rows], w[rows], left)
        cost += price_of(rows, j, w, charged, alpha)
        if best is None or cost < best[0]:
            best = (cost, j, tau, left)
    return best


def after_reading(charged, mask, rows, j, scope):
    """What is still charged below a split on j, by the scope of the penalty."""
    charged = charged.copy()
    read = rows[mask[rows, j]]
    if scope == "feature":
        charged[read, j] = False
    elif scope == "row":
        charged[read] = False
    return charged


def assert_greedy(estimator, X, mask, y, w, *, alpha, criterion, scope="node"):
    """Every node holds a split that no other split of its rows beats, or a reason to stop."""
    tree = estimator.tree_
    least = estimator.min_samples_leaf
    stack = [(0, np.arange(len(X)), mask.copy(), 0)]
    seen = 0
    while stack:
        node, rows, charged, depth = stack.pop()
        seen += 1
        assert tree.n_node_samples[node] == len(rows)
        assert tree.weighted_n_node_samples[node] == pytest.approx(w[rows].sum())
        impurity = impurity_of(criterion, y[rows], w[rows])
        assert tree.impurity[node] == pytest.approx(impurity, abs=1e-9)
        best = best_split(
            X, y, w, charged, rows, criterion=criterion, alpha=alpha, min_samples_leaf=least
        )
        j, tau = tree.feature[node], tree.threshold[node]
        if tree.children_left[node] < 0:
            net_loss = best is not None and best[0] >= impurity - 1e-9
            assert (
                best is None
                or impurity < 1e-9
                or depth == estimator.max_depth
                or len(rows) < estimator.min_samples_split
                or (estimator.stop_on_net_loss and net_loss)
            ), f"node {node} is a leaf for no reason"
            continue
        assert best is not None
        left = X[rows, j] <= tau
        cost = children_impurity(criterion, y[rows], w[rows], left)
        cost += price_of(rows, j, w, charged, alpha)
        assert cost == pytest.approx(best[0], abs=1e-9 + 1e-9 * abs(best[0]))
        gap = (X[rows[left], j].max() + X[rows[~left], j].min()) / 2
        assert tau == pytest.approx(gap, rel=1e-6, abs=1e-6)
        if estimator.stop_on_net_loss:
            assert cost < impurity + 1e-9
        below = after_reading(charged, mask, rows, j, scope)
        stack.append((tree.children_left[node], rows[left], below, depth + 1))
        stack.append((tree.children_right[node], rows[~left], below, depth + 1))
    assert seen == tree.node_count


def walk(tree, row, stops_at=()):
    """Nodes that a row of imputed values visits, in plain Python."""
    node, path = 0, [0]
    while tree.children_left[node] >= 0 and tree.feature[node] not in stops_at:
        goes_left = np.float32(row[tree.feature[node]]) <= tree.threshold[node]
        node = tree.children_left[node] if goes_left else tree.children_right[node]
        path.append(node)
    return path


def cells_read_by(tree, X, mask):
    """Missing cells that the paths of imputed rows read."""
    cells = np.zeros(mask.shape, dtype=bool)
    for i, row in enumerate(X):
        tested = tree.feature[walk(tree, row)[:-1]]
        cells[i, tested] = mask[i, tested]
    return cells
