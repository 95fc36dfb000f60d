"""The loop over the stages of boosting."""

from dataclasses import replace

import numpy as np

from skml.tree._growing import as_sklearn_tree
from skml.tree._paths import links
from skml.utils._progress import progress

from ._boosting_pruning import prune
from ._flat import FlatTrees
from ._stages import add_leaf_values

__all__ = ["Stages"]


class Stages:
    """Grows stage after stage and keeps the losses.

    Parameters
    ----------
    model : BaseMAGradientBoosting
        Has the parameters, and the stages to go on from.
    rows : Rows
        The training rows.
    loss : SquaredError or another loss
    engine : PresortedEngine or HistogramEngine
    settings : TreeSettings
    """

    def __init__(self, model, rows, loss, engine, settings):
        self.model, self.rows, self.loss, self.engine = model, rows, loss, engine
        self.settings = settings
        self.n_threads = model._n_threads

    def run(self, raw, gradient, held_out=None):
        """Grow stages until there are enough or the held-out loss stops falling.

        Parameters
        ----------
        raw, gradient : float64 ndarrays of shape (n_outputs, n_samples)
            Raw predictions and negative gradient of the training rows; changed in place.
        held_out : Rows, optional
        """
        model, rows = self.model, self.rows
        trees, scores = list(model.estimators_), list(model.train_score_)
        oob_scores, oob_improvement = list(model.oob_scores_), list(model.oob_improvement_)
        patience = None if held_out is None else _Patience(model, held_out, self.loss)
        for t in progress(range(len(trees), model.n_estimators), "boosting", model.verbose):
            # Every stage has draws of its own, so that a warm start repeats none and misses none.
            rng = np.random.default_rng([model._seed, t])
            bag = self._draw_bag(rng)
            before = None if bag is None else self._value(raw, ~bag)
            trees.append(self._grow_stage(raw, gradient, bag, rng))
            score = self.loss.step(rows.y, raw, rows.weight, gradient, self.n_threads)
            if bag is not None:
                score = self._value(raw, bag)
                oob_scores.append(self._value(raw, ~bag))
                oob_improvement.append(before - oob_scores[-1])
            scores.append(score)
            if patience is not None and patience.ends_with(trees[-1]):
                break
        model.estimators_ = np.array(trees, dtype=object).reshape(-1, self.loss.n_outputs)
        model.train_score_ = np.array(scores)
        model.oob_scores_ = np.array(oob_scores)
        model.oob_improvement_ = np.array(oob_improvement)
        if patience is not None:
            model.validation_score_ = np.array(patience.scores)

    def _draw_bag(self, rng):
        """Which rows this stage fits on, bool; None for all."""
        n = len(self.rows.y)
        n_drawn = max(1, int(self.model.subsample * n))
        if n_drawn == n:
            return None
        bag = np.zeros(n, dtype=bool)
        bag[rng.choice(n, n_drawn, replace=False)] = True
        return bag

    def _value(self, raw, part):
        weight = self.rows.weight
        weight = None if weight is None else weight[part]
        return self.loss.value(self.rows.y[part], raw[:, part], weight)

    def _grow_stage(self, raw, gradient, bag, rng):
        model, rows, engine = self.model, self.rows, self.engine
        settings, weight = self.settings, rows.weight
        if bag is not None:
            weight = bag.astype(np.float64) if weight is None else weight * bag
            settings = replace(
                settings, min_weight_leaf=model.min_weight_fraction_leaf * weight.sum()
            )
        stage = np.empty(len(raw), dtype=object)
        for k, g in enumerate(gradient):
            seed = int(rng.integers(2**31 - 1))
            grown = engine.grow(g, settings, bag, seed)
            means = grown.nodes["value"].reshape(-1, 1)
            tree = as_sklearn_tree(grown, means, rows.X.shape[1])
            leaf = engine.leaves(tree, grown)
            if model.ccp_alpha > 0:
                tree, leaf = prune(tree, leaf, model.ccp_alpha)
            # Sigma falls after every tree, so the next class's tree reads these cells for free;
            # and on all rows, since every row passes every tree when it is predicted.
            engine.read(leaf, *links(tree))
            values = self.loss.leaf_values(
                leaf, tree.node_count, rows.y, raw, g, weight, self.n_threads
            )
            is_leaf = tree.children_left == -1
            tree.value[is_leaf, 0, 0] = values[is_leaf]
            values = np.ascontiguousarray(tree.value[:, 0, 0])
            add_leaf_values(raw[k], leaf, values, model.learning_rate, self.n_threads)
            stage[k] = model._as_estimator(tree, seed)
        return stage


class _Patience:
    """Early stopping on held-out rows: the loss must fall below one of the last ones.

    It starts from the losses of the stages there are, so that a warm start goes on where the
    first fit ended.
    """

    def __init__(self, model, held_out, loss):
        self.y, self.weight, self.loss = held_out.y, held_out.weight, loss
        self.rate, self.tol, self.n_threads = model.learning_rate, model.tol, model._n_threads
        self.X = model._imputed(held_out.X)
        self.raw = model._initial_raw(self.X)
        model._flatten().add_to(self.raw, self.X, self.rate, self.n_threads)
        self.recent = np.full(model.n_iter_no_change, np.inf)
        self.scores = []
        for score in model.validation_score_:
            self._has_stalled(score)

    def ends_with(self, stage):
        """Add a stage; whether the loss has stopped falling."""
        flat = FlatTrees.from_trees([e.tree_ for e in stage], np.arange(len(stage)))
        flat.add_to(self.raw, self.X, self.rate, self.n_threads)
        return self._has_stalled(self.loss.value(self.y, self.raw, self.weight))

    def _has_stalled(self, score):
        stalled = not np.any(score + self.tol < self.recent)
        if not stalled:
            self.recent[len(self.scores) % len(self.recent)] = score
        self.scores.append(score)
        return stalled
