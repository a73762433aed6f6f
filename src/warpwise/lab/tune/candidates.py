"""The candidates at a point: each rung that supports the arguments, with each of its configurations."""

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
from warpwise.operation.tables import Tables
from warpwise.tuned import TunedPoint

COMPILERS = 8  # threads; NVRTC releases the GIL while it compiles
PRUNING_FACTOR = 4.0  # a rung slower than the winner by this factor is skipped at sizes that are not smaller


def arranged(op: Op, tables: Tables, layout: str) -> Op:
    """``op`` with inputs in the layout that ``tables.arrangements`` calls ``layout``."""
    spec, arrangement = op.spec, tables.arrangements[layout]

    def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> Mapping[str, Any]:
        return spec.named(arrangement(*spec.arguments(case, dtype, device, seed)))

    return replace(op, spec=replace(spec, inputs=inputs))


def candidates(op: Op, rungs: Sequence[Rung], args: Sequence[Any], device: torch.device) -> list[Rung]:
    """The rungs that may be chosen and run on the device without emulation, once for each configuration."""
    found: list[Rung] = []
    for rung in rungs:
        native = device.type == "cuda" or rung.language in ("c", "python")
        if native and not rung.by_name and op.refusal(rung, *args) is None:
            found += [rung.at(config) for config in rung.configs(*args)] or [rung]
    return found


def fingerprint(found: Sequence[Rung]) -> str:
    """A key of the candidates, their sources with all included headers, and PyTorch's version.

    A point of a table is measured again if its fingerprint differs.
    """
    sources = dict.fromkeys(rung.source for rung in found)
    return cache.key(torch.__version__, *(rung.name for rung in found), *map(source_digest, sources))


class Pruner:
    """Removes rungs that were far slower than the winner at every smaller size, such as naive kernels.

    A rung that was close to the winner at one size stays, because a rung that is slow with few tiles may be the fastest
    with many.
    """

    def __init__(self) -> None:
        self._measured: list[
            tuple[str, str, Mapping[str, int], bool]
        ] = []  # rung, dtype, sizes, whether it was far slower

    def note(self, point: TunedPoint, times: Mapping[str, float]) -> None:
        """Record the seconds of each candidate at ``point``, for a rung those of its fastest configuration."""
        best: dict[str, float] = {}
        for name, seconds in times.items():
            rung = name.partition("@")[0]
            best[rung] = min(best.get(rung, seconds), seconds)
        limit = PRUNING_FACTOR * min(best.values(), default=0.0)
        self._measured += [(rung, point.dtype, point.sizes, seconds > limit) for rung, seconds in best.items()]

    def remaining(self, found: Sequence[Rung], dtype: str, sizes: Mapping[str, int]) -> list[Rung]:
        """``found`` without the rungs that were far slower at every point whose sizes are all at most ``sizes``."""
        behind: dict[str, bool] = {}
        for rung, kind, tried, far in self._measured:
            if kind == dtype and all(sizes[axis] >= size for axis, size in tried.items()):
                behind[rung] = far and behind.get(rung, True)
        return [rung for rung in found if not behind.get(rung.name.partition("@")[0], False)]


def compile_all(op: Op, found: Sequence[Rung], args: tuple[Any, ...], device: torch.device) -> None:
    """Compile the CUDA kernels that ``found`` launch, several at a time. A kernel that fails raises at its launch."""
    if device.type != "cuda":
        return

    def compiled(rung: Rung) -> None:
        def interceptor(launcher: Any, given: tuple[Any, ...], options: Mapping[str, Any]) -> None:
            if type(launcher) is Launcher:
                launcher.kernel.compile()

        with current(device), intercepting(interceptor):
            try:
                op.launch(rung, op.allocate(*args), *args)
            except Exception:  # noqa: BLE001 - raised again by the launch
                return

    with ThreadPoolExecutor(COMPILERS) as pool:
        list(pool.map(compiled, [rung for rung in found if rung.language == "cuda"]))
