"""Where does forgetting help? A search for the regime in which trap escaping beats its split alone.

The paper finds that a student that is driven away from its teacher on robust samples (full) does
better on the task than one that only leaves them out (CKD). At 8 x 8 pixels that was not found
(see atesc.py). Here it is looked for with MNIST at 8 x 8 and at 28 x 28 pixels, a teacher of six
convolutions with batch normalisation that fails on scikit-learn's digits, the radius that is found
by default, one that is found anew for every chunk in longer schedules, one at which next to
all images of the task are fragile and those of the other domain are not, forgetting that sets in
after half of the rounds (ramped), and forgetting of a tenth of the weight.

Every regime is tried with two seeds. The one with the best difference between full and CKD is
then run with four others, which had no part in the choice.

To say why, there are for every student that has a split

fragile, fragile images
    the share of fragile samples, mean over the rounds, and of fragile images of the task;
in R, in F
    the share of the last samples, among the robust and among the fragile ones, whose five nearest
    real images, in the features of the teacher, are mostly of the task;
on R, on F
    its accuracy on those images of the task that are robust, and on those that are fragile;
cosine
    of the gradients of the two terms of its loss, mean over the rounds: above 0 what brings the
    student closer to the teacher on fragile samples does so on robust ones;
seconds
    of processor time for one student.

One regime is no method: it takes the split from real images, to see what a faultless one would do.

Set the variable ATESC_CACHE to the name of a folder to keep finished fits there, so that a run
that was interrupted goes on where it was, and ATESC_JOBS to the number of processes (default 2).
"""

import copy
import functools
import itertools
import math
import os
import sys
import time
import warnings
from dataclasses import dataclass, field

import joblib
import numpy as np
import skorch
import torch
from _report import Measurement, at_least, at_most, mean_and_spread, reproduce
from _traps import TARGET, Ramp, load, measures, run_once
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from skml.distillation import ATEscDistiller, DataFreeDistiller, NonTransferableClassifier
from skml.utils._progress import progress

SEARCH_SEEDS = (0, 1)
FRESH_SEEDS = (2, 3, 4, 5)
FORGETTING = ("full", "ramped")
# Columns of the table, explained above, of which not every student has all.
REASONS = ("eps", "fragile", "fragile images", "in R", "in F", "on R", "on F", "cosine", "seconds")
AUTO, PLATEAU = "28 px, eps auto", "28 px, eps .1"


@dataclass(frozen=True)
class Regime:
    """A setting in which students are compared.

    Attributes
    ----------
    side : int
        Height and width of the images.
    methods : tuple of str
        Students: "plain", "CKD", "full", "ramped".
    eps : float, "auto" or "auto-chunk"
        Radius of the split.
    rounds : int
        Rounds of training.
    options : dict
        Options of the distiller: `adversarial_weight` for all students, `forget_weight` and
        `forget_clip` for those that forget.
    told : bool
        Whether the split is taken from real images.
    """

    side: int
    methods: tuple
    eps: float | str = "auto"
    rounds: int = 12
    options: dict = field(default_factory=dict)
    told: bool = False


REGIMES = {
    "8 px, eps auto": Regime(8, ("CKD", "full")),
    "8 px, 30 rounds, eps auto-chunk": Regime(8, ("CKD", "full"), eps="auto-chunk", rounds=30),
    AUTO: Regime(28, ("CKD", "full")),
    "28 px, 24 rounds, eps auto-chunk": Regime(
        28, ("CKD", "full", "ramped"), eps="auto-chunk", rounds=24
    ),
    PLATEAU: Regime(28, ("plain", "CKD", "full", "ramped"), eps=0.1),
    "28 px, eps .1, forget_weight .1": Regime(
        28, ("CKD", "full"), eps=0.1, options={"forget_weight": 0.1}
    ),
    "28 px, told by real images": Regime(28, ("CKD", "full"), eps=0.05, told=True),
}
QUICK_REGIMES = {
    "8 px": Regime(8, ("CKD", "full", "ramped"), eps=0.05, rounds=2),
    "8 px, told by real images": Regime(8, ("CKD", "full"), eps=0.05, rounds=2, told=True),
}


@dataclass(frozen=True)
class Fit:
    """One student of one seed; regimes that differ in what does not concern it share it."""

    side: int
    seed: int
    method: str
    rounds: int
    eps: float | str | None
    told: bool
    options: tuple
    quick: bool


def fit_of(regime, method, seed, quick):
    forgets, splits = method in FORGETTING, method != "plain"
    options = sorted(
        (name, value)
        for name, value in regime.options.items()
        if forgets or not name.startswith("forget")
    )
    return Fit(
        side=regime.side,
        seed=seed,
        method=method,
        rounds=regime.rounds,
        eps=regime.eps if splits else None,
        told=regime.told and splits,
        options=tuple(options),
        quick=quick,
    )


def convolutions(widths, input_shape, n_classes):
    """Convolutions with batch normalisation that halve images thrice, or twice if they are small.

    Images are halved at the first of the layers of each third.
    """
    channels, side = input_shape[:2]
    layers = []
    for number, width in enumerate(widths):
        starts_third = number % (len(widths) // 3) == 0
        stride = 2 if starts_third and (number or side > 20) else 1
        layers += [
            nn.Conv2d(channels, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        ]
        channels, side = width, math.ceil(side / stride)
    layers += [nn.Flatten(), nn.Linear(channels * side**2, n_classes)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


deep_teacher = functools.partial(convolutions, (16, 16, 32, 32, 64, 64))
shallow_student = functools.partial(convolutions, (16, 32, 64))


def small_generator(latent_dim, input_shape):
    """The generator that is used by default, with half of its channels."""
    side = input_shape[1]
    layers = [
        nn.Linear(latent_dim, 32 * math.ceil(side / 4) ** 2),
        nn.Unflatten(1, (32, math.ceil(side / 4), math.ceil(side / 4))),
        nn.BatchNorm2d(32),
    ]
    for size, widths in ((math.ceil(side / 2), (32, 32)), (side, (32, 16))):
        layers += [
            nn.Upsample(size=(size, size)),
            nn.Conv2d(*widths, 3, padding=1, bias=False),
            nn.BatchNorm2d(widths[1]),
            nn.LeakyReLU(0.2),
        ]
    layers += [nn.Conv2d(16, 1, 3, padding=1), nn.Sigmoid()]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


@functools.lru_cache(maxsize=2)
def task_and_teacher(side, seed, quick):
    """Data, and the teacher that fails on the other domain; callers leave them as they are."""
    task, other = load("close", seed, quick, side=side)
    teacher = NonTransferableClassifier(
        deep_teacher,
        random_state=seed,
        ood_class=TARGET,
        image_shape=(1, side, side),
        divergence="ce",
        max_epochs=1 if quick else 8,
    )
    teacher.fit(task[0], task[1], X_ood=other[0], y_ood=other[1])
    return task, other, teacher


def run(fit):
    """Fit a student, and measure it; a dict."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="The teacher takes|No sample of the pool")
    task, other, teacher = task_and_teacher(fit.side, fit.seed, fit.quick)
    judge = Judge(teacher, task[0], other[0])
    start = time.process_time()
    options = dict(fit.options)
    if fit.method != "plain":
        options["eps"] = fit.eps
    if fit.method == "CKD":
        options["forget_weight"] = 0.0
    callbacks = [] if fit.method == "plain" else [Conflict()]
    if fit.method == "ramped":
        callbacks.append(Ramp(options.get("forget_weight", 1.0)))
    if fit.quick:
        options |= {"generator_steps": 5, "distill_steps": 9, "pool_size": 128, "batch_size": 32}
    student = (DataFreeDistiller if fit.method == "plain" else ATEscDistiller)(
        teacher,
        shallow_student,
        generator=small_generator,
        max_iter=fit.rounds,
        callbacks=callbacks,
        random_state=fit.seed,
        **options,
    )
    if fit.told:
        student._make_split = lambda logits, domain: ToldSplit(judge, fit.eps)
    student.fit()
    row = measures(student, "close", task, other)
    if fit.method != "plain":
        row["fragile"] = float(student.fragile_fraction_.mean())
        row["eps"] = student.eps_
        cosines = student.history_.get("cosine", [math.nan])
        row["cosine"] = None if np.isnan(cosines).all() else float(np.nanmean(cosines))
        row |= reasons(student, judge, task)
    row["seconds"] = time.process_time() - start
    print("\n", fit, row, flush=True)
    return row


def reasons(student, judge, task):
    """Of what the groups consist, and how good the student is on the images of each."""
    samples = student.sample(1000)
    honest = judge(samples)
    fragile = student.is_fragile(samples)
    fragile_images = student.is_fragile(task[2])
    correct = student.predict(task[2]) == task[3]
    found = {
        "fragile images": fragile_images,
        "in R": honest[~fragile],
        "in F": honest[fragile],
        "on R": correct[~fragile_images],
        "on F": correct[fragile_images],
    }
    return {name: float(values.mean()) if len(values) else None for name, values in found.items()}


class Judge:
    """Tells samples of the task from those of the other domain by real images of both."""

    def __init__(self, teacher, X, X_other):
        self.features = teacher.module_[:-1]
        self.shape = teacher.input_shape_
        n = min(len(X), len(X_other))
        images = np.concatenate([X[:n], X_other[:n]])
        self.neighbors = KNeighborsClassifier(5).fit(self._of(images), np.arange(2 * n) < n)

    def _of(self, X):
        with torch.inference_mode():
            return self.features(torch.from_numpy(X).reshape(-1, *self.shape)).numpy()

    def __call__(self, X):
        """Mask of the samples that are most like the task."""
        return self.neighbors.predict(self._of(X))


class ToldSplit:
    """A split of samples by a judge in place of an attack."""

    def __init__(self, judge, eps):
        self.judge = judge
        self.eps_used = eps  # of is_fragile, which knows no judge

    def __call__(self, X, labels):
        return torch.from_numpy(self.judge(X.numpy()))


class Conflict(skorch.callbacks.Callback):
    """Notes the cosine of the gradients of the two terms after every round, on 512 samples."""

    def on_epoch_end(self, net, dataset_train=None, **kwargs):
        pool = dataset_train
        if not all(len(group) for group in pool.groups):
            return
        X, target = pool[torch.arange(0, len(pool), max(1, len(pool) // 512))]
        module = copy.deepcopy(net.module_).train()
        gradients = [
            torch.cat([part.flatten() for part in torch.autograd.grad(term, module.parameters())])
            for term in (net.criterion_.terms(module(X), *target)[k] for k in range(2))
        ]
        net.history.record("cosine", nn.functional.cosine_similarity(*gradients, dim=0).item())


def fit_all(wanted, desc):
    """Results of the fits, as a dict. Fits of one teacher stay together."""
    unique = sorted(dict.fromkeys(wanted), key=lambda fit: (fit.seed, -fit.side))
    groups = [
        list(group) for _, group in itertools.groupby(unique, key=lambda fit: (fit.seed, fit.side))
    ]
    n_jobs = 1 if unique[0].quick else int(os.environ.get("ATESC_JOBS", 2))
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
    threads = torch.get_num_threads()
    done = parallel(joblib.delayed(run_group)(group) for group in groups)
    rows = [row for rows in progress(done, desc, total=len(groups)) for row in rows]
    torch.set_num_threads(threads)
    return dict(zip((fit for group in groups for fit in group), rows, strict=True))


def run_group(fits):
    return [run_once(run, fit) for fit in fits]


def measure(quick):
    regimes = QUICK_REGIMES if quick else REGIMES
    seeds, fresh = ((0,), (1,)) if quick else (SEARCH_SEEDS, FRESH_SEEDS)

    def fits_of(regime, seeds):
        return [fit_of(regime, method, seed, quick) for method in regime.methods for seed in seeds]

    results = fit_all(
        [fit for regime in regimes.values() for fit in fits_of(regime, seeds)], "search"
    )

    def values(regime, method, seeds, name):
        rows = [results[fit_of(regime, method, seed, quick)] for seed in seeds]
        return np.array([row[name] for row in rows if row.get(name) is not None])

    def gain(regime, method, seeds, name="IAcc"):
        return values(regime, method, seeds, name) - values(regime, "CKD", seeds, name)

    best = max(
        (name for name, regime in regimes.items() if not regime.told),
        key=lambda name: gain(regimes[name], "full", seeds).mean(),
    )
    results |= fit_all(fits_of(regimes[best], fresh), "fresh seeds")
    stages = [(name, regime, seeds) for name, regime in regimes.items()]
    everything = [*seeds, *fresh]
    stages.append((f"{best}; fresh seeds", regimes[best], fresh))
    stages.append((f"{best}; all seeds", regimes[best], everything))
    table = [
        row_of(name, regime, method, seeds, values, gain)
        for name, regime, seeds in stages
        for method in regime.methods
    ]
    gates = gates_of(best, regimes, everything, gain, values)
    return Measurement(
        table,
        gates,
        everything,
        packages=("torch", "skorch", "mlxtend"),
        # Some may have been kept from a run that was interrupted.
        seconds=sum(row["seconds"] for row in results.values()),
    )


def row_of(name, regime, method, seeds, values, gain):
    row = {"regime": name, "student": method, "seeds": len(seeds)}
    for key in ("IAcc", "OAcc"):
        row |= mean_and_spread(key, values(regime, method, seeds, key))
    if method in FORGETTING:
        difference = gain(regime, method, seeds)
        row["IAcc minus CKD"] = float(difference.mean())
        row["standard error"] = standard_error(difference)
    for key in REASONS:
        found = values(regime, method, seeds, key)
        if len(found):
            row[key] = float(found.mean())
    return row


def standard_error(values):
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def gates_of(best, regimes, seeds, gain, values):
    """What the paper says of forgetting, and what was found of the split."""
    found = gain(regimes[best], "full", seeds)
    name = f"forgetting helps: full minus CKD, mean IAcc, {best}"
    gates = [at_least(f"{name} (standard error {standard_error(found):.3f})", found.mean(), 0)]
    if PLATEAU in regimes:
        heavy = [
            gain(regime, "full", SEARCH_SEEDS).mean()
            for regime in regimes.values()
            if not regime.told and "forget_weight" not in regime.options
        ]
        name = "forgetting helps: the same, greatest of all regimes of weight 1"
        gates.append(at_least(name, max(heavy), 0))
        honest = values(regimes[PLATEAU], "CKD", SEARCH_SEEDS, "in R")
        gates.append(at_most(f"{PLATEAU}: share of the task in R, greatest", honest.max(), 0.05))
        radius = values(regimes[PLATEAU], "CKD", SEARCH_SEEDS, "IAcc")
        radius = radius - values(regimes[AUTO], "CKD", SEARCH_SEEDS, "IAcc")
        gates.append(at_least(f"CKD, {PLATEAU} minus {AUTO}, mean IAcc", radius.mean(), 0))
    return gates


if __name__ == "__main__":
    sys.exit(reproduce("atesc_regime", measure, description=__doc__))
