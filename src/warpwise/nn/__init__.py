"""Drop-in replacements for modules of ``torch.nn``: same parameters, names and initialisation, on ``warpwise.ops``."""

from warpwise.nn.convolution import AvgPool2d, BatchNorm2d, Conv2d, ConvBlock, MaxPool2d, Sequential
from warpwise.nn.linear import Linear
from warpwise.nn.loss import CrossEntropyLoss
from warpwise.nn.parallel import DataParallel
from warpwise.nn.step import CompiledStep, compile_step

__all__ = [
    "AvgPool2d", "BatchNorm2d", "CompiledStep", "Conv2d", "ConvBlock", "CrossEntropyLoss", "DataParallel", "Linear",
    "MaxPool2d", "Sequential", "compile_step",
]  # fmt: skip
