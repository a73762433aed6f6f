"""Repeated work on a GPU as one CUDA graph, which the host launches in a few microseconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from warpwise.cuda.gpu import semaphores
from warpwise.cuda.gpu.capture import no_collection

_kept = threading.local()  # a graph of each device, whose memory the others use; those of a thread do not overlap


class Replay:
    """``function`` of tensors of fixed shapes, which launches without a synchronisation with the host.

    The first call, which builds plans and compiles kernels, is an ordinary one. The second captures a graph, which
    later calls replay: their results are memory that the next call overwrites. ``close`` frees the graph.
    """

    def __init__(self, function: Callable[..., Sequence[torch.Tensor]]) -> None:
        self.function, self.called = function, False
        self.graph: torch.cuda.CUDAGraph | None = None
        self.given: list[torch.Tensor] = []
        self.found: Sequence[torch.Tensor] = ()
        self._zeros: torch.Tensor | None = None

    def __call__(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        if not self.called:
            self.called = True
            return self.function(*tensors)
        if self.graph is None:
            self.given = [tensor.clone() for tensor in tensors]
            self.graph = self._capture()
        else:
            for kept, tensor in zip(self.given, tensors, strict=True):
                kept.copy_(tensor)
        self.graph.replay()
        return self.found

    def _capture(self) -> torch.cuda.CUDAGraph:
        device = self.given[0].device
        graph, stream, here = torch.cuda.CUDAGraph(), torch.cuda.Stream(device), torch.cuda.current_stream(device)
        with semaphores.of_graph(device) as self._zeros, no_collection():
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                graph.capture_begin(_pool(device), "thread_local")
                try:
                    self.found = self.function(*self.given)
                finally:
                    graph.capture_end()
            here.wait_stream(stream)
        return graph

    def close(self) -> None:
        """Free the graph and its tensors."""
        if self.graph is not None:
            self.graph.reset()
        self.graph, self.given, self.found, self._zeros = None, [], (), None


def _pool(device: torch.device) -> Any:
    """The memory pool of the graphs of this thread. A small graph keeps it, so that later graphs reuse its memory."""
    graphs = _kept.__dict__.setdefault("graphs", {})
    if device not in graphs:
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        torch.zeros(1, dtype=torch.float32, device=device)
        graph.capture_end()
        graphs[device] = graph
    return graphs[device].pool()
