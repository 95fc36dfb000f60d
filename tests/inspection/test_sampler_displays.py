"""Pictures of samplers show what the samplers have computed and recorded."""

import numpy as np
import pytest

from skml.gflownet import RewardProportionalSampler, SetProcess
from skml.inspection import ModeDiscoveryDisplay, SampleDistributionDisplay


@pytest.fixture(scope="module")
def trained():
    pytest.importorskip("torch")
    sampler = RewardProportionalSampler(
        process=SetProcess(2, n_items=4, stop=True),
        reward=lambda X: 1.0 + X.sum(axis=1),
        solver="mlp",
        hidden_layer_sizes=(8,),
        max_iter=5,
        batch_size=6,
        random_state=0,
    )
    return sampler.fit(np.zeros((1, 4), dtype=int))


def test_points_are_the_probabilities(trained):
    display = SampleDistributionDisplay.from_estimator(trained, color="red")
    _, p, target = trained.distribution()
    np.testing.assert_array_equal(display.points_.get_xdata(), target)
    np.testing.assert_array_equal(display.points_.get_ydata(), p)
    assert display.points_.get_color() == "red"
    assert display.l1_distance == pytest.approx(trained.l1_distance())
    assert display.points_.get_label().startswith("rpe: L1 distance")
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "log"


def test_exact_samplers_lie_on_the_diagonal():
    sampler = RewardProportionalSampler().fit([[0], [1], [2]], [1.0, 0.0, 3.0])
    display = SampleDistributionDisplay.from_estimator(sampler, name="exact")
    np.testing.assert_allclose(display.probabilities, [0.25, 0.0, 0.75])
    np.testing.assert_allclose(display.probabilities, display.target)


def test_curve_counts_good_objects(trained):
    display = ModeDiscoveryDisplay.from_estimator(trained, threshold=3.0)
    history = trained.history_
    good = history["rewards"] >= 3.0
    assert good.any()
    expected = [0, *range(1, good.sum() + 1), good.sum()]
    np.testing.assert_array_equal(display.line_.get_ydata(), expected)
    calls = display.line_.get_xdata()
    np.testing.assert_array_equal(calls[1:-1], np.sort(history["reward_calls"][good]))
    assert calls[-1] == trained.n_reward_calls_ == 30
    default = ModeDiscoveryDisplay.from_estimator(trained)
    assert default.threshold == np.quantile(history["rewards"], 0.995)


def test_given_axes_are_used(trained):
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(2)
    assert SampleDistributionDisplay.from_estimator(trained, ax=axes[0]).ax_ is axes[0]
    assert ModeDiscoveryDisplay.from_estimator(trained, ax=axes[1], name="x").ax_ is axes[1]


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"the same shape \(n_objects,\), got \(2,\) and \(1,\)"):
        SampleDistributionDisplay(probabilities=[0.5, 0.5], target=[1.0])
    with pytest.raises(ValueError, match="reward_calls must be an ascending list"):
        ModeDiscoveryDisplay(reward_calls=[3, 1], n_calls=4, threshold=0.0)
    sampler = RewardProportionalSampler().fit([[0], [1]])
    with pytest.raises(ValueError, match="estimator must have been trained"):
        ModeDiscoveryDisplay.from_estimator(sampler)
