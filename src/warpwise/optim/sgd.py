"""Stochastic gradient descent: all parameters of a group in one launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from warpwise.arguments.checks import real
from warpwise.ops.sgd.op import sgd


class SGD(torch.optim.Optimizer):
    """``torch.optim.SGD`` with its first six arguments, in its order; state dicts are exchangeable.

    On a GPU, a step of a group of up to 12 float32 tensors is one launch. A group may have several dtypes. On a CPU,
    PyTorch's multi-tensor operations compute it. Parameters without a gradient are skipped, as in PyTorch. Raises
    ``TypeError`` for a setting that is not a number, and ``ValueError`` for a negative one, nesterov without momentum,
    or a dampening other than 0, which is not supported.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            if not (value if name == "lr" and isinstance(value, torch.Tensor) else real("SGD", name, value)) >= 0:
                raise ValueError(f"SGD: expected {name} of at least 0, got {value}")
        if dampening:
            raise ValueError(f"SGD: expected a dampening of 0, others are not supported, got {dampening}")
        if nesterov and not momentum:
            raise ValueError("SGD: expected a momentum above 0 with nesterov, got 0")
        given = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(params, given)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Perform one step with the current gradients. Returns the loss of ``closure``, if given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if not params:
                continue
            if group.get("dampening") or group.get("maximize"):  # loaded from a state dict of torch.optim.SGD
                raise ValueError("SGD: expected no dampening and no maximize, which are not supported")
            settings = float(group["lr"]), group["momentum"], group["weight_decay"], group["nesterov"]
            for part in _alike(params):
                buffers = [self.buffer(param) for param in part] if group["momentum"] else None
                grads = [param.grad for param in part if param.grad is not None]
                sgd([param.detach() for param in part], grads, buffers, *settings)
        return loss

    def buffer(self, param: torch.Tensor) -> torch.Tensor:
        """The momentum buffer of ``param``, zeros at first: the first step then equals PyTorch's."""
        state = self.state[param]
        if state.get("momentum_buffer") is None:
            state["momentum_buffer"] = torch.zeros_like(param, memory_format=torch.preserve_format)
        buffer: torch.Tensor = state["momentum_buffer"]
        return buffer


def _alike(params: Sequence[torch.Tensor]) -> Iterable[list[torch.Tensor]]:
    """``params`` divided into lists of one dtype and one device, as ``sgd`` takes them."""
    parts: dict[tuple[torch.dtype, int], list[torch.Tensor]] = {}
    for param in params:
        parts.setdefault((param.dtype, param.get_device()), []).append(param)
    return parts.values()
