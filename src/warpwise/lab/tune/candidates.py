"""Who takes part at a point: every rung that takes the arguments, at each of its configurations, compiled beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch

from warpwise import cache
from warpwise.cuda.launch.intercept import intercepting
from warpwise.cuda.launch.launcher import Launcher
from warpwise.cuda.source.includes import source_digest
from warpwise.lab.timing.environment import current
from warpwise.operation import Case, Op, Rung
from warpwise.operation.tables import Tables, TunedPoint

COMPILERS = 8  # threads; NVRTC leaves Python's lock alone while it compiles
HOPELESS = 4.0  # times the winner's time: not tried again at sizes that are no smaller in any dimension


def arranged(op: Op, tables: Tables, layout: str) -> Op:
    """``op`` with inputs in the table's arrangement called ``layout``."""
    spec, arrangement = op.spec, tables.arrangements[layout]

    def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> Mapping[str, Any]:
        return spec.named(arrangement(*spec.arguments(case, dtype, device, seed)))

    return replace(op, spec=replace(spec, inputs=inputs))


def candidates(op: Op, rungs: Sequence[Rung], args: Sequence[Any], device: torch.device) -> list[Rung]:
    """The rungs that may be chosen and take ``args`` on the device itself, held to each of their configurations."""
    found: list[Rung] = []
    for rung in rungs:
        native = device.type == "cuda" or rung.language in ("c", "python")
        if native and not rung.by_name and op.refusal(rung, *args) is None:
            found += [rung.at(config) for config in rung.configs(*args)] or [rung]
    return found


def fingerprint(found: Sequence[Rung]) -> str:
    """A key of the candidates, their sources with all they include, and PyTorch's version.

    A point of a table is measured again if its fingerprint differs.
    """
    sources = dict.fromkeys(rung.source for rung in found)
    return cache.key(torch.__version__, *(rung.name for rung in found), *map(source_digest, sources))


class Pruner:
    """Drops rungs that were far slower than the winner at every smaller size: a naive kernel is timed at small sizes only.

    A rung that was close to the winner once stays: one that is slow with few tiles may win where there are many.
    """

    def __init__(self) -> None:
        self._shown: list[tuple[str, str, Mapping[str, int], bool]] = []  # rung, dtype, sizes, was it far behind

    def note(self, point: TunedPoint, times: Mapping[str, float]) -> None:
        """Record each candidate's seconds at ``point``; the best configuration of a rung counts."""
        best: dict[str, float] = {}
        for name, seconds in times.items():
            rung = name.partition("@")[0]
            best[rung] = min(best.get(rung, seconds), seconds)
        limit = HOPELESS * min(best.values(), default=0.0)
        self._shown += [(rung, point.dtype, point.sizes, seconds > limit) for rung, seconds in best.items()]

    def remaining(self, found: Sequence[Rung], dtype: str, sizes: Mapping[str, int]) -> list[Rung]:
        """``found`` without the rungs that were far slower at every point whose sizes are all at most ``sizes``."""
        behind: dict[str, bool] = {}
        for rung, kind, tried, far in self._shown:
            if kind == dtype and all(sizes[axis] >= size for axis, size in tried.items()):
                behind[rung] = far and behind.get(rung, True)
        return [rung for rung in found if not behind.get(rung.name.partition("@")[0], False)]


def compile_all(op: Op, found: Sequence[Rung], args: tuple[Any, ...], device: torch.device) -> None:
    """Compile the CUDA kernels that ``found`` would launch, several at a time; what fails, fails again when it is launched."""
    if device.type != "cuda":
        return

    def compiled(rung: Rung) -> None:
        def interceptor(launcher: Any, given: tuple[Any, ...], options: Mapping[str, Any]) -> None:
            if type(launcher) is Launcher:
                launcher.kernel.compile()

        with current(device), intercepting(interceptor):
            try:
                op.launch(rung, op.allocate(*args), *args)
            except Exception:  # noqa: BLE001 - the launch to come tells it
                return

    with ThreadPoolExecutor(COMPILERS) as pool:
        list(pool.map(compiled, [rung for rung in found if rung.language == "cuda"]))
