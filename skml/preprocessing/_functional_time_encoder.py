"""The encodings that LeTE generalises, trained in the same way: Time2Vec, sines, TGAT."""

import torch
from sklearn.utils._param_validation import StrOptions
from torch import nn

from ._base_time_encoder import BaseTimeEncoder
from ._scaled_time_module import ScaledTimeModule, initial_omega


class FunctionalTimeEncoder(BaseTimeEncoder):
    """Encode times by sines or cosines of learnt linear maps: Time2Vec, TGAT.

    The baseline of :class:`LeTETimeEncoder`: frequencies and phases are learnt with the task,
    the functions are fixed.

    Parameters
    ----------
    n_components : int, default=16
        Size d of the encoding of each column.
    kind : {"time2vec", "sin", "tgat"}, default="time2vec"
        "time2vec": the first component is linear in time, the others are sines. "sin": all are
        sines. "tgat": all are cosines, as in the models TGAT and TGN.
    omega_range : tuple of (float, float) or "auto", default="auto"
        First and last initial frequency, in radians per scaled unit of time. "auto": from pi/8
        per median gap between different times down to one radian per half the range of times.
    time_unit : float, "auto" or None, default="auto"
        "auto": the times seen in `fit` are mapped to [-1, 1]. A number: the unit (in seconds
        for dates), with the origin in the middle of the range. None: times as they are, dates
        in seconds since the first one.
    task : {"auto", "regression", "classification"}, default="auto"
        What y is. "auto" asks scikit-learn's `type_of_target`, which takes whole numbers for
        classes: say "regression" for counts.
    max_iter : int, default=1000
        Largest number of optimiser steps (Adam; the learning rate falls along a cosine to 0).
    learning_rate : float, default=1e-2
        Learning rate of Adam at the first step.
    batch_size : int or None, default=None
        Rows in a step; None: all.
    tol : float, default=1e-4
        Least improvement of the loss that counts.
    n_iter_no_change : int or None, default=50
        Stop after so many steps without improvement by `tol`, as :class:`LeTETimeEncoder` does;
        None: never.
    validation_fraction : float, default=0.0
        Share of the rows held out to watch the loss.
    dtype : {"float32", "float64"}, default="float32"
        Type of weights and computation. Times are scaled in float64 in any case.
    random_state : int, RandomState instance or None, default=None
        Source of the initial weights, of the held-out rows and of the batches.
    device : str, default="cpu"
        Where to train: "cpu", "auto" or a torch device string.
    verbose : int, default=0
        0 is silent, 1 shows the progress.

    Attributes
    ----------
    modules_ : torch.nn.ModuleList
        A trained layer for each column, with the parameters ``omega`` and ``phase``. It takes
        times in the unit of X (seconds since the first training date for dates).
    head_ : torch.nn.Linear
        The head that was trained with them, from encodings to standardised targets or logits.
    time_origin_, time_unit_ : ndarray of shape (n_columns,)
        Scaled time is (time - origin) / unit. In the unit of X; for dates in seconds since the
        first training date, for durations in seconds.
    time_range_ : ndarray of shape (n_columns, 2)
        First and last time seen in `fit`, in the same unit.
    time_kinds_ : list of str
        What each column held in `fit`: "numbers", "durations", "dates" or "dates with a time
        zone".
    omega_init_ : ndarray of shape (n_columns, n_components)
        Initial frequencies, in the unit of `omega_`.
    classes_ : ndarray of shape (n_classes,) or list of ndarray
        Class labels, for classification.
    target_mean_, target_scale_ : ndarray of shape (n_outputs,)
        Mean and standard deviation by which y was standardised, for regression.
    loss_curve_ : list of float
        Loss of each step: the squared error of the standardised y, or the cross-entropy in nats.
    validation_curve_ : list of float
        Loss of the held-out rows after each step, if there are any.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int
        Number of features seen during `fit`: the columns of times.
    feature_names_in_ : ndarray of shape (n_features,), dtype object
        Names of the features seen during `fit`, if all are strings.

    See Also
    --------
    LeTETimeEncoder : Learnt functions in place of sines.

    Notes
    -----
    With tau the scaled time and x_i = omega_i tau + phase_i, the encoding is
    (x_1, sin x_2, ..., sin x_d), (sin x_1, ..., sin x_d) or (cos x_1, ..., cos x_d). The phases
    start from 0.

    References
    ----------
    .. [1] S. M. Kazemi et al. "Time2Vec: learning a vector representation of time."
       https://arxiv.org/abs/1907.05321
    .. [2] D. Xu, C. Ruan, E. Korpeoglu, S. Kumar, K. Achan. "Inductive representation learning
       on temporal graphs." ICLR 2020. https://arxiv.org/abs/2002.07962

    Examples
    --------
    >>> import numpy as np
    >>> from skml.preprocessing import FunctionalTimeEncoder
    >>> t = np.linspace(0, 20, 200).reshape(-1, 1)
    >>> encoder = FunctionalTimeEncoder(4, max_iter=100, random_state=0)
    >>> encoder.fit_transform(t, np.sin(t.ravel())).shape
    (200, 4)
    """

    _parameter_constraints: dict = {
        **BaseTimeEncoder._parameter_constraints,
        "kind": [StrOptions({"time2vec", "sin", "tgat"})],
    }

    def __init__(
        self,
        n_components=16,
        *,
        kind="time2vec",
        omega_range="auto",
        time_unit="auto",
        task="auto",
        max_iter=1000,
        learning_rate=1e-2,
        batch_size=None,
        tol=1e-4,
        n_iter_no_change=50,
        validation_fraction=0.0,
        dtype="float32",
        random_state=None,
        device="cpu",
        verbose=0,
    ):
        self.n_components = n_components
        self.kind = kind
        self.omega_range = omega_range
        self.time_unit = time_unit
        self.task = task
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.dtype = dtype
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @property
    def _name_prefix(self):
        return self.kind

    def _make_module(self, omega_range, origin, unit):
        return FunctionalEncoding(
            self.n_components,
            kind=self.kind,
            omega_range=omega_range,
            time_origin=origin,
            time_unit=unit,
            dtype=getattr(torch, self.dtype),
        )


class FunctionalEncoding(ScaledTimeModule):
    """The layer behind :class:`FunctionalTimeEncoder`."""

    def __init__(
        self,
        n_components,
        *,
        kind="time2vec",
        omega_range=(1.0, 1e-9),
        time_origin=0.0,
        time_unit=1.0,
        device=None,
        dtype=None,
    ):
        super().__init__(n_components, time_origin, time_unit)
        factory = {"device": device, "dtype": dtype or torch.get_default_dtype()}
        self.kind = kind
        self.omega = nn.Parameter(initial_omega(omega_range, n_components, **factory))
        self.phase = nn.Parameter(torch.zeros(n_components, **factory))

    def encode(self, tau):
        """Encode scaled times: from (n,) to (n, n_components)."""
        x = torch.addcmul(self.phase, tau.unsqueeze(-1), self.omega)
        if self.kind == "time2vec":
            return torch.cat((x[:, :1], x[:, 1:].sin()), dim=-1)
        return x.sin() if self.kind == "sin" else x.cos()

    def extra_repr(self):
        return f"{self.n_components}, kind={self.kind!r}"
