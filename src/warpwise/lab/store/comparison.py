"""Compare two sets of measurements: changes in time beyond the noise of both."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from warpwise.lab.store.records import Measurement
from warpwise.lab.timing.stats import Interval

# Two runs of the same code differ by more than their intervals, which cover only the noise within a run: tensor
# addresses and the device temperature differ. PyTorch's kernels differed by 0.45 % between two sessions on an H200.
BETWEEN_RUNS = 0.005

Direction = Literal["slower", "faster", "same"]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """One rung or opponent timed in both sets. ``ratio`` is the new time over the old one, above 1 if it became slower.

    ``direction`` is "same" unless the two intervals are disjoint and that of the ratio excludes 1 by more than the
    noise.
    """

    before: Measurement
    after: Measurement
    ratio: Interval
    direction: Direction

    def slower_by(self, percent: float) -> bool:
        """True if it is slower by more than ``percent`` beyond noise, by the lower end of the ratio's interval."""
        return self.direction == "slower" and self.ratio.low > 1 + percent / 100

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent."""
        ratio = {"median": self.ratio.median, "low": self.ratio.low, "high": self.ratio.high}
        return {
            "change": self.direction,
            "ratio": ratio,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
        }


@dataclass(frozen=True)
class Difference:
    """Two measurements of one rung whose times cannot be compared, and the reason."""

    before: Measurement
    after: Measurement
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent."""
        return {"reason": self.reason, "before": self.before.to_json(), "after": self.after.to_json()}


@dataclass(frozen=True)
class Comparison:
    """The comparison of two sets: ``changes`` of entries that both timed; ``new`` and ``vanished`` entries; ``unlike``,
    which cannot be compared; and ``broken``, which were right before and are wrong now.
    """

    changes: tuple[Change, ...] = ()
    new: tuple[Measurement, ...] = ()
    vanished: tuple[Measurement, ...] = ()
    unlike: tuple[Difference, ...] = ()
    broken: tuple[Difference, ...] = ()

    @property
    def rungs(self) -> list[Change]:
        """Changes of rungs, without opponents."""
        return [change for change in self.changes if change.after.kind == "rung"]

    @property
    def drift(self) -> list[Change]:
        """Opponents that changed beyond noise: the machine, its clocks or its libraries have changed."""
        return [change for change in self.changes if change.after.kind == "opponent" and change.direction != "same"]

    def slower(self, percent: float = 0.0) -> list[Change]:
        """Rungs that are slower by more than ``percent`` beyond noise."""
        return [change for change in self.rungs if change.slower_by(percent)]

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent."""
        return {
            "changes": [change.to_json() for change in self.changes],
            "new": [found.to_json() for found in self.new],
            "vanished": [found.to_json() for found in self.vanished],
            "unlike": [found.to_json() for found in self.unlike],
            "broken": [found.to_json() for found in self.broken],
        }


def ratio_of(after: Interval, before: Interval) -> Interval:
    """``after / before`` with a 95 % interval from those of the two medians, which were not measured in pairs.

    By recovering the variances from the limits on a logarithmic scale (MOVER; Donner and Zou, Statistical Methods in
    Medical Research 21, 2012): the squared distances from the medians to the limits add up, for each side.
    """
    middle = math.log(after.median / before.median)
    down = math.hypot(math.log(after.median / after.low), math.log(before.high / before.median))
    up = math.hypot(math.log(after.high / after.median), math.log(before.median / before.low))
    return Interval(math.exp(middle), math.exp(middle - down), math.exp(middle + up))


def direction_of(after: Interval, before: Interval, noise: float = BETWEEN_RUNS) -> Direction:
    """The direction of a change: "same" unless the intervals are disjoint and that of the ratio excludes 1 by
    ``noise``.
    """
    if after.low <= before.high and after.high >= before.low:
        return "same"
    ratio = ratio_of(after, before)
    return "slower" if ratio.low > 1 + noise else "faster" if ratio.high * (1 + noise) < 1 else "same"


def change_between(before: Measurement, after: Measurement, noise: float = BETWEEN_RUNS) -> Change | None:
    """The change of the time, or None if either measurement has none."""
    old, new = before.interval, after.interval
    if old is None or new is None:
        return None
    return Change(before, after, ratio_of(new, old), direction_of(new, old, noise))


def compare(before: Iterable[Measurement], after: Iterable[Measurement], noise: float = BETWEEN_RUNS) -> Comparison:
    """Compare each rung and opponent of ``before`` with that of ``after`` for the same operation, case, dtype and
    device.

    ``noise`` is the fraction by which two runs of the same code may differ. The newest measurement of each entry is
    used. Entries with other sizes, another timing method or another device are ``unlike``.
    """
    old, new = newest(before), newest(after)
    changes, unlike, broken = [], [], []
    for key in old.keys() & new.keys():
        was, now = old[key], new[key]
        if was.verdict == "right" and now.verdict == "wrong":
            broken.append(Difference(was, now, now.message or "wrong"))
        elif reason := _unlike(was, now):
            unlike.append(Difference(was, now, reason))
        elif change := change_between(was, now, noise):
            changes.append(change)
    vanished, added = (
        {key: here[key] for key in here.keys() - there.keys()} for here, there in ((old, new), (new, old))
    )
    moved = _moved(old, new)
    elsewhere = {key[:-1]: key for key in added if key[0] in moved}
    for key in [key for key in vanished if key[:-1] in elsewhere]:
        was, now = vanished.pop(key), added.pop(elsewhere[key[:-1]])
        unlike.append(Difference(was, now, f"measured on {was.device}, then on {now.device}"))
    return Comparison(
        tuple(sorted(changes, key=lambda change: _order(change.after))),
        tuple(sorted(added.values(), key=_order)),
        tuple(sorted(vanished.values(), key=_order)),
        tuple(sorted(unlike, key=lambda found: _order(found.after))),
        tuple(sorted(broken, key=lambda found: _order(found.after))),
    )


def newest(measurements: Iterable[Measurement]) -> dict[Key, Measurement]:
    """The newest measurement of each entry; a verdict over all cases is an entry of its own."""
    found: dict[Key, Measurement] = {}
    for measurement in measurements:
        key = (measurement.op, measurement.name, measurement.case, measurement.dtype, measurement.device)
        kept = found.get(key)
        if kept is None or (measurement.taken, measurement.id) >= (kept.taken, kept.id):
            found[key] = measurement
    return found


def _moved(old: Iterable[Key], new: Iterable[Key]) -> set[str]:
    """The operations that have no device in common."""
    was, now = ({(op, device) for op, *_, device in keys} for keys in (old, new))
    return {op for op, _ in was | now} - {op for op, _ in was & now}


def _order(one: Measurement) -> tuple[object, ...]:
    """Rungs before opponents at each point."""
    return one.op, one.device, one.case, one.dtype, one.kind != "rung", one.name


def _unlike(was: Measurement, now: Measurement) -> str:
    """The reason why two measurements are not comparable, or ""."""
    if dict(was.sizes) != dict(now.sizes):
        return f"{was.case} was {dict(was.sizes)}, and is {dict(now.sizes)} now"
    if (was.values, was.layout) != (now.values, now.layout):
        return f"its inputs were {was.values} and {was.layout}, and are {now.values} and {now.layout} now"
    if was.timed != now.timed:
        which, lacking = ("then", was) if now.timed else ("now", now)
        return f"no time {which}: {lacking.message or lacking.verdict}"
    if was.mode != now.mode:
        return f"timed by {was.mode}, and by {now.mode} now"
    return ""
