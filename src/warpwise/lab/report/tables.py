"""The tables of a page: verdicts, ncu's counters, and the environment."""

from __future__ import annotations

from collections.abc import Iterable

from warpwise.lab.explain.render.format import count, size, times
from warpwise.lab.report import counters as ncu
from warpwise.lab.report.collected import Collected, MeasuredPoint
from warpwise.lab.report.format import MARKS
from warpwise.lab.report.html import Cell, Content, Table
from warpwise.lab.store.records import GRADIENT

NAMES = {
    "device": "device", "date": "date", "driver": "driver", "cuda": "CUDA", "torch": "PyTorch", "triton": "Triton",
    "warpwise": "Warpwise", "git_commit": "commit", "python": "Python", "system": "system",
    "target": "compute capability", "multiprocessors": "multiprocessors", "max_sm_mhz": "highest SM clock, MHz",
    "float32_matmul_precision": "float32 matmul precision",
}  # fmt: skip


def verdicts(collected: Collected) -> Table:
    """The verdict on each rung, and on the gradient, on every device."""
    rows: list[list[Content]] = []
    for name in (*collected.rungs, GRADIENT):
        for one in collected.verdicts.get(name, ()):
            worst = f"{one.worst:.2g}" if one.worst == one.worst and one.tested else ""
            tested = (
                f"{one.tested}{f' of {one.tested + one.skipped}' if one.skipped else ''}"
                if one.tested or one.skipped
                else ""
            )
            where = collected.ran(name, one)
            mark = Cell(MARKS[one.status], css=one.status)
            link = name if name == GRADIENT else Cell(name, f"#{name}")
            rows.append([link, mark, tested, worst, where, f"{one.date:%Y-%m-%d}"])
    return Table(["", "verdict", "cases", "worst error / tolerance", "where", "date"], rows, css="verdicts")


def counted(collected: Collected, point: MeasuredPoint) -> Table:
    """ncu's counters of each rung at one point; without rows if there are none."""
    known = collected.counters
    rows: list[list[Content]] = []
    for name in collected.rungs if known else ():
        launches = known.at(name, point.case, point.dtype) if known else ()
        if not known or not launches:
            continue

        def total(*metrics: str, name: str = name) -> float | None:
            return known.sum(name, point.case, point.dtype, *metrics) if known else None

        least = next((one.bytes for one in point.entries if one.bytes), None)
        read, written = total(ncu.READ), total(ncu.WRITTEN)
        moved = f"{times((read + written) / least)}" if read is not None and written is not None and least else ""
        occupancy = max((launch.metrics.get(ncu.OCCUPANCY, 0.0) for launch in launches), default=0.0)
        rows.append(
            [
                Cell(name, f"#{name}"),
                _size(read),
                _size(written),
                moved,
                _over(total(ncu.LOADS), total(ncu.LOAD_REQUESTS)),
                _over(total(ncu.STORES), total(ncu.STORE_REQUESTS)),
                _count(total(ncu.SHARED)),
                _count(total(ncu.INSTRUCTIONS)),
                str(max(launch.registers for launch in launches) or ""),
                f"{occupancy:.0f} %" if occupancy else "",
            ]
        )
    if known is None:
        return Table([""], [])
    heads = [
        "", "DRAM read", "DRAM written", "× least", "sectors/load", "sectors/store", "shared wavefr.", "instructions",
        "registers",
        "warps active",
    ]  # fmt: skip
    ncu_version, device, date = (str(known.environment.get(name, "")) for name in ("ncu", "device", "date"))
    version = f"Nsight Compute {ncu_version} on {device}, {date[:10]}"
    return Table(heads, rows, f"{version}; {point.case}, {point.size}, {point.dtype}", "counted")


def _size(value: float | None) -> str:
    return size(round(value)) if value is not None else ""


def _count(value: float | None) -> str:
    return count(value) if value else ""


def _over(part: float | None, whole: float | None) -> str:
    return f"{part / whole:.3g}" if part is not None and whole else ""


def environment(collected: Collected) -> list[tuple[str, str]]:
    """The environment of the measurements, as (name, text)."""
    known = {**collected.environment, "device": collected.device or collected.environment.get("device", "")}
    rows = [
        (NAMES.get(name, name), str(known[name]))
        for name in (*NAMES, *(name for name in known if name not in NAMES))
        if known.get(name)
    ]
    if "l2_bytes" in known:
        rows = [(name, text) if name != "l2_bytes" else ("L2", size(int(text))) for name, text in rows]
    timed = [one for point in collected.points for one in point.entries if one.median]
    clocks = [one.clock for one in timed if one.clock]
    if clocks:
        rows.append(
            (
                "SM clock while timing, MHz",
                f"{min(clock.low for clock in clocks):,.0f} to {max(clock.median for clock in clocks):,.0f}",
            )
        )
    rows += [("timed by", mode) for mode in dict.fromkeys(one.mode for one in timed if one.mode)]
    roofs = collected.roofs
    if roofs.bandwidth:
        rows.append(("measured copy, read and written", f"{roofs.bandwidth / 1e9:,.0f} GB/s"))
    rows += [
        (f"measured torch.mm, {dtype}", f"{rate / 1e12:,.1f} TFLOP/s")
        for dtype, rate in roofs.flops.items()
        if _used(collected, dtype)
    ]
    rows.append(("figures from", ", ".join(_few(dict.fromkeys(collected.origins)))))
    return rows


def _used(collected: Collected, dtype: str) -> bool:
    return any(point.dtype == dtype for point in collected.points)


def _few(names: Iterable[str]) -> list[str]:
    names = list(names)
    return names if len(names) <= 4 else [*names[:3], f"and {len(names) - 3} more"]
