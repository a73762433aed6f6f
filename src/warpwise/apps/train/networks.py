"""The networks, built from our modules or from PyTorch's; their state dicts are exchangeable."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

import warpwise.nn

HIDDEN, MLP_HIDDEN = 128, 256  # outputs of the first linear layer


def cnn(modules: Any, channels: int, size: tuple[int, int], classes: int, features: Sequence[int]) -> torch.nn.Module:
    """Blocks of conv 3 x 3, batch normalisation, relu and max pooling by 2 with these features; two linear layers."""
    layers: OrderedDict[str, torch.nn.Module] = OrderedDict()
    height, width = size
    for number, (before, after) in enumerate(zip((channels, *features), features, strict=False), 1):
        layers[f"block{number}"] = _block(modules, before, after)
        height, width = height // 2, width // 2
    layers["flatten"] = torch.nn.Flatten()
    layers |= _with_relu("1", modules, features[-1] * height * width, HIDDEN)
    layers["linear2"] = modules.Linear(HIDDEN, classes)
    return (warpwise.nn.Sequential if modules is warpwise.nn else torch.nn.Sequential)(layers)


def _block(modules: Any, before: int, after: int) -> torch.nn.Module:
    """Ours is one operation; PyTorch's has modules of the same names."""
    if modules is warpwise.nn:
        return warpwise.nn.ConvBlock(before, after)
    conv, norm = modules.Conv2d(before, after, 3, padding=1), modules.BatchNorm2d(after)
    return torch.nn.Sequential(OrderedDict(conv=conv, norm=norm, relu=torch.nn.ReLU(), pool=modules.MaxPool2d(2)))


def _with_relu(number: str, modules: Any, before: int, after: int) -> OrderedDict[str, torch.nn.Module]:
    """A linear layer and a relu; ours is one operation."""
    if modules is warpwise.nn:
        return OrderedDict({f"linear{number}": warpwise.nn.Linear(before, after, activation="relu")})
    return OrderedDict({f"linear{number}": modules.Linear(before, after), f"relu{number}": torch.nn.ReLU()})


def mlp(modules: Any, channels: int, size: tuple[int, int], classes: int, features: Sequence[int]) -> torch.nn.Module:
    """One hidden layer of 256 units with relu."""
    layers: OrderedDict[str, torch.nn.Module] = OrderedDict(flatten=torch.nn.Flatten())
    layers |= _with_relu("1", modules, channels * size[0] * size[1], MLP_HIDDEN)
    layers["linear2"] = modules.Linear(MLP_HIDDEN, classes)
    return torch.nn.Sequential(layers)


MODELS: dict[str, Callable[..., torch.nn.Module]] = {"cnn": cnn, "mlp": mlp}
SMALLEST = {"cnn": 4, "mlp": 1}  # pixels of a side: the cnn halves it twice


def build(
    name: str,
    modules: ModuleType | Any,
    channels: int,
    size: tuple[int, int],
    classes: int,
    seed: int,
    features: Sequence[int] = (16, 32),
) -> torch.nn.Module:
    """The network ``name`` with the layers of ``modules``, ``warpwise.nn`` or ``torch.nn``.

    ``features`` are the channels of the blocks of "cnn".

    Parameters are drawn on the CPU from ``seed``, so that all engines and devices start from the same ones. Raises
    ``ValueError`` for images that are too small.
    """
    if min(size) < SMALLEST[name]:
        raise ValueError(f"{name}: expected images of at least {SMALLEST[name]} x {SMALLEST[name]} pixels, got {size}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name](modules, channels, size, classes, features)
