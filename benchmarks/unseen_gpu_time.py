"""The time of a function on the GPU, without that of the host, for unseen_shapes.py.

A CUDA graph holds many calls, which rotate through 16 copies of the arguments, or as many as cover twice the L2 cache:
arguments of up to an eighth of L2 stay in it, as they do where the kernel before has just written them. The graphs of
the functions are replayed in turn in random order between two events. A spinning kernel hides the launch of the graph,
and the gaps between kernels of a few microseconds are those of the device. Functions that synchronise or copy from the
host cannot be captured; their time is the sum of the durations of their kernels and copies, by torch.profiler.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from warpwise.lab.timing.gpu import Gpu
from warpwise.lab.timing.rotation import rotated

GRAPH_S = 1e-3  # of calls in one graph
FEWEST_CALLS, MOST_CALLS = 4, 200  # in one graph
LEAST_ROUNDS, MOST_ROUNDS = 7, 41
SPIN = 600_000  # cycles, about 0.3 ms
# torch.bincount and the loop over groups in float32 synchronise; blurs copy weights.
NOT_CAPTURED = "histogram", "grouped_matmul", "gaussian_blur", "gaussian_blur_backward"
PROFILED_ROUNDS, PROFILED_CALLS = 2, 8

Call = Callable[[], Any]


class GpuTime:
    """Measures on one device, in ``least_rounds`` or more."""

    def __init__(self, device: torch.device, least_rounds: int = LEAST_ROUNDS) -> None:
        self.gpu, self.least_rounds = Gpu(device), least_rounds

    def samples(
        self, name: str, functions: Mapping[str, Callable[..., Any]], args: Sequence[Any], budget: float
    ) -> dict[str, list[float]]:
        """Seconds of a call of each function of operation ``name`` on the GPU; ``budget`` is in seconds of all."""
        sets = rotated(tuple(args), self.gpu.l2_bytes)
        calls = {who: rotating(function, sets) for who, function in functions.items()}
        return self.profiled(calls) if name in NOT_CAPTURED else self.replayed(calls, len(sets), budget)

    def replayed(self, calls: Mapping[str, Call], sets: int, budget: float) -> dict[str, list[float]]:
        """One sample a round and function: the mean time of the calls in its graph."""
        graphs = {}
        for who, call in calls.items():
            for _ in range(3):
                call()
            self.gpu.synchronize()
            start = time.perf_counter()
            call()
            self.gpu.synchronize()
            calls_in_time = math.ceil(GRAPH_S / (time.perf_counter() - start))
            count = max(sets, min(MOST_CALLS, max(FEWEST_CALLS, calls_in_time)))
            graphs[who] = self.gpu.graph(call, count), count
            self._replay(*graphs[who])
        rng, start, samples = random.Random(0), time.perf_counter(), {who: list[float]() for who in calls}
        for number in range(MOST_ROUNDS):
            if number >= self.least_rounds and time.perf_counter() - start > budget:
                break
            for who in rng.sample(list(graphs), len(graphs)):
                samples[who].append(self._replay(*graphs[who]))
        return samples

    def _replay(self, graph: Any, count: int) -> float:
        start, end = self.gpu.event(), self.gpu.event()
        self.gpu.spin(SPIN)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3 / count

    def profiled(self, calls: Mapping[str, Call]) -> dict[str, list[float]]:
        """One sample a round and function: the mean over its calls of the durations of their kernels and copies."""
        for call in calls.values():
            for _ in range(3):
                call()
        samples = {who: list[float]() for who in calls}
        for _ in range(PROFILED_ROUNDS):
            for who, call in calls.items():
                self.gpu.synchronize()
                with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                    for _ in range(PROFILED_CALLS):
                        call()
                    self.gpu.synchronize()
                samples[who].append(gpu_seconds(profile.events()) / PROFILED_CALLS)
        return samples


def gpu_seconds(events: Sequence[Any]) -> float:
    """The sum of the durations of the kernels and copies that the profiler recorded; annotations enclose those."""
    on_gpu = [event for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
    work = [event for event in on_gpu if not getattr(event, "is_user_annotation", False)]
    return sum(event.time_range.elapsed_us() for event in work) * 1e-6


def rotating(function: Callable[..., Any], sets: Sequence[tuple[Any, ...]]) -> Call:
    """A call of ``function`` with the next of ``sets`` of arguments."""
    turns = itertools.cycle(sets)
    return lambda: function(*next(turns))
