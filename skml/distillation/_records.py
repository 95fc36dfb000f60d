"""What is kept of a training: a skorch history as plain lists, and a warning of collapse."""

import math
import warnings

import numpy as np

# What skorch records by itself.
_OF_SKORCH = {"batches", "epoch", "dur", "train_batch_count", "train_loss", "valid_loss"}


def epoch_means(history, name):
    """Mean over the batches of every epoch of what was recorded; NaN for an epoch without any."""
    means = []
    for row in history:
        values = [batch[name] for batch in row["batches"] if name in batch]
        means.append(sum(values) / len(values) if values else math.nan)
    return means


def round_history(history):
    """What was recorded of every round, as lists by name; NaN where a round has no value."""
    names = dict.fromkeys(key for row in history for key in row)
    lists = {
        name: [row.get(name, math.nan) for row in history]
        for name in names
        if name not in _OF_SKORCH and not name.endswith("_best")
    }
    for name in ("distillation", "forgetting"):
        lists[name] = epoch_means(history, name)
    return lists


def warn_of_collapse(counts, classes):
    """Warn if the teacher takes more than half of a chunk for one class.

    Parameters
    ----------
    counts : list of int
        Samples of the chunk by class.
    classes : ndarray of shape (n_classes,)
        Labels.
    """
    counts = np.asarray(counts)
    if counts.max() > max(0.5, 1.5 / len(counts)) * counts.sum():
        warnings.warn(
            f"The teacher takes {counts.max()} of the last {counts.sum()} synthetic samples "
            f"for the class {classes[counts.argmax()]}: the generator may have "
            "collapsed, or the teacher sends what is strange to it there. Try a larger "
            "balance_weight.",
            UserWarning,
        )
