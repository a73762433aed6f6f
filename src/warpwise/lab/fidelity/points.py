"""The points at which the counters of CUDA rungs are recorded and compared.

A CPU executes every block of an exact point in well under a second, and the emulated counters must equal Nsight
Compute's there. Large points are an operation's own sizes: they show which unit limits a rung and how long it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from warpwise.lab.fidelity.record import Record
from warpwise.operation import Case, Op, Rung, get

Kind = Literal["exact", "large"]
SEED = 0
TENSOR_MAPS = "for Hopper, through tensor maps (TMA): not recorded yet"


@dataclass(frozen=True)
class ProfiledPoint:
    """An operation at one case and dtype; ``only`` names the rungs to measure, all of them if it is empty."""

    op: Op
    dtype: torch.dtype
    case: Case
    kind: Kind
    only: tuple[str, ...] = ()

    def arguments(self, device: torch.device) -> tuple[Any, ...]:
        """The operation's arguments. Exact points draw theirs on the CPU, so that they are equal on every device."""
        if self.kind == "large":
            return self.op.spec.arguments(self.case, self.dtype, device, SEED)
        drawn = self.op.spec.arguments(self.case, self.dtype, torch.device("cpu"), SEED)
        return tuple(value.to(device) if isinstance(value, torch.Tensor) else value for value in drawn)

    def rungs(self, *args: Any) -> list[Rung]:
        """The CUDA rungs that accept these arguments, in the ladder's order."""
        chosen = [
            rung for rung in self.op.rungs if rung.language == "cuda" and (not self.only or rung.name in self.only)
        ]
        return [rung for rung in chosen if self.op.refusal(rung, *args) is None]

    def key(self, rung: Rung) -> dict[str, Any]:
        """The fields of a record that identify a rung at this point."""
        return {"op": self.op.name, "rung": rung.name, **self._problem()}

    def to_json(self) -> dict[str, Any]:
        """The point as plain data."""
        return {"op": self.op.name, **self._problem(), "only": list(self.only)}

    def _problem(self) -> dict[str, Any]:
        return {
            "dtype": dtype_name(self.dtype),
            "case": self.case.name,
            "sizes": dict(self.case.sizes),
            "attributes": dict(self.case.attributes),
            "layout": self.case.layout,
            "kind": self.kind,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ProfiledPoint:
        """The point that ``to_json`` wrote. Raises ``LookupError`` if its operation is not registered."""
        op = get(data["op"])
        case = recorded_case(op, data["case"], data["sizes"], data["layout"], data["attributes"])
        return ProfiledPoint(op, getattr(torch, data["dtype"]), case, data["kind"], tuple(data["only"]))

    def __str__(self) -> str:
        return f"{self.op.name} {dtype_name(self.dtype)} {self.case}"


@dataclass(frozen=True)
class RungFilter:
    """Dtypes and rungs to measure, by name.

    Without dtypes, each rung is measured in the first dtype that it accepts; without rungs, all are measured.
    """

    dtypes: tuple[str, ...] = ()
    rungs: tuple[str, ...] = ()


def points(op: Op, cases: Sequence[Case], kind: Kind, chosen: RungFilter = RungFilter()) -> list[ProfiledPoint]:
    """``op`` at each of ``cases`` and each selected dtype."""
    dtypes = [getattr(torch, name) for name in chosen.dtypes]
    if dtypes:
        groups = {dtype: chosen.rungs for dtype in dtypes if dtype in op.spec.dtypes}
    else:
        groups = _by_first_dtype(op, chosen.rungs)
    return [ProfiledPoint(op, dtype, case, kind, only) for dtype, only in groups.items() for case in cases]


def recorded_points(record: Record, kind: Kind) -> list[ProfiledPoint]:
    """The points of one kind in a record, in its order, each with the rungs recorded there."""
    op = get(record.op)
    rungs: dict[tuple[str, str], dict[str, None]] = {}
    places: dict[str, tuple[dict[str, int], str, dict[str, Any]]] = {}
    for launch in record.launches:
        if launch.kind == kind:
            rungs.setdefault((launch.dtype, launch.case), {})[launch.rung] = None
            places[launch.case] = launch.sizes, launch.layout, launch.attributes
    return [
        ProfiledPoint(op, getattr(torch, dtype), recorded_case(op, case, *places[case]), kind, tuple(names))
        for (dtype, case), names in rungs.items()
    ]


def recorded_case(op: Op, name: str, sizes: Mapping[str, int], layout: str, attributes: Mapping[str, Any]) -> Case:
    """The case ``name`` of ``op`` with the recorded sizes; a new case with all that was recorded if there is none."""
    known = {case.name: case for case in (*op.spec.cases, *op.spec.sizes)}
    if name not in known:
        return Case(name, sizes, attributes, layout=layout)
    return replace(known[name], sizes={key: sizes.get(key, size) for key, size in known[name].sizes.items()})


def not_executed(ops: Iterable[Op]) -> dict[str, str]:
    """The CUDA rungs for Hopper, as "OP RUNG", each with the reason why there is no record to compare with."""
    return {
        f"{op.name} {rung.name}": TENSOR_MAPS
        for op in ops
        for rung in op.rungs
        if rung.language == "cuda" and rung.idea.startswith("Hopper")
    }


def dtype_name(dtype: torch.dtype) -> str:
    """``float16`` for ``torch.float16``."""
    return str(dtype).removeprefix("torch.")


def _by_first_dtype(op: Op, rungs: Sequence[str]) -> dict[torch.dtype, tuple[str, ...]]:
    """The CUDA rungs that are recorded, grouped by the first dtype that each accepts."""
    found: dict[torch.dtype, tuple[str, ...]] = {}
    skipped = not_executed([op])
    for rung in op.rungs:
        if rung.language == "cuda" and f"{op.name} {rung.name}" not in skipped and (not rungs or rung.name in rungs):
            dtype = next(dtype for dtype in op.spec.dtypes if rung.dtypes is None or dtype in rung.dtypes)
            found[dtype] = (*found.get(dtype, ()), rung.name)
    return found
