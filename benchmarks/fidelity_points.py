"""At which sizes the counters of every rung are recorded.

Exact points are small: a CPU executes every block of them in well under a second, and the emulated counters must equal
ncu's. Each operation has a size of whole tiles and a ragged one. Large points are an operation's own sizes; they show
which unit limits a rung and how long it takes.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from warpwise import operation, ops  # noqa: F401 - importing ops registers them
from warpwise.operation import Case, Op, Rung

Kind = Literal["exact", "large"]
SEED = 0


def _elementwise(ragged: tuple[int, int]) -> tuple[Case, ...]:
    return Case("exact", {"rows": 256, "cols": 512}), Case("exact_ragged", {"rows": ragged[0], "cols": ragged[1]})


_ROWS = Case("exact", {"rows": 96, "columns": 1024}), Case("exact_ragged", {"rows": 37, "columns": 4099})
_IMAGE = {"n": 1, "channels": 1, "height": 300, "width": 512, "kernel": 9}
_BLUR = (
    Case("exact", _IMAGE),
    Case("exact_ragged", {**_IMAGE, "channels": 2, "height": 131, "width": 203, "kernel": 5, "kernel_y": 9}),
)

EXACT: dict[str, tuple[Case, ...]] = {
    "gaussian_blur": _BLUR,
    "gaussian_blur_backward": _BLUR,
    "histogram": (
        Case("exact", {"n": 2**17, "bins": 256}),
        Case("exact_ragged", {"n": 100_003, "bins": 250}),
        Case("one_value_exact", {"n": 2**16, "bins": 256}, {"pattern": "one_value"}),
    ),
    "matmul": (
        Case("exact", {"m": 256, "n": 256, "k": 256}),
        Case("exact_ragged", {"m": 200, "n": 130, "k": 72}),
    ),
    "matrix_add": _elementwise((253, 389)),
    "polynomial": _elementwise((301, 333)),
    "polynomial_backward": _elementwise((301, 333)),
    "reduce_sum": (
        Case("exact", {"n": 2**17}),
        Case("exact_ragged", {"rows": 37, "columns": 2777}),
        Case("exact_short_rows", {"rows": 1024, "columns": 100}),
    ),
    "rgb_to_grayscale": (
        Case("exact", {"n": 1, "height": 300, "width": 512}),
        Case("exact_ragged", {"n": 2, "height": 131, "width": 203}),
        Case("exact_interleaved", {"n": 1, "height": 300, "width": 512}, layout="channels_last"),
        Case("exact_ragged_interleaved", {"n": 2, "height": 131, "width": 203}, layout="channels_last"),
    ),
    "softmax": _ROWS,
    "softmax_backward": _ROWS,
    "square": _elementwise((301, 333)),
    "transpose": _elementwise((237, 395)),
    "vector_add": (Case("exact", {"n": 2**17}), Case("exact_ragged", {"n": 100_003})),
}

TMA = "uses TMA, which is not emulated"
NOT_EXECUTED = {
    f"{op.name} {rung.name}": TMA
    for op in operation.all_ops()
    for rung in op.rungs
    if rung.language == "cuda" and rung.devices == ("cuda",)
}
"""CUDA rungs that ``warpwise.machine`` cannot execute, as "OP RUNG", and the reason."""

# Further sizes, for rungs that support neither the operation's first size nor its ragged one.
MORE_LARGE = {"matmul": ("few_rows",), "rgb_to_grayscale": ("batch_interleaved",)}


@dataclass(frozen=True)
class Problem:
    """One operation at one case and dtype, which every rung that takes it is measured at; of ``only``, if given, those alone."""

    op: Op
    dtype: torch.dtype
    case: Case
    kind: Kind
    only: tuple[str, ...] = ()

    def arguments(self, device: torch.device) -> tuple[Any, ...]:
        """The operation's arguments. Those of exact points are drawn on the CPU, so that a CPU and a GPU see the same."""
        if self.kind == "large":
            return self.op.spec.arguments(self.case, self.dtype, device, SEED)
        drawn = self.op.spec.arguments(self.case, self.dtype, torch.device("cpu"), SEED)
        return tuple(value.to(device) if isinstance(value, torch.Tensor) else value for value in drawn)

    def rungs(self, *args: Any) -> list[Rung]:
        """The CUDA rungs that take these arguments, slowest idea first."""
        return [
            rung
            for rung in self.op.rungs
            if rung.language == "cuda"
            and (not self.only or rung.name in self.only)
            and self.op.refusal(rung, *args) is None
        ]

    def key(self, rung: Rung) -> dict[str, Any]:
        """What names a rung's point in a record."""
        return {
            "op": self.op.name, "rung": rung.name, "dtype": str(self.dtype).removeprefix("torch."),
            "case": self.case.name, "sizes": dict(self.case.sizes), "kind": self.kind,
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{self.op.name} {str(self.dtype).removeprefix('torch.')} {self.case}"


@dataclass(frozen=True)
class Selection:
    """Which dtypes and which rungs, by name. Without dtypes each rung in the first one that it takes; without rungs all."""

    dtypes: tuple[str, ...] = ()
    rungs: tuple[str, ...] = ()


def problems(op: Op, kind: Kind, chosen: Selection = Selection()) -> list[Problem]:
    """The points of one kind: small ones by ``EXACT``, large ones from the operation's own sizes."""
    sizes = op.spec.sizes
    large = [case for case in sizes if case is sizes[0] or case.name in ("ragged", *MORE_LARGE.get(op.name, ()))]
    cases = large if kind == "large" else EXACT.get(op.name, ())
    dtypes = [getattr(torch, name) for name in chosen.dtypes]
    groups = (
        {dtype: chosen.rungs for dtype in dtypes if dtype in op.spec.dtypes} if dtypes else _groups(op, chosen.rungs)
    )
    return [Problem(op, dtype, case, kind, only) for dtype, only in groups.items() for case in cases]


def _groups(op: Op, rungs: Sequence[str]) -> dict[torch.dtype, tuple[str, ...]]:
    """The CUDA rungs that a CPU executes, by the first dtype that each takes."""
    found: dict[torch.dtype, tuple[str, ...]] = {}
    for rung in op.rungs:
        if (
            rung.language == "cuda"
            and f"{op.name} {rung.name}" not in NOT_EXECUTED
            and (not rungs or rung.name in rungs)
        ):
            dtype = next(dtype for dtype in op.spec.dtypes if rung.dtypes is None or dtype in rung.dtypes)
            found[dtype] = (*found.get(dtype, ()), rung.name)
    return found


@contextlib.contextmanager
def multiprocessors(count: int) -> Iterator[None]:
    """Launchers size their grids as for a GPU with ``count`` SMs, also for tensors on a CPU."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("warpwise.ops.") and hasattr(module, "multiprocessors")
    ]
    kept = [module.multiprocessors for module in modules]
    for module in modules:
        vars(module)["multiprocessors"] = lambda tensor: count
    try:
        yield
    finally:
        for module, function in zip(modules, kept, strict=True):
            vars(module)["multiprocessors"] = function
