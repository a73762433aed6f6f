"""Figures of accuracy: emulated counters, predicted limiters and predicted times against the measured ones."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from warpwise.lab.fidelity.compare import Compared
from warpwise.lab.fidelity.record import RecordedLaunch

MISSES = 0.05  # goal: at most this fraction of the rungs has a counter or resource that differs
LIMITERS = 0.8  # goal: at least this fraction of the predicted limiters equals the measured one
TIMES = 0.8  # goal: at least this fraction of the predicted times is within a factor of FACTOR
FACTOR = 2.0
TAU = 0.8  # goal: Kendall's tau of a ladder, at least
TIED = 0.02  # relative difference below which two times have no order, because another run may reverse it
NEAR = 3.0  # percentage points within which two units are equally used

_PART = ".avg.pct_of_peak_sustained_elapsed"
MEASURED_UNITS: Mapping[str, tuple[str, ...]] = {
    "DRAM": ("dram__cycles_active", "fbpa__dram_sectors"),
    "L2": (
        "lts__t_sectors", "lts__t_tag_requests", "lts__d_sectors", "lts__d_sectors_fill_device",
        "lts__xbar2lts_cycles_active", "lts__lts2xbar_cycles_active", "lts__d_atomic_input_cycles_active",
        "l1tex__m_l1tex2xbar_req_cycles_active", "l1tex__m_xbar2l1tex_read_sectors",
    ),
    "L1": (
        "l1tex__data_pipe_lsu_wavefronts", "l1tex__data_bank_reads", "l1tex__data_bank_writes",
        "l1tex__lsu_writeback_active", "l1tex__lsuin_requests", "l1tex__t_sectors", "l1tex__t_requests",
        "l1tex__f_wavefronts", "sm__inst_executed_pipe_lsu",
    ),
    "issue slots": ("sm__inst_executed", "sm__inst_issued", "sm__issue_active"),
    "ALU": ("sm__inst_executed_pipe_alu", "sm__pipe_alu_cycles_active"),
    "FMA": ("sm__inst_executed_pipe_fma", "sm__pipe_fma_cycles_active", "sm__pipe_fmaheavy_cycles_active",
            "sm__inst_executed_pipe_fmaheavy"),
    "FP64": ("sm__inst_executed_pipe_fp64", "sm__pipe_fp64_cycles_active"),
    "SFU (XU)": ("sm__inst_executed_pipe_xu",),
    "tensor": ("sm__pipe_tensor_cycles_active", "sm__inst_executed_pipe_tensor_op_hmma"),
    "uniform": ("sm__inst_executed_pipe_uniform",),
    "ADU": ("sm__inst_executed_pipe_adu",),
    "CBU": ("sm__inst_executed_pipe_cbu_pred_on_any",),
}  # fmt: skip
"""ncu's units. The utilisation of a unit is the maximum of its metrics."""
PREDICTED_UNITS = {"L1 tag stage": "L1", "L1 data stage": "L1", "LSU issue": "L1", "atomics": "L2"}
"""Units that the prediction distinguishes and ncu's utilisations do not."""


@dataclass(frozen=True)
class Reason:
    """A known reason for the misses of one ``kind`` whose place starts with ``where``."""

    kind: str
    where: str
    why: str

    def explains(self, miss: Mapping[str, str]) -> bool:
        """True if this is the reason for ``miss``."""
        return miss["kind"] == self.kind and miss["where"].startswith(self.where)


@dataclass(frozen=True)
class Limited:
    """A launch at a large point: the most-used unit as predicted and measured, and their difference in percentage
    points.
    """

    launch: RecordedLaunch
    predicted: str
    measured: str
    below: float

    def __str__(self) -> str:
        return f"{self.launch}: predicted {self.predicted}, most used {self.measured} ({self.below:.0f} points more)"


@dataclass(frozen=True)
class Timed:
    """A rung at one point: the sum of its launches, in seconds."""

    ladder: str
    rung: str
    predicted: float
    measured: float

    @property
    def factor(self) -> float:
        """The ratio of prediction to measurement or its inverse, whichever is at least 1."""
        return max(self.predicted / self.measured, self.measured / self.predicted)

    def text(self) -> str:
        """Both times, in microseconds."""
        return f"predicted {self.predicted * 1e6:,.1f} µs, measured {self.measured * 1e6:,.1f}"


@dataclass
class Report:
    """The compared launches, and the figures computed from them.

    ``not_executed`` maps the CUDA rungs without a record, "OP RUNG", to the reason.
    """

    exact: list[Compared] = field(default_factory=list)
    large: list[Compared] = field(default_factory=list)
    not_executed: Mapping[str, str] = field(default_factory=dict)
    reasons: Sequence[Reason] = ()

    def missing(self) -> dict[str, list[str]]:
        """Rungs with a counter or resource that differs at an exact point, and the differences."""
        found: dict[str, list[str]] = {}
        for one in self.exact:
            if not one.agrees:
                name = f"{one.recorded.op} {one.recorded.rung} {one.recorded.dtype}"
                reasons = [one.error] if one.error else [str(part) for part in one.differences()]
                found.setdefault(name, []).extend(f"{one.recorded.case}: {reason}" for reason in reasons)
        return found

    def rungs(self) -> int:
        """Number of rungs compared; a rung counts once for each dtype."""
        return len({(one.recorded.op, one.recorded.rung, one.recorded.dtype) for one in self.exact})

    def limiters(self) -> list[Limited]:
        """Predicted and measured most-used units at large points."""
        found = []
        for one in self.large:
            if one.explanation is not None and one.explanation.prediction is not None:
                used = utilisation(one.recorded.metrics)
                most = max(used, key=lambda unit: used[unit])
                busiest = one.explanation.prediction.busiest
                predicted = PREDICTED_UNITS.get(busiest, busiest)
                found.append(Limited(one.recorded, predicted, most, used[most] - used.get(predicted, 0.0)))
        return found

    def times(self, kind: str = "large") -> list[Timed]:
        """Each rung's time at each point of a kind, if all of its launches were predicted and timed."""
        groups: dict[tuple[str, ...], list[Compared]] = {}
        for one in self.large if kind == "large" else self.exact:
            recorded = one.recorded
            groups.setdefault((recorded.op, recorded.dtype, recorded.case, recorded.rung), []).append(one)
        found = []
        for (op, dtype, case, rung), parts in groups.items():
            predicted = [
                part.explanation.prediction.time for part in parts if part.explanation and part.explanation.prediction
            ]
            measured = [part.recorded.time["median_s"] for part in parts if part.recorded.time]
            if len(predicted) == len(measured) == len(parts) and None not in measured:
                found.append(Timed(f"{op} {dtype} {case}", rung, sum(predicted), sum(measured)))
        return found

    def ladders(self) -> dict[str, float]:
        """Kendall's tau of predicted and measured times at large points, for each ladder of three or more rungs."""
        found = {}
        for ladder, parts in itertools.groupby(self.times(), key=lambda timed: timed.ladder):
            rungs = list(parts)
            if len(rungs) >= 3:
                found[ladder] = kendall_tau([one.predicted for one in rungs], [one.measured for one in rungs])
        return found

    def misses(self) -> list[dict[str, str]]:
        """Everything that misses its goal: its kind, its place, by how much, and the reason if it is known."""
        found = [
            {"kind": "not executed", "where": where, "what": reason}
            for where, reason in self.not_executed.items()
            if where.split()[0] in self.operations()
        ]
        found += [
            {"kind": "not executed", "where": str(one.recorded), "what": one.error} for one in self.large if one.error
        ]
        found += [
            {"kind": "counters", "where": name, "what": "; ".join(reasons)} for name, reasons in self.missing().items()
        ]
        found += [
            {"kind": "limiter", "where": str(one.launch), "what": str(one).removeprefix(f"{one.launch}: ")}
            for one in self.limiters()
            if one.predicted != one.measured
        ]
        found += [
            {"kind": "time", "where": f"{one.ladder} {one.rung}", "what": one.text()}
            for one in self.times()
            if one.factor > FACTOR
        ]
        found += [
            {"kind": "order", "where": ladder, "what": f"tau {tau:.2f}"}
            for ladder, tau in self.ladders().items()
            if tau < TAU
        ]
        why = [next((reason.why for reason in self.reasons if reason.explains(miss)), "") for miss in found]
        return [{**miss, "why": text} if text else miss for miss, text in zip(found, why, strict=True)]

    def operations(self) -> dict[str, dict[str, Any]]:
        """The figures of each operation, by its name."""
        names = dict.fromkeys(one.recorded.op for one in (*self.exact, *self.large))
        return {name: self._of(name) for name in names}

    def _of(self, op: str) -> dict[str, Any]:
        exact, large = ([one for one in rows if one.recorded.op == op] for rows in (self.exact, self.large))
        part = Report(exact, large)
        ratios = sorted(one.predicted / one.measured for one in part.times())
        figures = part._figures()
        kept = ("rungs", "rungs_missing", "limiters", "limiters_equal", "times", "times_within")
        return {
            **{name: figures[name] for name in kept},
            "ratios": [ratios[0], statistics.median(ratios), ratios[-1]] if ratios else [],
            "tau": {ladder.rpartition(" ")[2]: tau for ladder, tau in part.ladders().items()},
        }

    def summary(self) -> dict[str, Any]:
        """The figures of all operations, and whether each goal is reached."""
        figures, listed = self._figures(), len(self.not_executed)
        return {
            **figures,
            "rungs_not_executed": listed,
            "rungs_reached": figures["rungs_missing"] <= MISSES * figures["rungs"],
            "limiters_reached": figures["limiters_equal"] >= LIMITERS * figures["limiters"],
            "times_reached": figures["times_within"] >= TIMES * figures["times"],
            "ladders_reached": figures["ladders_ordered"] == figures["ladders"],
        }

    def _figures(self) -> dict[str, Any]:
        limiters, times, ladders = self.limiters(), self.times(), self.ladders()
        return {
            "rungs": self.rungs(),
            "rungs_missing": len(self.missing()),
            "limiters": len(limiters),
            "limiters_equal": sum(one.predicted == one.measured for one in limiters),
            "limiters_near": sum(one.below <= NEAR for one in limiters),
            "times": len(times),
            "times_within": sum(timed.factor <= FACTOR for timed in times),
            "ladders": len(ladders),
            "ladders_ordered": sum(tau >= TAU for tau in ladders.values()),
        }


def utilisation(metrics: Mapping[str, float]) -> dict[str, float]:
    """Utilisation of each unit, percent of its peak."""
    return {unit: max(metrics.get(name + _PART, 0.0) for name in names) for unit, names in MEASURED_UNITS.items()}


def kendall_tau(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Kendall's tau: 1 if the two orders agree on every pair, -1 if they agree on none.

    A pair whose measured times differ by less than ``TIED`` does not count. With no pair to count the result is 1.
    """
    agreeing = pairs = 0
    for (a, b), (c, d) in itertools.combinations(zip(predicted, measured, strict=True), 2):
        if abs(b - d) > TIED * max(b, d):
            pairs += 1
            agreeing += 1 if (a - c) * (b - d) > 0 else -1 if (a - c) * (b - d) < 0 else 0
    return agreeing / pairs if pairs else 1.0


def rows(compared: Iterable[Compared]) -> list[dict[str, Any]]:
    """Each launch as plain data."""
    made = []
    for one in compared:
        recorded, explanation = one.recorded, one.explanation
        prediction = explanation.prediction if explanation else None
        used = utilisation(recorded.metrics)
        most = max(used, key=lambda unit: used[unit])
        made.append(
            {
                "op": recorded.op,
                "rung": recorded.rung,
                "dtype": recorded.dtype,
                "case": recorded.case,
                "launch": recorded.index,
                "error": one.error,
                "differences": [str(part) for part in one.differences()],
                "predicted_s": prediction.time if prediction else None,
                "measured_s": recorded.time["median_s"] if recorded.time else None,
                "profiled_s": recorded.metrics.get("gpu__time_duration.sum", math.nan) / 1e9,
                "limiter": prediction.limiter if prediction else None,
                "busiest": prediction.busiest if prediction else None,
                "most_used": most,
                "most_used_percent": round(used[most], 1),
                "blocks": explanation.sampled if explanation else "",
            }
        )
    return made
