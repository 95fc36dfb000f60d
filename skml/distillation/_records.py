"""What a skorch history holds, as plain lists."""

import math


def epoch_means(history, name):
    """Mean over the batches of every epoch of what was recorded; NaN for an epoch without any."""
    means = []
    for row in history:
        values = [batch[name] for batch in row["batches"] if name in batch]
        means.append(sum(values) / len(values) if values else math.nan)
    return means
