"""What a distiller accepts as a teacher, and what it needs to know of it."""

import numpy as np
import skorch
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from torch import nn

from skml.utils._torch_classifiers import frozen_copy, logit_module

from ._networks import probe, weight_dtype
from ._non_transferable import NonTransferableClassifier

_NEEDED_BY = "teacher"


def is_fitted_teacher(teacher):
    """Whether a teacher is used as it is; others are cloned and fitted first.

    Raises
    ------
    TypeError
        If it is no torch classifier.
    """
    if teacher is None:
        return False
    inner = unwrap(teacher)
    if isinstance(inner, nn.Module):
        return True
    if isinstance(inner, (NonTransferableClassifier, skorch.NeuralNet)):
        is_fitted = hasattr(inner, "net_") or bool(getattr(inner, "initialized_", False))
        if isinstance(teacher, FrozenEstimator) and not is_fitted:
            raise NotFittedError(
                f"teacher is a FrozenEstimator around a {type(inner).__name__} that is not fitted."
            )
        return is_fitted
    raise TypeError(
        "teacher must be a torch.nn.Module, a skorch net or a NonTransferableClassifier, fitted "
        "ones also inside a FrozenEstimator, because distillation without data needs gradients "
        f"of its output, got {type(inner).__name__}."
    )


def unwrap(teacher):
    """The teacher inside a `FrozenEstimator`."""
    return teacher.estimator if isinstance(teacher, FrozenEstimator) else teacher


def fit_teacher(teacher, X, codes, input_shape, random_state):
    """Clone a teacher and fit it.

    Parameters
    ----------
    teacher : estimator object or None
        None: a `NonTransferableClassifier` without another domain, that is, a plain classifier.
    X : ndarray of shape (n, n_features), dtype float32
        Samples.
    codes : ndarray of shape (n,), dtype int64
        Classes as numbers from 0.
    input_shape : tuple of int
        Shape of a sample.
    random_state : RandomState
        Seeds a teacher whose own `random_state` is None.

    Returns
    -------
    estimator object
        The fitted clone.
    """
    seed = int(random_state.randint(np.iinfo(np.int32).max))
    inner = unwrap(teacher)
    fitted = NonTransferableClassifier() if inner is None else clone(inner)
    samples = X.reshape(-1, *input_shape)
    if isinstance(fitted, NonTransferableClassifier):
        if fitted.random_state is None:
            fitted.set_params(random_state=seed)
    elif isinstance(fitted.module, nn.Module) and weight_dtype(fitted.module) == torch.float64:
        samples = samples.astype(np.float64)
    return fitted.fit(samples, codes)


def frozen_logits(teacher, device):
    """The logits of a fitted teacher as a module of its own, without gradients.

    It is a copy: the teacher stays as it is, and may be at work in another thread. Its weights
    are float32, as samples are, whatever those of the teacher are.
    """
    inner = unwrap(teacher)
    if isinstance(inner, NonTransferableClassifier):
        inner = inner.net_.module_
    return frozen_copy(logit_module(inner, needed_by=_NEEDED_BY), device).float()


def teacher_input_shape(teacher):
    """Shape of a sample as far as the teacher knows it, else None."""
    inner = unwrap(teacher)
    shape = getattr(inner, "input_shape_", None)
    if shape is None and isinstance(getattr(inner, "n_features_in_", None), int):
        shape = (inner.n_features_in_,)
    return shape


def teacher_classes(teacher, logits, input_shape):
    """Labels of the teacher's columns; 0, 1, ... where it does not say.

    Raises
    ------
    ValueError
        If the teacher does not work on samples of that shape, or gives less than two columns.
    """
    shape = probe(logits, input_shape, "teacher")
    if len(shape) != 2 or shape[1] < 2:
        raise ValueError(
            "teacher must give one logit for each of at least 2 classes, got the output shape "
            f"{shape} for 2 samples."
        )
    classes = getattr(unwrap(teacher), "classes_", None)
    if classes is None or len(classes) != shape[1]:
        return np.arange(shape[1])
    return np.asarray(classes)
