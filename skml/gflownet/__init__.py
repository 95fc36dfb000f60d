"""Objects drawn in proportion to a score, by generative flow networks."""

from ._hypergrid import HypergridProcess
from ._process import Process
from ._sampler import RewardProportionalSampler
from ._sequences import AutoregressiveProcess, PrependAppendProcess
from ._sets import SetProcess

__all__ = [
    "AutoregressiveProcess",
    "HypergridProcess",
    "PrependAppendProcess",
    "Process",
    "RewardProportionalSampler",
    "SetProcess",
]
