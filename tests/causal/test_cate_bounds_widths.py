"""The compiled pass over the tables, beside the same formula in torch and in numpy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skml.causal import manski_iv_bounds
from skml.causal._width_kernel import sum_widths

torch = pytest.importorskip("torch")

SIZES = [(1, 1, 1), (1, 7, 2), (13, 5, 3), (64, 16, 4), (131, 67, 5), (257, 33, 8), (40, 301, 9)]
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}


def make_tables(n_x, n_z, dtype, seed=0):
    rng = np.random.default_rng(seed)
    pi, mu1, mu0 = rng.uniform(size=(3, n_x, n_z))
    return np.stack([pi, pi * mu1, (1 - pi) * mu0]).astype(dtype)


def make_averages(n_cells, n_z, dtype, seed=1):
    averages = np.random.default_rng(seed).uniform(size=(n_cells, n_z))
    return (averages / averages.sum(axis=1, keepdims=True)).astype(dtype)


def compiled(tables, averages, empty, weight, n_threads=1):
    slope = np.full_like(averages, np.nan)
    total = sum_widths(tables, averages, empty.astype(np.uint8), weight, slope, n_threads)
    assert total == sum_widths(tables, averages, empty.astype(np.uint8), weight, None, n_threads)
    return total, slope


def in_torch(tables, averages, empty, weight):
    from skml.causal._bound_widths import widths_in_torch

    tables, averages, empty, weight = map(torch.tensor, (tables, averages, empty, weight))
    averages.requires_grad_()
    total = widths_in_torch(tables, averages, empty, weight)
    total.backward()
    return total.item(), averages.grad.numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_x", "n_z", "n_cells"), SIZES)
def test_values_and_gradients_are_those_of_torch(n_x, n_z, n_cells, dtype):
    tables, averages = make_tables(n_x, n_z, dtype), make_averages(n_cells, n_z, dtype)
    weight = np.random.default_rng(2).uniform(0.5, 2, n_x).astype(dtype)
    empty = np.arange(n_cells) % 3 == 1
    arguments = tables, averages, empty, weight
    total, slope = compiled(*arguments)
    expected, expected_slope = in_torch(*arguments)
    tolerance = TOLERANCE[dtype]
    assert_allclose(total, expected, rtol=tolerance)
    assert_allclose(slope, expected_slope, rtol=tolerance, atol=tolerance * np.sum(weight))
    cells = (tables @ averages.T)[..., ~empty]
    width = np.diff(manski_iv_bounds(*cells, (0, 1)), axis=1)[:, 0]
    assert_allclose(total, weight @ width, rtol=tolerance)


def test_cells_that_attain_an_extreme_together_share_its_gradient():
    tables = make_tables(30, 12, np.float64)
    averages = make_averages(1, 12, np.float64).repeat(6, axis=0)
    empty = np.array([False, False, True, False, False, True])
    total, slope = compiled(tables, averages, empty, np.ones(30))
    expected, expected_slope = in_torch(tables, averages, empty, np.ones(30))
    assert_allclose(total, 30)  # equal cells narrow nothing
    assert_allclose(slope, expected_slope, atol=1e-12)
    assert_array_equal(slope[empty], 0)
    assert total == pytest.approx(expected)


def test_result_does_not_depend_on_the_number_of_threads():
    arguments = (
        make_tables(1000, 37, np.float32),
        make_averages(5, 37, np.float32),
        np.zeros(5, dtype=bool),
        np.ones(1000, dtype=np.float32),
    )
    total, slope = compiled(*arguments)
    for n_threads in (2, 3):
        again, again_slope = compiled(*arguments, n_threads=n_threads)
        assert again == total
        assert_array_equal(again_slope, slope)


@pytest.mark.parametrize("table", [0, 1, 2])
def test_nan_is_not_lost(table):
    tables = make_tables(5, 6, np.float64)
    tables[table, 2, 3] = np.nan
    averages = make_averages(3, 6, np.float64)
    arguments = averages, np.zeros(3, dtype=np.uint8), np.ones(5), None, 1
    assert np.isnan(sum_widths(tables, *arguments))
    # An empty cell has averages of zero; only its NaN may be overlooked.
    tables = make_tables(5, 6, np.float64)
    averages[1] = np.nan
    arguments = averages, np.array([0, 1, 0], dtype=np.uint8), np.ones(5), None, 1
    assert np.isfinite(sum_widths(tables, *arguments))


def test_arrays_that_do_not_fit_are_named():
    tables, averages = make_tables(4, 6, np.float64), make_averages(2, 6, np.float64)
    empty, weight = np.zeros(2, dtype=np.uint8), np.ones(4)
    with pytest.raises(ValueError, match=r"tables must have shape \(3, n_x, n_z\).*\(2, 4, 6\)"):
        sum_widths(tables[:2], averages, empty, weight, None, 1)
    with pytest.raises(ValueError, match=r"tables must have shape .* not empty; got \(3, 0, 6\)"):
        sum_widths(tables[:, :0].copy(), averages, empty, weight[:0], None, 1)
    with pytest.raises(ValueError, match="got 5 instruments"):
        sum_widths(tables, averages[:, :5].copy(), empty, weight, None, 1)
    with pytest.raises(ValueError, match="1 of 2 cells"):
        sum_widths(tables, averages, empty[:1], weight, None, 1)
    with pytest.raises(ValueError, match="3 rows"):
        sum_widths(tables, averages, empty, weight[:3], None, 1)
    with pytest.raises(ValueError, match=r"slope must have shape \(2, 6\)"):
        sum_widths(tables, averages, empty, weight, averages[:1].copy(), 1)


def test_gradient_reaches_the_cells_through_masses_and_weights():
    from skml.causal._bound_widths import mean_width, widths_in_torch

    generator = torch.Generator().manual_seed(0)
    tables = torch.as_tensor(make_tables(11, 9, np.float64))
    x_weight = torch.rand(11, generator=generator, dtype=torch.float64) + 0.5
    z_weight = torch.rand(9, generator=generator, dtype=torch.float64) + 0.5
    cells = torch.rand(9, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda c: mean_width(tables, c, x_weight, z_weight), cells)
    (gradient,) = torch.autograd.grad(mean_width(tables, cells, x_weight, z_weight), cells)
    weighted = cells * z_weight[:, None]
    averages = (weighted / weighted.sum(dim=0)).t()
    empty = torch.zeros(4, dtype=torch.bool)
    plain = widths_in_torch(tables, averages, empty, x_weight) / x_weight.sum()
    assert_allclose(gradient, torch.autograd.grad(plain, cells)[0], atol=1e-12)
