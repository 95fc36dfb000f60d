"""The product and the gradients of ``LUTLinear`` on the device."""

import torch

from ._arrays import TorchArray
from ._dense import level_gradient
from ._intrinsics import WARP
from ._multiply import run_dequantize
from ._products import device_matmul, on_device
from ._tensor_core import HALF_TYPES
from ._weights import DeviceWeight


def forward(rows, layer):
    """Compute ``rows @ weight.T`` without bias.

    Parameters
    ----------
    rows : torch.Tensor of shape (B, n)
    layer : LUTLinear

    Returns
    -------
    torch.Tensor of shape (B, m)
        In the type of rows.
    """
    shape = (layer.out_features, layer.in_features)
    return device_matmul(rows, shape, lambda: layer_weight(layer))


def backward(rows, d_output, layer, needed):
    """Compute the gradients of rows and codebook.

    Parameters
    ----------
    rows : torch.Tensor of shape (B, n)
    d_output : torch.Tensor of shape (B, m)
        Gradient of the product.
    layer : LUTLinear
    needed : sequence of bool
        Which of the two are wanted.

    Returns
    -------
    tuple of (torch.Tensor or None, torch.Tensor or None)
        ``d_output @ weight``, and the sums of ``d_output.T @ rows`` by code.
    """
    d_rows = d_codebook = None
    d_output = d_output.float()
    array = TorchArray(d_output)
    with on_device(array.device):
        stream, weight = array.stream(), layer_weight(layer)
        if needed[0]:
            dense = array.empty(weight.shape, "float32")
            run_dequantize(weight, dense.show(), stream)
            d_rows = torch.matmul(d_output, dense.native).to(rows.dtype)
        if needed[1]:
            products = TorchArray(torch.matmul(d_output.T, rows.float()).contiguous())
            gradient = array.empty((weight.shape[0], 2**weight.bits), "float32")
            if products.native.numel():
                level_gradient(weight.bits)[weight.shape[0], WARP, stream](
                    weight.words, products.show(), gradient.show(), weight.n_words
                )
            d_codebook = gradient.native.to(layer.codebook.dtype)
    return d_rows, d_codebook


def layer_weight(layer):
    """The weight of a layer as the kernels read it, in the memory of the layer.

    Parameters
    ----------
    layer : LUTLinear

    Returns
    -------
    DeviceWeight
    """
    codebook = TorchArray(layer.codebook.detach().contiguous())
    outliers = halves = half_type = None
    if layer.outlier_values is not None:
        parts = (layer.outlier_indptr, layer.outlier_indices, layer.outlier_values.float())
        outliers = tuple(TorchArray(part).show() for part in parts)
    if codebook.dtype in HALF_TYPES:
        halves, half_type = codebook.show("uint16"), codebook.dtype
    return DeviceWeight(
        (layer.out_features, layer.in_features),
        layer.bits,
        TorchArray(layer.codes.contiguous()).show("uint32").reshape(-1),
        codebook.cast("float32").show(),
        halves=halves,
        half_type=half_type,
        outliers=outliers,
    )
