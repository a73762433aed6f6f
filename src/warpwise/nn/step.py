"""A training step as one function. On a GPU it is one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
WARM_UP = 3  # steps before the capture, which build plans and compile kernels


class CompiledStep:
    """``step(input, target)`` trains on a batch and returns the loss, a scalar tensor, before the step.

    On CUDA tensors the first call of a shape runs ``WARM_UP`` steps, restores the parameters, buffers and the
    optimizer's state, and captures a CUDA graph. Each call copies the batch to the graph's memory (once if ``input`` is
    ``target``) and replays the graph. The returned loss is memory of the graph, which the next call overwrites. A graph
    is captured again if a setting of the optimizer has changed. On a CPU each call runs the step without a graph.
    """

    def __init__(
        self, model: torch.nn.Module, loss: Loss, optimizer: torch.optim.Optimizer, graph: bool = True
    ) -> None:
        self.model, self.loss, self.optimizer, self.graph = model, loss, optimizer, graph
        self._captured: dict[Any, tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor, torch.Tensor]] = {}
        self._ones: dict[Any, torch.Tensor] = {}  # gradients of the loss

    def __call__(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if not (self.graph and input.is_cuda):
            return self.eager(input, target)
        shapes = (input.shape, input.dtype, target.shape, target.dtype, target is input)
        key = (*shapes, self.model.training, *self._settings())
        if key not in self._captured:
            self._captured[key] = self._capture(input, target)
        graph, kept_input, kept_target, value = self._captured[key]
        kept_input.copy_(input)
        if kept_target is not kept_input:
            kept_target.copy_(target)
        graph.replay()
        return value

    def eager(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The step without a graph."""
        self.optimizer.zero_grad(set_to_none=True)
        value = self.loss(self.model(input), target)
        value.backward(self._one(value))
        self.optimizer.step()
        return value.detach()

    def _one(self, value: torch.Tensor) -> torch.Tensor | None:
        """The gradient of a loss, 1, kept: autograd would allocate and fill it at each step."""
        if value.numel() != 1:
            return None
        key = value.shape, value.dtype, value.device
        if key not in self._ones:
            self._ones[key] = torch.ones_like(value, requires_grad=False)
        return self._ones[key]

    def _settings(self) -> tuple[Any, ...]:
        """The scalars of the optimizer's groups, which are constants in a captured graph."""
        return tuple(
            (name, value)
            for group in self.optimizer.param_groups
            for name, value in group.items()
            if isinstance(value, (int, float, bool))
        )

    def _capture(
        self, input: torch.Tensor, target: torch.Tensor
    ) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor, torch.Tensor]:
        kept_input = input.clone()
        kept_target = kept_input if target is input else target.clone()
        before = [tensor.detach().clone() for tensor in self._state()]  # detached, so that no graph of autograd is kept
        known = len(before)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self.eager(kept_input, kept_target)
            with torch.no_grad():
                for number, tensor in enumerate(self._state()):
                    if number < known:
                        tensor.copy_(before[number])
                    else:  # state of the optimizer that its first step created
                        tensor.zero_()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            value = self.eager(kept_input, kept_target)
        return graph, kept_input, kept_target, value

    def _state(self) -> list[torch.Tensor]:
        """Parameters, buffers, then the tensors of the optimizer's state."""
        states = [value for state in self.optimizer.state.values() for value in state.values()]
        return [
            *self.model.parameters(),
            *self.model.buffers(),
            *(value for value in states if isinstance(value, torch.Tensor)),
        ]


def compile_step(
    model: torch.nn.Module, loss: Loss, optimizer: torch.optim.Optimizer, *, graph: bool = True
) -> CompiledStep:
    """Return ``step(input, target)``, which trains ``model`` on a batch: forward, loss, backward, optimizer's step.

    On a GPU the whole step is captured in one CUDA graph for each shape of batch, unless ``graph`` is false; on a CPU
    it is an ordinary call. With a graph, the model must not synchronise with the host, and dropout uses the same mask
    in every step.
    """
    return CompiledStep(model, loss, optimizer, graph)
