"""LeTE as a torch layer: a linear map of time, learnable functions, normalisation, scale."""

import math

import torch
from torch import nn

from ._compiled_encoding import compiled_encoding
from ._encoding_norm import normalised_vectors
from ._function_bases import HarmonicBasis, SplineBasis
from ._function_sums import function_sum
from ._scaled_time_module import ScaledTimeModule, initial_omega
from ._time_bases import bspline_basis


class LeTEEncoding(ScaledTimeModule):
    """Encode time by learnable functions; a torch layer for tensors of any shape.

    The layer for sequence, graph and forecasting models: feed it timestamps or time differences,
    add its output to embeddings of the same size or concatenate the two, and train it with the
    rest of the network. :class:`LeTETimeEncoder` wraps it as a transformer.

    Parameters
    ----------
    n_components : int, default=16
        Size d of the encoding.
    fourier_fraction : float, default=0.5
        Share p of the components that are Fourier functions, floor(p d) of them; the others are
        splines.
    n_harmonics : int, default=5
        Number K of harmonics of a Fourier function.
    n_grid_intervals : int, default=5
        Number G of intervals of the spline grid.
    spline_degree : int, default=3
        Degree k of the splines.
    grid_range : tuple of (float, float), default=(-1.0, 1.0)
        Ends of the spline grid. Beyond k intervals from it only the tanh term is left.
    mixing : {"full", "diagonal"}, default="full"
        "full": every component is a sum of functions of all linear maps of its kind, as in the
        paper's code and experiments. "diagonal": of its own linear map alone, as in equations 7
        to 10 of the paper.
    layer_norm : bool, default=True
        Whether to normalise over the components. Off if all components are of one kind.
    learn_scale : bool, default=True
        Whether each component has a learnt factor. Off if all components are of one kind.
    omega_range : tuple of (float, float), default=(1.0, 1e-9)
        First and last of the initial frequencies, which are in geometric progression, of either
        kind. The default is the paper's, for times that are whole numbers up to about 1e9; for
        times that are scaled to [-1, 1] something like (100.0, 1.0) trains better.
    time_origin : float, default=0.0
        Time that becomes 0: the layer works on (t - time_origin) / time_unit, computed in the
        precision of t. Give the centre of the observed period.
    time_unit : float, default=1.0
        Length of time that becomes 1. Give half the length of the observed period.
    device : torch.device, str or None, default=None
        Device of the weights.
    dtype : torch.dtype or None, default=None
        Type of the weights and of the encoding; None: torch's default.

    Attributes
    ----------
    fourier : torch.nn.Module or None
        The Fourier functions, with the parameters ``omega`` and ``phase`` (d_F,), ``cos_weight``
        and ``sin_weight`` (d_F, d_F, K; output, input, harmonic) and ``bias`` (d_F,). With
        diagonal mixing the weights are (d_F, K).
    spline : torch.nn.Module or None
        The splines, with the parameters ``omega`` and ``phase`` (d_S,), ``base_weight``
        (d_S, d_S) and ``spline_weight`` (d_S, d_S, G + k). With diagonal mixing the weights are
        (d_S,) and (d_S, G + k).
    norm : torch.nn.LayerNorm or None
        The normalisation.
    scale : torch.nn.Parameter of shape (d,) or None
        The learnt factors.

    See Also
    --------
    LeTETimeEncoder : The same as a scikit-learn transformer.

    Notes
    -----
    With x_i = omega_i tau + phase_i, where tau is the scaled time, the d_F = floor(p d) Fourier
    components are

    .. math:: F_j = \\sum_{i=1}^{d_F} \\sum_{m=1}^{K} \\left( W^c_{jim} \\cos(m x_i)
              + W^s_{jim} \\sin(m x_i) \\right) + c_j

    and the d_S = d - d_F spline components, with uniform B-splines B_m of degree k,

    .. math:: S_j = \\sum_{i=1}^{d_S} U_{ji} \\tanh(x_i)
              + \\sum_{i=1}^{d_S} \\sum_{m=1}^{G + k} V_{jim} B_m(x_i).

    The encoding is s * LayerNorm([F, S]), s being the scale. With p = 1, K = 1 and suitable
    weights it is Time2Vec's sine part, the functional time encoding of TGAT or the position
    encoding of the transformer.

    U starts as the weight of a `torch.nn.Linear`, V from N(0, 0.1**2 / d_S), W from
    N(0, 1 / (d_F K)), c and the phases from 0. (The authors' code leaves U and V
    uninitialised.)

    References
    ----------
    X. Chen, Y. Tang, J. Xu, J. Zhang, S. Zhang, S. Peng, X. Zheng, Y. Xiong. "Rethinking time
    encoding via learnable transformation functions." ICML 2025.
    https://arxiv.org/abs/2505.00887

    Examples
    --------
    >>> import torch
    >>> from skml.preprocessing import LeTEEncoding
    >>> times = torch.tensor([[0.0, 1.5, 4.0], [2.0, 2.5, 7.0]])  # (batch, event)
    >>> layer = LeTEEncoding(8, omega_range=(10.0, 1.0), time_origin=3.5, time_unit=3.5)
    >>> layer(times).shape
    torch.Size([2, 3, 8])
    >>> sum(parameter.numel() for parameter in layer.parameters())
    348
    """

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
        omega_range=(1.0, 1e-9),
        time_origin=0.0,
        time_unit=1.0,
        device=None,
        dtype=None,
    ):
        super().__init__(n_components, time_origin, time_unit)
        _check_arguments(
            n_components, fourier_fraction, n_harmonics, n_grid_intervals, spline_degree
        )
        if mixing not in {"full", "diagonal"}:
            raise ValueError(f"mixing must be 'full' or 'diagonal', got {mixing!r}")
        if not grid_range[0] < grid_range[1]:
            raise ValueError(f"grid_range must be an increasing pair, got {grid_range!r}")
        if not (omega_range[0] > 0 and omega_range[1] > 0):
            raise ValueError(f"omega_range must be a pair of positive numbers, got {omega_range!r}")
        factory = {"device": device, "dtype": dtype or torch.get_default_dtype()}
        n_fourier = math.floor(fourier_fraction * n_components)
        n_spline = n_components - n_fourier
        is_full = mixing == "full"
        self.fourier = self.spline = self.norm = self.scale = None
        if n_fourier:
            self.fourier = FourierFunctions(n_fourier, n_harmonics, is_full, omega_range, factory)
        if n_spline:
            grid = (n_grid_intervals, spline_degree, tuple(grid_range))
            self.spline = SplineFunctions(n_spline, grid, is_full, omega_range, factory)
        if n_fourier and n_spline:
            self.norm = nn.LayerNorm(n_components, **factory) if layer_norm else None
            self.scale = nn.Parameter(torch.ones(n_components, **factory)) if learn_scale else None

    def encode(self, tau):
        """Encode scaled times.

        Parameters
        ----------
        tau : torch.Tensor of shape (n,)
            Scaled times, in the type of the weights.

        Returns
        -------
        torch.Tensor of shape (n, n_components)
            The vectors.
        """
        if self._is_plain():
            vectors = compiled_encoding(self.fourier, self.spline, self.norm, self.scale, tau)
            if vectors is not None:
                return vectors
        blocks = [branch(tau) for branch in (self.fourier, self.spline) if branch is not None]
        if self.norm is not None:
            return normalised_vectors(*blocks, self.norm, self.scale)
        rows = torch.cat(blocks)
        if self.scale is not None:
            rows = rows * self.scale.unsqueeze(-1)
        return rows.T

    def _is_plain(self):
        """Whether all parts are there, as they were made, and nobody listens to them."""
        kinds = (self.fourier, FourierFunctions), (self.spline, SplineFunctions)
        return isinstance(self.norm, nn.LayerNorm) and all(
            type(part) is kind
            and not (part._forward_hooks or part._forward_pre_hooks)
            and not (part._backward_hooks or part._backward_pre_hooks)
            for part, kind in kinds
        )

    @property
    def omega(self):
        """Frequencies of the linear maps, in radians per scaled unit of time: (d,)."""
        branches = [branch for branch in (self.fourier, self.spline) if branch is not None]
        return torch.cat([branch.omega for branch in branches])

    @torch.no_grad()
    def transformation(self, j, i, x):
        """Evaluate one learnt function: what linear map i contributes to component j.

        Parameters
        ----------
        j : int
            Component of the encoding, before normalisation and scale.
        i : int
            Linear map, of the same kind as component j: both below d_F (Fourier) or both not.
        x : torch.Tensor of shape (...)
            Values of the linear map, omega_i tau + phase_i.

        Returns
        -------
        torch.Tensor of shape (...)
            Values of the function. The constant c_j is not part of it.
        """
        n_fourier = 0 if self.fourier is None else len(self.fourier.omega)
        for name, index in (("j", j), ("i", i)):
            if not 0 <= index < self.n_components:
                raise ValueError(f"{name} must be from 0 to {self.n_components - 1}, got {index}")
        if (j < n_fourier) != (i < n_fourier):
            raise ValueError(
                f"j and i must both be below {n_fourier} (Fourier) or both not (spline), "
                f"got j={j}, i={i}"
            )
        if j < n_fourier:
            return self.fourier.transformation(j, i, x)
        return self.spline.transformation(j - n_fourier, i - n_fourier, x)

    def extra_repr(self):
        """Describe the layer for its repr.

        Returns
        -------
        str
            Size, origin and unit.
        """
        return f"{self.n_components}, time_origin={self.time_origin}, time_unit={self.time_unit}"


class FourierFunctions(nn.Module):
    """Linear maps of time, then a Fourier series of each, summed over the maps."""

    def __init__(self, n_dims, n_harmonics, is_full, omega_range, factory):
        super().__init__()
        self.n_harmonics, self.is_full = n_harmonics, is_full
        self.basis = HarmonicBasis(n_harmonics)
        shape = (n_dims, n_dims, n_harmonics) if is_full else (n_dims, n_harmonics)
        spread = 1 / math.sqrt((n_dims if is_full else 1) * n_harmonics)
        self.omega = nn.Parameter(initial_omega(omega_range, n_dims, **factory))
        self.phase = nn.Parameter(torch.zeros(n_dims, **factory))
        self.cos_weight = nn.Parameter(torch.randn(shape, **factory) * spread)
        self.sin_weight = nn.Parameter(torch.randn(shape, **factory) * spread)
        self.bias = nn.Parameter(torch.zeros(n_dims, **factory))

    def tensors(self):
        """The arguments of `function_sum` after tau."""
        return self.omega, self.phase, self.bias, self.cos_weight, self.sin_weight

    def forward(self, tau):
        """From scaled times (n,) to functions (n_dims, n)."""
        return function_sum(self.basis, tau, *self.tensors())

    def transformation(self, j, i, x):
        if not self.is_full and i != j:
            return torch.zeros_like(x)
        index = (j, i) if self.is_full else j
        multiples = x.unsqueeze(-1) * torch.arange(1, self.n_harmonics + 1, device=x.device)
        return multiples.cos() @ self.cos_weight[index] + multiples.sin() @ self.sin_weight[index]


class SplineFunctions(nn.Module):
    """Linear maps of time, then a spline plus tanh of each, summed over the maps."""

    def __init__(self, n_dims, grid, is_full, omega_range, factory):
        super().__init__()
        self.grid, self.is_full = grid, is_full
        self.basis = SplineBasis(*grid)
        n_basis = grid[0] + grid[1]
        shape = (n_dims, n_dims) if is_full else (n_dims,)
        n_inputs = n_dims if is_full else 1
        self.omega = nn.Parameter(initial_omega(omega_range, n_dims, **factory))
        self.phase = nn.Parameter(torch.zeros(n_dims, **factory))
        # Uniform on +-1/sqrt(n_inputs): Kaiming's rule as torch.nn.Linear applies it.
        bound = 1 / math.sqrt(n_inputs)
        self.base_weight = nn.Parameter(torch.empty(shape, **factory).uniform_(-bound, bound))
        self.spline_weight = nn.Parameter(torch.randn(*shape, n_basis, **factory) * 0.1 * bound)

    def tensors(self):
        """The arguments of `function_sum` after tau."""
        return self.omega, self.phase, None, self.base_weight, self.spline_weight

    def forward(self, tau):
        """From scaled times (n,) to functions (n_dims, n)."""
        return function_sum(self.basis, tau, *self.tensors())

    def transformation(self, j, i, x):
        if not self.is_full and i != j:
            return torch.zeros_like(x)
        index = (j, i) if self.is_full else j
        basis = bspline_basis(x.reshape(1, -1), *self.grid)[0]
        spline = (self.spline_weight[index] @ basis).reshape(x.shape)
        return self.base_weight[index] * x.tanh() + spline


def _check_arguments(n_components, fourier_fraction, n_harmonics, n_grid_intervals, spline_degree):
    lowest = {
        "n_components": (n_components, 1),
        "n_harmonics": (n_harmonics, 1),
        "n_grid_intervals": (n_grid_intervals, 1),
        "spline_degree": (spline_degree, 0),
    }
    for name, (value, bound) in lowest.items():
        if value < bound:
            raise ValueError(f"{name} must be at least {bound}, got {value}")
    if not 0 <= fourier_fraction <= 1:
        raise ValueError(f"fourier_fraction must be from 0 to 1, got {fourier_fraction}")
