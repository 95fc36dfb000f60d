"""Partitions of the instrument: the rows they are learnt from, and the labels they give."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from ._nuisances import accepts_weights, tables_of_unique


def sample_rows(n, most, seed):
    """At most `most` of n row numbers, in order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.RandomState(seed).choice(n, most, replace=False))


@dataclass(frozen=True)
class PartitionData:
    """Rows with the tables of their nuisances, the outcome in [0, 1].

    Attributes
    ----------
    tables : ndarray of shape (3, n, n)
        pi, m1 and m0 of each covariate row with each instrument row.
    instrument : ndarray of shape (n, p)
        The instrument.
    treatment, y, weight : ndarray of shape (n,)
        Treatment (0 or 1), outcome and weight.
    """

    tables: np.ndarray
    instrument: np.ndarray
    treatment: np.ndarray
    y: np.ndarray
    weight: np.ndarray


def partition_data(nuisances, fold, data, rows):
    """Tabulate the nuisances of some rows, each row's by the fold that has not seen it.

    Parameters
    ----------
    nuisances : Nuisances or AveragedNuisances
        The fitted nuisances.
    fold : ndarray of shape (n,), dtype int, or None
        Index of the member that has not seen a row; None: there are no folds.
    data : Data
        All rows.
    rows : ndarray of shape (n_rows,), dtype int
        Which of them.

    Returns
    -------
    PartitionData
        What a partition is learnt from, the tables in float32.
    """
    part = data.take(rows)
    if fold is None:
        tables = tables_of_unique(nuisances, part.X, part.instrument, np.float32)
    else:
        tables = np.empty((3, len(rows), len(rows)), dtype=np.float32)
        for k, member in enumerate(nuisances.members):
            own = fold[rows] == k
            if own.any():
                tables[:, own] = tables_of_unique(member, part.X[own], part.instrument, np.float32)
    return PartitionData(tables, part.instrument, part.treatment, part.y, part.weight)


def fit_clusterer(clusterer, data):
    """Fit a clone of a clusterer to the instrument, with weights if there are any it can take."""
    clusterer = clone(clusterer, safe=False)
    is_weighted = accepts_weights(clusterer) and not np.all(data.weight == 1)
    weight = {"sample_weight": data.weight} if is_weighted else {}
    clusterer.fit(data.instrument, **weight)
    return clusterer


def raw_labels(partitioner, instrument):
    """What a partitioner predicts, one label for each row."""
    labels = np.asarray(partitioner.predict(instrument))
    if labels.shape != (len(instrument),):
        raise ValueError(
            "partitioner.predict must return one label for each row of the instrument, got "
            f"shape {labels.shape} for {len(instrument)} rows"
        )
    return labels


def cells_of(partitioner, known_labels, instrument):
    """Index of the label of each row among the sorted labels of the training rows."""
    labels = raw_labels(partitioner, instrument)
    unknown = ~np.isin(labels, known_labels)
    if unknown.any():
        raise ValueError(
            f"partitioner gives the label {labels[unknown].tolist()[0]!r}, which it gave to no "
            "training row"
        )
    return np.searchsorted(known_labels, labels)
