"""A training step as one function. On a GPU one step, or several, are one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from warpwise.cuda.gpu import semaphores
from warpwise.cuda.gpu.branch import aside, branch, join
from warpwise.cuda.gpu.capture import no_collection
from warpwise.nn import peers
from warpwise.nn.convolution import prepare
from warpwise.nn.loss import loss_of
from warpwise.operation import by_gpu_time

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Batch = Callable[..., tuple[torch.Tensor, torch.Tensor]]
WARM_UP = 3  # steps before the capture, which build plans and compile kernels
STEPS_PER_GRAPH = 10  # of ``many``


class _Captured(NamedTuple):
    """A graph, its arguments, its result, and the semaphores and inboxes of its kernels."""

    graph: torch.cuda.CUDAGraph
    inputs: list[torch.Tensor]
    value: torch.Tensor
    semaphores: torch.Tensor
    exchange: peers.Exchange | None


class CompiledStep:
    """``step(input, target)`` trains on a batch and returns its loss before the update, a scalar tensor.

    With ``batch`` the arguments of a call are those of ``batch(*inputs)``, which returns ``(input, target)`` and is a
    part of the step: for example, the indices of a batch of a data set on the GPU.

    On CUDA tensors the first call of a shape runs ``WARM_UP`` steps, restores the parameters, buffers and the
    optimizer's state, and captures a CUDA graph. Each call copies the arguments to the graph's memory (a tensor that is
    passed twice is copied once) and replays the graph. The returned loss is memory of the graph, which the next call
    overwrites. A graph is captured again if a setting of the optimizer has changed. On a CPU each call runs the step
    without a graph.

    On a GPU only the times on the GPU, not those of the host, select the kernels of a step. This holds with and without
    a graph, so both compute the same bits.

    In a graph, kernels on which no other kernel of the step depends run concurrently, on two side streams: the running
    statistics, the gradients of parameters that only the optimizer reads, and the next batch of ``many``.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        batch: Batch | None = None,
        graph: bool = True,
    ) -> None:
        self.model, self.loss, self.optimizer, self.batch, self.graph = model, loss, optimizer, batch, graph
        self._captured: dict[Any, _Captured] = {}
        self._ones: dict[Any, torch.Tensor] = {}  # gradients of the loss

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Train on a batch and return its loss before the update. Raises ``TypeError`` for a wrong number of inputs."""
        self._check(inputs)
        return self._replayed(inputs, 0) if self.captures(inputs) else self.eager(*inputs)

    def many(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Train for one step per element of the first dimension of ``inputs``; return the losses, (steps,).

        The steps equal those of single calls. On a GPU ``STEPS_PER_GRAPH`` steps are one graph, so that the copy of the
        arguments and the gap between two graphs, 4 µs on an H200, occur once for all of them. Raises ``ValueError`` if
        the first dimensions differ, ``TypeError`` for a wrong number of inputs.
        """
        self._check(inputs)
        count = len(inputs[0])
        if wrong := [tuple(tensor.shape) for tensor in inputs if len(tensor) != count]:
            raise ValueError(f"many: expected the same number of steps in all inputs, {count}, got shape {wrong[0]}")
        if not (count and self.captures(inputs)):
            losses = [self(*(tensor[at] for tensor in inputs)) for at in range(count)]
            return torch.stack(losses) if losses else torch.zeros(0, device=inputs[0].device)
        losses, at = [], 0
        while at < count:
            several = STEPS_PER_GRAPH if count - at >= STEPS_PER_GRAPH else 0
            given = [tensor[at : at + several] if several else tensor[at] for tensor in inputs]
            losses.append(self._replayed(given, several).reshape(max(1, several)).clone())
            at += max(1, several)
        return torch.cat(losses)

    def _check(self, inputs: Sequence[torch.Tensor]) -> None:
        if self.batch is None and len(inputs) != 2:
            raise TypeError(f"compile_step: expected a step's input and target, got {len(inputs)} arguments")
        if not inputs:
            raise TypeError("compile_step: expected the arguments of batch, at least one tensor, got none")

    def release(self) -> None:
        """Free the captured graphs; the next call captures again.

        A process group of NCCL cannot be destroyed while a graph contains its collectives: ``destroy_process_group``
        would wait forever.
        """
        if self._captured:
            torch.cuda.synchronize()
        for captured in self._captured.values():
            captured.graph.reset()
        self._captured.clear()

    def captures(self, inputs: Sequence[torch.Tensor]) -> bool:
        """True if a call with these tensors replays a graph."""
        return self.graph and inputs[0].is_cuda

    def eager(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The step without a graph."""
        return self._steps([inputs])[0]

    def _steps(self, given: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """Run a step for each of ``given``; return the losses."""
        with by_gpu_time() if given[0][0].is_cuda else nullcontext():
            return self._chosen_steps(given)

    def _chosen_steps(self, given: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """The steps, with the kernels that are currently chosen. The next batch is computed concurrently with the loss.

        With few images, most of the GPU is idle during the loss.
        """
        batches: list[tuple[torch.Tensor, torch.Tensor]] = []
        losses = []

        def next_batch() -> None:
            if len(batches) < len(given):
                inputs = given[len(batches)]
                input, target = inputs if self.batch is None else self.batch(*inputs)
                prepare(self.model, input)
                batches.append((input, target))

        next_batch()
        for at in range(len(given)):
            self.optimizer.zero_grad(set_to_none=True)
            value = loss_of(self.model, self.loss, *batches[at], lambda: aside(next_batch, None), of_one=True)
            value.backward(self._one(value))
            join({value.data_ptr(), *(param.grad.data_ptr() for param in self._params() if param.grad is not None)})
            self.optimizer.step()
            losses.append(value.detach())
        return losses

    def _replayed(self, inputs: Sequence[torch.Tensor], several: int) -> torch.Tensor:
        """The loss of a step, or the losses of ``several`` steps, by a graph."""
        places = [next(at for at, other in enumerate(inputs) if other is tensor) for tensor in inputs]
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in inputs)
        key = (several, *places, shapes, self.model.training, *self._settings())
        if key not in self._captured:
            self._captured[key] = self._capture(inputs, places, several)
        captured = self._captured[key]
        for at, place in enumerate(places):
            if at == place:
                captured.inputs[at].copy_(inputs[at])
        captured.graph.replay()
        return captured.value

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

    def _capture(self, inputs: Sequence[torch.Tensor], places: Sequence[int], several: int) -> _Captured:
        copies = {place: inputs[place].clone() for place in set(places)}
        kept = [copies[place] for place in places]
        steps = [[tensor[at] for tensor in kept] for at in range(several)] if several else [kept]
        before = [tensor.detach().clone() for tensor in self._state()]  # detached, so that no graph of autograd is kept
        known = len(before)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for number in range(max(WARM_UP, several)):
                self.eager(*steps[number % len(steps)])
            with torch.no_grad():
                for number, tensor in enumerate(self._state()):
                    if number < known:
                        tensor.copy_(before[number])
                    else:  # state of the optimizer that its first step created
                        tensor.zero_()
        torch.cuda.current_stream().wait_stream(stream)
        for gradients in (self._only_optimizer_reads(), False):
            graph = torch.cuda.CUDAGraph()
            self.optimizer.zero_grad(set_to_none=True)
            # In the default mode, "global", a call of any other thread that a capture forbids (cudaMalloc,
            # cudaHostAlloc, cudaEventQuery) invalidates the capture, such as one by NCCL or by a data loader.
            capture = torch.cuda.graph(graph, capture_error_mode="thread_local")
            with (
                semaphores.of_graph(kept[0].device) as zeros,
                peers.of_graph(self.model, kept[0].device) as exchange,
                capture,
                no_collection(),
                branch(gradients) as beside,
            ):
                values = self._steps(steps)
                value = torch.stack(values) if several else values[0]
            if not beside.conflict:
                break
        return _Captured(graph, kept, value, zeros, exchange)

    def _params(self) -> Iterator[torch.Tensor]:
        return (param for group in self.optimizer.param_groups for param in group["params"])

    def _only_optimizer_reads(self) -> bool:
        """True if neither hooks nor other processes read the gradients of parameters during a backward."""
        hooks = ((param._backward_hooks, param._post_accumulate_grad_hooks) for param in self._params())
        return not _in_group() and not any(map(any, hooks))

    def _state(self) -> list[torch.Tensor]:
        """Parameters, buffers, then the tensors of the optimizer's state."""
        states = [value for state in self.optimizer.state.values() for value in state.values()]
        return [
            *self.model.parameters(),
            *self.model.buffers(),
            *(value for value in states if isinstance(value, torch.Tensor)),
        ]


def _in_group() -> bool:
    """True in a process group of torch.distributed."""
    return dist.is_available() and dist.is_initialized()


def compile_step(
    model: torch.nn.Module,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    *,
    batch: Batch | None = None,
    graph: bool = True,
) -> CompiledStep:
    """Return ``step(input, target)``, which trains ``model`` on a batch: forward, loss, backward, optimizer's step.

    On a GPU the whole step is captured in one CUDA graph for each shape of batch, unless ``graph`` is false; on a CPU
    it is an ordinary call. With a graph, the model must not synchronise with the host, and dropout uses the same mask
    in every step. ``step.many(inputs, targets)`` takes a step for each of several stacked batches; a graph contains
    several of these steps. With ``batch``, ``step(*inputs)`` trains on ``batch(*inputs)``, a pair of input and target,
    which must not depend on the parameters: ``many`` computes the next batch before the update.

    If ``model`` is a ``Sequential``, of torch.nn or of warpwise.nn, that ends in a ``warpwise.nn.Linear`` without
    activation, ``loss`` is a ``warpwise.nn.CrossEntropyLoss`` with the mean, and neither has hooks,
    ``ops.linear_cross_entropy`` computes the last layer and the loss; on a GPU only for layers that its kernels take.
    """
    return CompiledStep(model, loss, optimizer, batch, graph)
