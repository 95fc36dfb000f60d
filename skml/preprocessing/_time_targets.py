"""Targets of the time encoders: what the head has to predict, and the loss."""

from dataclasses import dataclass, field

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array
from torch.nn import functional


@dataclass
class TargetCoder:
    """A target in the form in which the head learns it.

    Attributes
    ----------
    is_classification : bool
        Whether the outputs are classes.
    values : ndarray of shape (n_samples, n_outputs)
        Standardised numbers (float64), or the numbers of the classes (int64).
    means, scales : ndarray of shape (n_outputs,)
        What standardisation subtracted, and what it divided by. Empty for classes.
    classes : list of ndarray
        The classes of each output. Empty for numbers.
    """

    is_classification: bool
    values: np.ndarray
    means: np.ndarray = field(default_factory=lambda: np.empty(0))
    scales: np.ndarray = field(default_factory=lambda: np.empty(0))
    classes: list = field(default_factory=list)

    @property
    def n_head_outputs(self):
        """Number of values that the head predicts."""
        if self.is_classification:
            return sum(len(classes) for classes in self.classes)
        return self.values.shape[1]

    def loss(self, outputs, targets, weights):
        """Weighted mean over the rows of squared error or cross-entropy, averaged over outputs."""
        if self.is_classification:
            logits = outputs.split([len(classes) for classes in self.classes], dim=1)
            per_row = sum(
                functional.cross_entropy(part, targets[:, k], reduction="none")
                for k, part in enumerate(logits)
            ) / len(logits)
        else:
            per_row = (outputs - targets).square().mean(dim=1)
        if weights is None:
            return per_row.mean()
        return (weights * per_row).sum() / weights.sum()

    def tensor(self, rows, like):
        """The values of some rows as a tensor, floating-point ones in the type of `like`."""
        values = torch.from_numpy(self.values[rows])
        return values.to(like.device if self.is_classification else like)


def encode_target(y, task, sample_weight):
    """Find out what kind of target y is, and encode it.

    Parameters
    ----------
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        The target, validated but for its type.
    task : {"auto", "regression", "classification"}
        "auto" follows scikit-learn's `type_of_target`.
    sample_weight : ndarray of shape (n_samples,) or None
        Weights of the rows in mean and variance.

    Returns
    -------
    TargetCoder
        The encoded target.
    """
    if task == "auto":
        kind = type_of_target(y, input_name="y")
        if kind == "unknown":
            raise ValueError(
                f"y must hold numbers or classes, got an array of type {y.dtype} that is neither "
                "(Unknown label type: unknown)"
            )
        task = "regression" if kind.startswith("continuous") else "classification"
    if task == "classification":
        check_classification_targets(y)
        columns = y.reshape(len(y), -1).T
        pairs = [np.unique(column, return_inverse=True) for column in columns]
        codes = np.column_stack([codes for _, codes in pairs]).astype(np.int64)
        return TargetCoder(True, codes, classes=[classes for classes, _ in pairs])
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y").reshape(len(y), -1)
    means = np.average(y, axis=0, weights=sample_weight)
    deviations = y - means
    # Squares of deviations in units of the largest one cannot overflow.
    largest = np.abs(deviations).max(axis=0)
    # A constant target has nothing to scale; rounding must not be blown up to unit variance.
    is_constant = largest <= 10 * np.finfo(np.float64).eps * np.abs(means)
    largest[is_constant] = 1.0
    mean_squares = np.average((deviations / largest) ** 2, axis=0, weights=sample_weight)
    scales = largest * np.sqrt(mean_squares)
    scales[is_constant | (mean_squares == 0)] = 1.0
    return TargetCoder(False, deviations / scales, means, scales)
