"""The compiled sums and normalisation of LeTE against the same in torch."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from skml.preprocessing import LeTEEncoding, _compiled_encoding, _encoding_norm, _function_sums
from skml.preprocessing._compiled_encoding import CompiledEncoding, _encoding_in_torch
from skml.preprocessing._encoding_norm import CompiledNorm, norm_in_torch
from skml.preprocessing._function_bases import HarmonicBasis, SplineBasis
from skml.preprocessing._function_sums import CompiledSum, sum_in_torch
from skml.preprocessing._norm_kernel import normalise, normalise_slope
from skml.preprocessing._sum_kernel import FunctionSum
from skml.preprocessing._time_bases import bspline_polynomials

BASES = {
    "1 harmonic": HarmonicBasis(1),
    "5 harmonics": HarmonicBasis(5),
    "12 harmonics": HarmonicBasis(12),
    "constant pieces": SplineBasis(4, 0, (-1.0, 1.0)),
    "linear pieces": SplineBasis(1, 1, (0.0, 0.5)),
    "cubic pieces": SplineBasis(5, 3, (-1.0, 1.0)),
    "quartic pieces": SplineBasis(7, 4, (-2.0, 1.0)),
    "tenth degree": SplineBasis(3, 10, (-1.0, 1.0)),
}
# One point, less and more than a vector, a strip, and strips with a rest.
SIZES = [1, 7, 33, 256, 257, 1009]


def sum_arguments(basis, n, d, is_full, dtype=torch.float64, has_constant=True, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    shape = (d, d) if is_full else (d,)
    is_harmonic = isinstance(basis, HarmonicBasis)
    first_shape = (*shape, basis.n_harmonics) if is_harmonic else shape
    n_second = basis.n_harmonics if is_harmonic else basis.n_functions - 1
    tensors = [
        draw(n),
        draw(d),
        0.1 * draw(d),
        draw(d) if has_constant else None,
        draw(*first_shape),
        draw(*shape, n_second),
    ]
    for tensor in tensors:
        if tensor is not None:
            tensor.requires_grad_()
    return tensors


def norm_arguments(n, d, dtype=torch.float64, has_scale=True):
    generator = torch.Generator().manual_seed(0)
    shapes = [(d // 3 + 1, n), (d - d // 3 - 1, n), (d,), (d,)] + [(d,)] * has_scale
    tensors = [
        torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in shapes
    ]
    return tensors if has_scale else [*tensors, None]


def assert_same(compiled, in_torch, setting, tensors, **tolerance):
    """Values, and gradients of a random combination of them."""
    found, expected = compiled(setting, *tensors), in_torch(setting, *tensors)
    torch.testing.assert_close(found, expected, **tolerance)
    direction = torch.randn(expected.shape, dtype=expected.dtype)
    inputs = [tensor for tensor in tensors if tensor is not None]
    found = torch.autograd.grad(found, inputs, direction)
    expected = torch.autograd.grad(expected, inputs, direction)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **tolerance)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize("name", BASES)
def test_sums_and_gradients_equal_those_of_torch(name, is_full, n):
    for d in (1, 3, 8, 19):
        tensors = sum_arguments(BASES[name], n, d, is_full, has_constant=d != 3)
        assert_same(CompiledSum.apply, sum_in_torch, BASES[name], tensors, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["5 harmonics", "cubic pieces"])
def test_single_precision_is_close_to_double(name):
    double = sum_arguments(BASES[name], 500, 8, True)
    single = [tensor.detach().float().requires_grad_() for tensor in double]
    # The same numbers: rounding of the arguments is not what is measured.
    double = [tensor.detach().double().requires_grad_() for tensor in single]
    found, expected = (CompiledSum.apply(BASES[name], *tensors) for tensors in (single, double))
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-5)
    found.sum().backward()
    expected.sum().backward()
    for one, other in zip(single, double, strict=True):
        largest = other.grad.abs().max()
        assert (one.grad - other.grad).abs().max() < 2e-5 * max(1, largest)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("has_scale", [True, False])
def test_normalisation_and_gradients_equal_those_of_torch(has_scale, n):
    for d in (2, 5, 16, 40):
        tensors = norm_arguments(n, d, has_scale=has_scale)
        # Two components are normalised to +-1 whatever they are: slopes are nearly zero there.
        assert_same(CompiledNorm.apply, norm_in_torch, 1e-5, tensors, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["5 harmonics", "cubic pieces"])
@pytest.mark.parametrize("is_full", [True, False])
def test_first_and_second_derivatives_by_differences(name, is_full):
    tensors = sum_arguments(BASES[name], 4, 2, is_full)
    assert torch.autograd.gradcheck(lambda *args: CompiledSum.apply(BASES[name], *args), tensors)
    assert torch.autograd.gradgradcheck(
        lambda *args: CompiledSum.apply(BASES[name], *args), tensors
    )


def test_derivatives_of_the_normalisation_by_differences():
    tensors = norm_arguments(3, 4)
    assert torch.autograd.gradcheck(lambda *args: CompiledNorm.apply(1e-5, *args), tensors)
    assert torch.autograd.gradgradcheck(lambda *args: CompiledNorm.apply(1e-5, *args), tensors)


def encoding_arguments(n, d_fourier, d_spline, is_full=True, has_scale=True):
    bases = BASES["5 harmonics"], BASES["cubic pieces"]
    tau, *upper = sum_arguments(bases[0], n, d_fourier, is_full)
    _, *lower = sum_arguments(bases[1], n, d_spline, is_full, has_constant=False, seed=1)
    norm = norm_arguments(1, d_fourier + d_spline, has_scale=has_scale)[2:]
    return (*bases, 1e-5), [tau, *upper, *lower, *norm]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("is_full", [True, False])
def test_encodings_and_gradients_equal_those_of_torch(is_full, n):
    for d_fourier, d_spline, has_scale in ((1, 1, True), (8, 8, True), (3, 16, False)):
        setting, tensors = encoding_arguments(n, d_fourier, d_spline, is_full, has_scale)
        arguments = CompiledEncoding.apply, _encoding_in_torch, setting, tensors
        assert_same(*arguments, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("has_scale", [True, False])
def test_derivatives_of_the_encoding_by_differences(has_scale):
    setting, tensors = encoding_arguments(3, 2, 2, has_scale=has_scale)
    assert torch.autograd.gradcheck(lambda *args: CompiledEncoding.apply(setting, *args), tensors)
    assert torch.autograd.gradgradcheck(
        lambda *args: CompiledEncoding.apply(setting, *args), tensors
    )


def test_weights_that_change_before_the_gradient_are_refused():
    layer = LeTEEncoding(6, omega_range=(5.0, 1.0))
    encoded = layer(torch.linspace(-1, 1, 20))
    with torch.no_grad():
        layer.spline.omega.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        encoded.sum().backward()


def test_no_points_give_empty_sums_and_zero_gradients():
    layer = LeTEEncoding(6)
    encoded = layer(torch.empty(0))
    assert encoded.shape == (0, 6)
    encoded.sum().backward()
    assert all(not parameter.grad.any() for parameter in layer.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_threads_share_points_without_changing_them(monkeypatch, dtype):
    layer = LeTEEncoding(8, omega_range=(50.0, 1.0), dtype=dtype)
    tau = torch.linspace(-1, 1, 2000, dtype=dtype)
    results = []
    for n_threads in (1, 3):
        for module in (_function_sums, _encoding_norm, _compiled_encoding):
            monkeypatch.setattr(module, "thread_count", lambda *_, n=n_threads: n)
        layer.zero_grad()
        encoded = layer.encode(tau)
        encoded.square().cumsum(dim=1).sum().backward()
        results.append((encoded.detach(), [p.grad.clone() for p in layer.parameters()]))
    (values, gradients), (other_values, other_gradients) = results
    assert torch.equal(values, other_values)
    for one, other in zip(gradients, other_gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_a_point_does_not_see_its_neighbours():
    layer = LeTEEncoding(16, omega_range=(50.0, 1.0))
    tau = torch.rand(1024, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.no_grad():
        whole = layer.encode(tau)
        for rows in (slice(64), slice(192, 512), slice(640, 1024)):
            assert torch.equal(layer.encode(tau[rows]), whole[rows])


def test_two_threads_may_use_a_layer_at_once():
    layer = LeTEEncoding(16, omega_range=(50.0, 1.0))
    times = [torch.linspace(-1, k, 3000) for k in range(4)]
    expected = [layer(t).detach() for t in times]
    with ThreadPoolExecutor(4) as pool:
        for found, value in zip(pool.map(layer, times * 5), expected * 5, strict=True):
            assert torch.equal(found, value)


def test_strided_times_and_gradients():
    layer = LeTEEncoding(6, omega_range=(5.0, 1.0), dtype=torch.float64)
    tau = torch.linspace(-1, 1, 80, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(6, 40, dtype=torch.float64)
    (strided,) = torch.autograd.grad(layer.encode(tau[::2]), tau, direction.T)
    (dense,) = torch.autograd.grad(
        layer.encode(tau[::2].contiguous()), tau, direction.T.contiguous()
    )
    torch.testing.assert_close(strided, dense)
    (expanded,) = torch.autograd.grad(layer.encode(tau[:1].expand(9)).sum(), tau)
    (single,) = torch.autograd.grad(layer.encode(tau[:1]).sum(), tau)
    torch.testing.assert_close(expanded, 9 * single)


def test_parameters_that_are_not_contiguous_get_their_gradient():
    layer = LeTEEncoding(6, omega_range=(5.0, 1.0))
    strided = copy.deepcopy(layer)
    with torch.no_grad():
        for part, name in ((strided.fourier, "cos_weight"), (strided.spline, "base_weight")):
            weight = getattr(part, name)
            weight.data = weight.transpose(0, 1).contiguous().transpose(0, 1)
            assert not weight.is_contiguous()
    t = torch.linspace(-1, 1, 50)
    for model in (layer, strided):
        model(t).square().cumsum(dim=1).sum().backward()
    for one, other in zip(layer.parameters(), strided.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_frozen_parameters_get_no_gradient():
    layer = LeTEEncoding(6, omega_range=(5.0, 1.0))
    expected = copy.deepcopy(layer)
    t = torch.linspace(-1, 1, 50)
    frozen = {"fourier.omega", "spline.spline_weight", "norm.weight", "scale"}
    for name, parameter in layer.named_parameters():
        parameter.requires_grad_(name not in frozen)
    for model in (layer, expected):
        model(t).square().cumsum(dim=1).sum().backward()
    for (name, one), other in zip(layer.named_parameters(), expected.parameters(), strict=True):
        if name in frozen:
            assert one.grad is None
        else:
            torch.testing.assert_close(one.grad, other.grad)


def calls_of_compiled_code(monkeypatch):
    calls = []
    for module, cls in (
        (_function_sums, CompiledSum),
        (_encoding_norm, CompiledNorm),
        (_compiled_encoding, CompiledEncoding),
    ):

        class Spy(cls):
            @classmethod
            def apply(spy, *args, cls=cls):
                calls.append(cls)
                return cls.apply(*args)

        monkeypatch.setattr(module, cls.__name__, Spy)
    return calls


def test_which_tensors_are_left_to_torch(monkeypatch):
    calls = calls_of_compiled_code(monkeypatch)
    tau = torch.linspace(-1, 1, 10)
    for dtype in (torch.float32, torch.float64):
        LeTEEncoding(4, dtype=dtype).encode(tau.to(dtype))
        assert calls == [CompiledEncoding]
        calls.clear()
    assert LeTEEncoding(4, dtype=torch.bfloat16).encode(tau.bfloat16()).isfinite().all()
    assert LeTEEncoding(4, device="meta").encode(tau.to("meta")).shape == (10, 4)
    assert not calls
    # No kernel for this degree; torch's power basis still serves.
    LeTEEncoding(4, spline_degree=11).encode(tau)
    assert calls == [CompiledSum, CompiledNorm]


def test_parts_that_are_listened_to_or_replaced_are_called(monkeypatch):
    layer, tau = LeTEEncoding(4, omega_range=(5.0, 1.0)), torch.linspace(-1, 1, 10)
    expected = layer.encode(tau)
    calls = calls_of_compiled_code(monkeypatch)
    seen = []
    handle = layer.spline.register_forward_hook(lambda *arguments: seen.append(arguments))
    torch.testing.assert_close(layer.encode(tau), expected)
    assert calls == [CompiledSum, CompiledSum, CompiledNorm]
    assert len(seen) == 1
    handle.remove()
    calls.clear()
    layer.fourier = torch.nn.Sequential(layer.fourier)
    torch.testing.assert_close(layer.encode(tau), expected)
    assert calls == [CompiledSum, CompiledSum, CompiledNorm]
    layer.norm = None
    assert layer.encode(tau).shape == (10, 4)


def test_transformations_of_torch_go_through_torch(monkeypatch):
    layer = LeTEEncoding(6, omega_range=(5.0, 1.0), dtype=torch.float64)
    tau = torch.linspace(-0.9, 0.9, 12, dtype=torch.float64).requires_grad_()
    expected = layer.encode(tau)
    slopes = torch.stack(
        [torch.autograd.grad(column.sum(), tau, retain_graph=True)[0] for column in expected.T]
    ).T
    calls = calls_of_compiled_code(monkeypatch)
    parameters = dict(layer.named_parameters())

    def loss(parameters):
        return torch.func.functional_call(layer, parameters, tau).square().cumsum(dim=1).sum()

    found = torch.func.grad(loss)(parameters)
    vmapped = torch.func.vmap(layer)(tau.view(3, 4))
    torch.testing.assert_close(vmapped, expected.view(3, 4, 6))
    _, tangent = torch.func.jvp(layer.encode, (tau,), (torch.ones_like(tau),))
    torch.testing.assert_close(tangent, slopes)
    with forward_ad.dual_level():
        dual = layer.encode(forward_ad.make_dual(tau, torch.ones_like(tau)))
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, slopes)
    assert not calls
    loss(parameters).backward()
    assert calls
    for name, value in found.items():
        torch.testing.assert_close(value, parameters[name].grad)


@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
def test_torch_compile_takes_the_layer(monkeypatch):
    layer = LeTEEncoding(6, omega_range=(5.0, 1.0))
    t = torch.linspace(-1, 1, 20)
    expected = layer(t)
    calls = calls_of_compiled_code(monkeypatch)
    torch.testing.assert_close(torch.compile(layer, backend="eager")(t), expected)
    assert not calls


def test_nothing_of_the_kernels_is_kept_in_a_layer():
    layer = LeTEEncoding(6, omega_range=(5.0, 1.0))
    t = torch.linspace(-1, 1, 20)
    before = set(layer.state_dict())
    encoded = layer(t)
    encoded.sum().backward()
    assert set(layer.state_dict()) == before == {name for name, _ in layer.named_parameters()}
    for twin in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert torch.equal(twin(t), encoded)


def test_infinite_points_reach_no_spline_and_nan_stays():
    basis = BASES["cubic pieces"]
    tau, omega, phase, _, first, second = sum_arguments(basis, 5, 2, True)
    with torch.no_grad():
        omega[:] = 1.0
        tau[:] = torch.tensor([0.1, torch.inf, -torch.inf, torch.nan, 1e300])
        sums = CompiledSum.apply(basis, tau, omega, phase, None, first, second)
    tail = first.sum(dim=1)
    torch.testing.assert_close(sums[:, [1, 2, 4]], torch.stack((tail, -tail, tail), dim=1))
    assert sums[:, 3].isnan().all()
    assert sums[:, 0].isfinite().all()


def test_kernels_refuse_what_does_not_fit():
    def zeros(*shape):
        return np.zeros(shape)

    with pytest.raises(ValueError, match="harmonics come in pairs; got 2 and 3"):
        FunctionSum(2, 3)
    with pytest.raises(ValueError, match=r"degrees from 0 to 10; got shape \(12, 12\)"):
        FunctionSum(1, 16, 5, 0.0, 1.0, bspline_polynomials(11))
    with pytest.raises(ValueError, match="make 8 B-splines beside one tanh; got 7 and 1"):
        FunctionSum(1, 7, 5, 0.0, 1.0, bspline_polynomials(3))
    kernel = FunctionSum(2, 2)
    good = [zeros(3, 9), zeros(3, 9), zeros(18), zeros(18), zeros(3), zeros(3, 9), 1]
    kernel.values(*good)
    for position, bad, message in [
        (1, zeros(2, 9), "second must have length 3; got 2"),
        (1, zeros(3, 8), r"second\[0\] must have length 9; got 8"),
        (2, zeros(17), "3 linear maps with 2 and 2 functions do not fit 17 and 18 weights"),
        (3, zeros(6), "do not fit 18 and 6 weights"),
        (4, zeros(4), "constant must have length 3; got 4"),
        (5, zeros(2, 9), "target must have length 3; got 2"),
        (5, zeros(3, 8), r"target\[0\] must have length 9; got 8"),
    ]:
        with pytest.raises(ValueError, match=message):
            kernel.values(*good[:position], bad, *good[position + 1 :])
    with pytest.raises(ValueError, match="weight, bias and scale must have 3 entries"):
        normalise(zeros(1, 9), zeros(2, 9), zeros(3), zeros(2), None, zeros(9, 3), 1e-5, 1)
    with pytest.raises(ValueError, match=r"vectors must have shape \(9, 3\); got \(3, 9\)"):
        normalise(zeros(1, 9), zeros(2, 9), zeros(3), zeros(3), None, zeros(3, 9), 1e-5, 1)
    args = [zeros(1, 9), zeros(2, 9), zeros(3), zeros(3), None, zeros(9, 3)]
    with pytest.raises(ValueError, match="to_scale and scale must both be given"):
        normalise_slope(*args, zeros(1, 9), zeros(2, 9), zeros(3), zeros(3), zeros(3), 1e-5, 1)
