"""A convolutional layer of torch whose weight stays packed."""

from torch import nn
from torch.nn import functional as F


class LUTConv2d(nn.Module):
    """A convolution as a packed linear layer on unfolded patches.

    Parameters
    ----------
    linear : LUTLinear
        The layer on patches.
    how : tuple
        Kernel size, dilation, padding and stride, as :func:`torch.nn.functional.unfold` takes
        them.
    """

    def __init__(self, linear, how):
        super().__init__()
        self.linear = linear
        self.how = how

    def forward(self, input):
        """Convolve.

        Parameters
        ----------
        input : torch.Tensor of shape (n, channels, height, width) or (channels, height, width)
            Images.

        Returns
        -------
        torch.Tensor of shape (n, out_channels, height, width) or without n
            Results.
        """
        images = input.unsqueeze(0) if input.dim() == 3 else input
        patches = F.unfold(images, *self.how).transpose(1, 2)
        output = self.linear(patches).transpose(1, 2)
        sizes = [
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, dilation, padding, stride in zip(
                images.shape[2:], *self.how, strict=True
            )
        ]
        output = output.reshape(len(images), -1, *sizes)
        return output.squeeze(0) if input.dim() == 3 else output
