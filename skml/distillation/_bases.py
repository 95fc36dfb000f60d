"""The settings of the methods of data-free distillation on which the split stands."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Base:
    """Settings of a base method.

    Attributes
    ----------
    bn_weight, onehot_weight, adversarial_weight, balance_weight, contrastive_weight : float
        Weights of the terms of the generator's loss.
    generator_steps : int
        Steps of the generator in a round.
    generator_learning_rate : float
        Learning rate of Adam.
    prescribes_class : bool
        Whether the one-hot term wants a class that was drawn, not the one predicted.
    agreeing_only : bool
        Whether the adversarial term leaves out samples on which teacher and student disagree.
    warm_up : float
        Share of the rounds, rounded up, in which the student is not trained.
    """

    bn_weight: float
    onehot_weight: float
    adversarial_weight: float
    balance_weight: float
    contrastive_weight: float
    generator_steps: int
    generator_learning_rate: float
    prescribes_class: bool = False
    agreeing_only: bool = False
    warm_up: float = 0.0

    def with_overrides(self, **values):
        """The settings with those values that are not None."""
        return replace(self, **{key: value for key, value in values.items() if value is not None})


BASES = {
    # With the published weights 20 and 1 of balance and adversary, small networks get samples on
    # decision boundaries alone, nearly all of them fragile.
    "dfq": Base(
        bn_weight=1.0,
        onehot_weight=1.0,
        adversarial_weight=0.2,
        balance_weight=2.0,
        contrastive_weight=0.0,
        generator_steps=40,
        generator_learning_rate=1e-3,
    ),
    "cmi": Base(
        bn_weight=1.0,
        onehot_weight=0.5,
        adversarial_weight=0.5,
        balance_weight=0.0,
        contrastive_weight=0.8,
        generator_steps=200,
        generator_learning_rate=1e-3,
        prescribes_class=True,
        agreeing_only=True,
    ),
    "nayer": Base(
        bn_weight=10.0,
        onehot_weight=0.5,
        adversarial_weight=1.33,
        balance_weight=0.0,
        contrastive_weight=0.0,
        generator_steps=40,
        generator_learning_rate=4e-3,
        prescribes_class=True,
        agreeing_only=True,
        # 20 of the 300 rounds of the published schedule.
        warm_up=1 / 15,
    ),
}
