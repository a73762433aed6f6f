"""The engines that compute a step: our operations, or PyTorch in one of three ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import warpwise.nn
import warpwise.optim
from warpwise.apps.train import emulated
from warpwise.apps.train.settings import Settings

Batch = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
Step = Callable[[torch.Tensor], torch.Tensor]


class Engine(NamedTuple):
    """``modules`` makes networks.

    ``make_step(model, batch)`` returns the optimizer and ``step(indices)``, which trains on the images and labels
    ``batch(indices)`` and returns the loss; the batch is gathered within the step, and so within its CUDA graph.
    """

    modules: Any
    make_step: Callable[[torch.nn.Module, Batch], tuple[torch.optim.Optimizer, Step]]


def check(settings: Settings, device: torch.device) -> None:
    """Raise ``ValueError`` for a dtype or an engine that does not run there."""
    if settings.dtype == "tf32" and device.type != "cuda":
        raise ValueError("dtype tf32: expected a GPU; a CPU computes in float32")
    if settings.engine == "emulated" and (device.type != "cpu" or settings.dtype != "fp32"):
        raise ValueError(f"engine emulated: expected a CPU and fp32, got {device.type} and {settings.dtype}")
    if settings.engine == "graph" and device.type != "cuda":
        raise ValueError("engine graph: expected a GPU, which runs CUDA graphs; on a CPU choose torch or ours")


def set_precision(settings: Settings, model: torch.nn.Module) -> None:
    """Let float32 GEMMs and convolutions on a GPU use TF32 if and only if the dtype is tf32.

    PyTorch's global settings, and ``tf32`` of our convolutions. TF32 is allowed, not required: the fused kernels of the
    blocks and those of our linear layers are as accurate as float32, and a convolution by PyTorch's kernels rounds.
    """
    for module in model.modules():
        if isinstance(module, warpwise.nn.Conv2d):
            module.tf32 = settings.dtype == "tf32"
    precision = "tf32" if settings.dtype == "tf32" else "ieee"
    backends: Any = torch.backends
    for backend in (backends.cuda.matmul, backends.cudnn.conv):
        backend.fp32_precision = precision


def engine(settings: Settings, captured: bool = True) -> Engine:
    """The engine of ``settings``. On a GPU its step is one CUDA graph, but not for "torch" or if not ``captured``."""
    ours = settings.engine in ("ours", "emulated")
    modules = warpwise.nn if ours else torch.nn

    def make_step(model: torch.nn.Module, batch: Batch) -> tuple[torch.optim.Optimizer, Step]:
        options: dict[str, Any] = {"lr": settings.lr, "momentum": settings.momentum}
        optimizer: torch.optim.Optimizer
        optimizer = (warpwise.optim.SGD if ours else torch.optim.SGD)(model.parameters(), **options)
        if isinstance(optimizer, warpwise.optim.SGD) and settings.engine == "emulated":
            return optimizer, lambda indices: emulated.step(model, optimizer, *batch(indices))
        network: Any = torch.compile(model) if settings.engine == "compile" else model
        if settings.dtype == "bf16":
            network = _Autocast(model, network)
        graph = captured and settings.engine != "torch"
        step = warpwise.nn.compile_step(network, modules.CrossEntropyLoss(), optimizer, batch=batch, graph=graph)
        return optimizer, step

    return Engine(modules, make_step)


class _Autocast(torch.nn.Module):
    """``network``, which computes ``model``, under autocast to bfloat16; the output is float32."""

    def __init__(self, model: torch.nn.Module, network: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.model, self.network = model, network

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        with torch.autocast(input.device.type, dtype=torch.bfloat16):
            return self.network(input).float()
