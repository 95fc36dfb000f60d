"""Width of the bounds as a function of soft cells, with gradients. Imports torch."""

import torch
from torch.autograd.function import once_differentiable

from ._width_kernel import sum_widths

# Entries of the tables that a thread must have to read to be worth being woken.
_ENTRIES_PER_THREAD = 2**18


def mean_width(tables, cells, x_weight, z_weight):
    """Mean width of the Manski bounds, differentiable in the cells.

    Parameters
    ----------
    tables : torch.Tensor of shape (3, n_x, n_z)
        pi, m1 and m0 of all pairs.
    cells : torch.Tensor of shape (n_z, n_cells)
        One-hot cells of the instruments.
    x_weight : torch.Tensor of shape (n_x,)
        Weights of the rows.
    z_weight : torch.Tensor of shape (n_z,)
        Weights of the instruments.

    Returns
    -------
    torch.Tensor
        A scalar; empty cells take no part in the extremes.
    """
    # Cells come first: what is read along the instruments then lies side by side, as the tables do.
    weighted = cells.t() * z_weight
    mass = weighted.sum(dim=1)
    empty = mass == 0
    averages = weighted / mass.masked_fill(empty, 1).unsqueeze(1)
    summed = _CompiledWidths.apply if tables.device.type == "cpu" else widths_in_torch
    return summed(tables, averages, empty, x_weight) / x_weight.sum()


def widths_in_torch(tables, averages, empty, weight):
    """Weighted sum of the widths, for averages of shape (n_cells, n_z) over the instruments."""
    # One product for the three tables.
    flat = averages @ tables.flatten(0, 1).t()
    pi, m1, m0 = flat.unflatten(1, tables.shape[:2]).unbind(1)
    # The greatest of some values is minus the least of minus these values.
    terms = torch.stack([m1 + 1 - pi, m0 + pi, -m0, -m1])
    width = terms.masked_fill(empty.unsqueeze(1), torch.inf).amin(dim=1).sum(dim=0)
    return (width * weight).sum()


class _CompiledWidths(torch.autograd.Function):
    """`widths_in_torch` in compiled code, which reads the tables once for value and gradient."""

    @staticmethod
    def forward(ctx, tables, averages, empty, weight):
        needs_slope = ctx.needs_input_grad[1]
        averages = averages.detach().contiguous()
        slope = torch.empty_like(averages) if needs_slope else None
        total = sum_widths(
            tables.contiguous().numpy(),
            averages.numpy(),
            empty.byte().numpy(),
            weight.contiguous().numpy(),
            slope.numpy() if needs_slope else None,
            max(1, min(torch.get_num_threads(), tables.numel() // _ENTRIES_PER_THREAD)),
        )
        ctx.save_for_backward(slope)
        return averages.new_tensor(total)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (slope,) = ctx.saved_tensors
        return None, gradient * slope, None, None
