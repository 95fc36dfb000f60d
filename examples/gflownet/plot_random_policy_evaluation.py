"""
==================================================
Many good objects instead of one best
==================================================

Which of 16 additives make a good mixture? There are 14 893 mixtures of at most six, and a score for
each. :class:`~skml.gflownet.RewardProportionalSampler` draws mixtures in proportion to their scores
by evaluating a policy that adds at random. This example looks at what happens without the
correction for the number of ways to build a mixture, at networks in place of the table, and at how
fast good mixtures are met.
"""

# %%
# Random building is not fair
# ---------------------------
# A mixture of six can be built in 720 orders, and an early stop is rare among so many choices. The
# values of the uniform policy show both, unless rewards are rectified by the branching ratio g. The
# score here is a sum over pairs that go well together, with a rugged part.

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone

from skml.gflownet import RewardProportionalSampler, SetProcess
from skml.inspection import ModeDiscoveryDisplay, SampleDistributionDisplay

rng = np.random.default_rng(0)
pairs = rng.normal(size=(16, 16)) / 4


def score(mixtures):
    synergy = np.exp(np.einsum("ni,ij,nj->n", mixtures, pairs, mixtures))
    return synergy * (0.5 + np.abs(np.sin(mixtures @ (2.0 ** np.arange(16)))))


members = [chosen for size in range(7) for chosen in combinations(range(16), size)]
mixtures = np.zeros((len(members), 16), dtype=int)
for row, chosen in zip(mixtures, members, strict=True):
    row[list(chosen)] = 1

process = SetProcess(max_size=6, n_items=16, stop=True)
exact = RewardProportionalSampler(process=process).fit(mixtures, score(mixtures))
print(f"{exact.n_states_} states, L1 distance to the target {exact.l1_distance():.1e}")

# %%
# What a walk without the correction would draw is the exact sampler of scores that are divided by
# g, a factor that depends on the size alone.

sizes = mixtures.sum(axis=1)
one_of_each = [np.flatnonzero(sizes == size)[0] for size in range(7)]
states = exact.process_.terminals(mixtures[one_of_each])
g = (exact.state_values(states) / score(mixtures[one_of_each]))[sizes]
unrectified = RewardProportionalSampler(process=process).fit(mixtures, score(mixtures) / g)

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, sampler in {"rectified": exact, "without rectification": unrectified}.items():
    drawn = sampler.sample(20_000, random_state=0).sum(axis=1)
    shares = np.bincount(drawn, minlength=7) / len(drawn)
    ax.plot(range(7), shares, "o-", label=name)
target = np.bincount(mixtures.sum(axis=1), weights=score(mixtures)) / score(mixtures).sum()
ax.plot(range(7), target, "k--", label="share of the total score")
ax.set_xlabel("Size of the mixture")
ax.set_ylabel("Share of samples")
ax.legend()
plt.show()

# %%
# Networks
# --------
# With 40 additives there are five million mixtures, and a table would not do. On the small space
# networks can be compared with the truth. Random policy evaluation is regression on a fixed policy,
# and it remembers the scores of the mixtures that it has met; trajectory balance follows and
# corrects its own policy. Both ask for 16 000 scores.

networks = {
    objective: RewardProportionalSampler(
        objective,
        process,
        reward=score,
        solver="mlp",
        hidden_layer_sizes=(128, 128),
        learning_rate=3e-3,
        max_iter=500,
        random_state=0,
    ).fit(mixtures[:1])
    for objective in ("rpe", "tb")
}
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for ax, (name, sampler) in zip(axes, networks.items(), strict=True):
    SampleDistributionDisplay.from_estimator(sampler, name=name, ax=ax)
plt.show()

# %%
# Good mixtures over reward calls
# -------------------------------
# Uniform paths do not look for good mixtures, and need not: they are met in training about as
# often as any others. A policy that is followed while it is learnt meets them sooner. A finished
# sampler draws them in proportion in either case; with ``exploration=0.1`` random policy
# evaluation follows what it has learnt as well.

follower = clone(networks["rpe"]).set_params(exploration=0.1)
networks["rpe, exploration 0.1"] = follower.fit(mixtures[:1])
threshold = np.quantile(score(mixtures), 0.995)
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, sampler in networks.items():
    ModeDiscoveryDisplay.from_estimator(sampler, threshold=threshold, name=name, ax=ax)
plt.show()
