"""LeTE as a transformer of columns of times."""

from numbers import Integral, Real

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ._base_time_encoder import BaseTimeEncoder
from ._lete_encoding import LeTEEncoding


class LeTETimeEncoder(BaseTimeEncoder):
    """Encode times by functions that are learnt with the task.

    A time becomes `n_components` numbers: half of them learnt Fourier series, half learnt
    splines, of learnt linear maps of time. `fit` trains them with a linear head that predicts
    y; `transform` returns the encoding for whatever model comes next.

    Parameters
    ----------
    n_components : int, default=16
        Size d of the encoding of each column.
    fourier_fraction : float, default=0.5
        Share p of the components that are Fourier functions, floor(p d) of them; the others are
        splines.
    n_harmonics : int, default=5
        Number K of harmonics of a Fourier function.
    n_grid_intervals : int, default=5
        Number G of intervals of the spline grid.
    spline_degree : int, default=3
        Degree k of the splines, at most 10.
    grid_range : tuple of (float, float), default=(-1.0, 1.0)
        Ends of the spline grid, in the linear maps' values.
    mixing : {"full", "diagonal"}, default="full"
        Whether a component is a sum of functions of all linear maps of its kind ("full", the
        paper's experiments) or a function of its own linear map ("diagonal", its equations 7 to
        10; fewer parameters, and worse).
    layer_norm : bool, default=True
        Whether to normalise each encoding. Off if all components are of one kind.
    learn_scale : bool, default=True
        Whether each component has a learnt factor. Off if all components are of one kind.
    omega_range : tuple of (float, float) or "auto", default="auto"
        First and last initial frequency, in radians per scaled unit of time. "auto": from pi/8
        per median gap between different times down to one radian per half the range of times.
    time_unit : float, "auto" or None, default="auto"
        "auto": the times seen in `fit` are mapped to [-1, 1]. A number: the unit (in seconds
        for dates), with the origin in the middle of the range. None: times as they are, dates
        in seconds since the first one; with ``omega_range=(1, 1e-9)`` the paper's setting.
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
        Stop after so many steps without improvement by `tol` of the loss (of the held-out rows, if
        there are any), and return to the best weights; None: never. Steps over small batches
        without held-out rows never stop early, for the loss of one batch says too little.
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
        A trained :class:`LeTEEncoding` for each column. It takes times in the unit of X
        (seconds since the first training date for dates), whatever their shape.
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
    FunctionalTimeEncoder : Learnt sines and cosines alone (Time2Vec, TGAT).
    LeTEEncoding : The layer, for networks of one's own.
    sklearn.preprocessing.SplineTransformer : Fixed splines, which suit one smooth series.

    Notes
    -----
    With tau the scaled time and x_i = omega_i tau + phase_i,

    .. math:: z = s \\odot \\mathrm{LayerNorm}([F(x_1, ..., x_{d_F}), S(x_{d_F + 1}, ..., x_d)])

    where F and S are the sums of Fourier series and of splines written out at
    :class:`LeTEEncoding`.

    Outside the range seen in `fit` the Fourier functions continue with their periods, and the
    splines fade into their tanh terms. A trend is not extrapolated. `transform` warns when more
    than one row in a hundred lies there.

    Dates with a time zone are instants: the clock of the zone, with its changes to summer time,
    is not seen. Convert them to dates without zone to learn what depends on local clocks.

    References
    ----------
    X. Chen, Y. Tang, J. Xu, J. Zhang, S. Zhang, S. Peng, X. Zheng, Y. Xiong. "Rethinking time
    encoding via learnable transformation functions." ICML 2025.
    https://arxiv.org/abs/2505.00887

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from skml.preprocessing import LeTETimeEncoder
    >>> t = np.linspace(0, 20, 200).reshape(-1, 1)
    >>> y = np.sign(np.sin(t.ravel())) + 0.1 * t.ravel()
    >>> encoder = LeTETimeEncoder(8, max_iter=300, random_state=0)
    >>> model = make_pipeline(encoder, Ridge(1e-3)).fit(t, y)
    >>> model.score(t, y) > 0.9
    True
    >>> model[0].get_feature_names_out()[:2]
    array(['lete_x0_0', 'lete_x0_1'], dtype=object)
    """

    _parameter_constraints: dict = {
        **BaseTimeEncoder._parameter_constraints,
        "fourier_fraction": [Interval(Real, 0, 1, closed="both")],
        "n_harmonics": [Interval(Integral, 1, None, closed="left")],
        "n_grid_intervals": [Interval(Integral, 1, None, closed="left")],
        # Beyond that polynomials in the power basis lose their digits.
        "spline_degree": [Interval(Integral, 0, 10, closed="both")],
        "grid_range": ["array-like"],
        "mixing": [StrOptions({"full", "diagonal"})],
        "layer_norm": ["boolean"],
        "learn_scale": ["boolean"],
    }
    _name_prefix = "lete"

    def __init__(
        self,
        n_components=16,
        *,
        fourier_fraction=0.5,
        n_harmonics=5,
        n_grid_intervals=5,
        spline_degree=3,
        grid_range=(-1.0, 1.0),
        mixing="full",
        layer_norm=True,
        learn_scale=True,
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
        self.fourier_fraction = fourier_fraction
        self.n_harmonics = n_harmonics
        self.n_grid_intervals = n_grid_intervals
        self.spline_degree = spline_degree
        self.grid_range = grid_range
        self.mixing = mixing
        self.layer_norm = layer_norm
        self.learn_scale = learn_scale
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

    def transformation(self, j, i, x, *, column=0):
        """Evaluate one learnt function: what linear map i contributes to component j.

        Parameters
        ----------
        j : int
            Component of the encoding, before normalisation and scale.
        i : int
            Linear map, of the same kind (Fourier or spline) as component j.
        x : array-like of shape (...)
            Values of the linear map, omega_i tau + phase_i.
        column : int, default=0
            Column of X.

        Returns
        -------
        ndarray of shape (...), dtype float64
            Values of the function. The constant of the component is not part of it.
        """
        check_is_fitted(self)
        if not 0 <= column < self.n_features_in_:
            raise ValueError(f"column must be from 0 to {self.n_features_in_ - 1}, got {column}")
        module = self.modules_[column]
        x = torch.from_numpy(np.array(x, dtype=np.float64)).to(next(module.parameters()))
        return module.transformation(j, i, x).double().cpu().numpy()

    def _make_module(self, omega_range, origin, unit):
        return LeTEEncoding(
            self.n_components,
            fourier_fraction=self.fourier_fraction,
            n_harmonics=self.n_harmonics,
            n_grid_intervals=self.n_grid_intervals,
            spline_degree=self.spline_degree,
            grid_range=self.grid_range,
            mixing=self.mixing,
            layer_norm=self.layer_norm,
            learn_scale=self.learn_scale,
            omega_range=omega_range,
            time_origin=origin,
            time_unit=unit,
            dtype=getattr(torch, self.dtype),
        )
