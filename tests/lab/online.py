"""Operations, rungs and times for tests of ``tune_online``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tests.lab import toys
from tests.lab.fakes import FakeTimer

from warpwise.lab.tune.online import Online
from warpwise.operation import Device, Op, Rung, Tables
from warpwise.tuned import TunedPoint

CPU = Device("cpu")
MICRO = 1e-6
NUMBER = itertools.count()
LAUNCHED: list[str] = []


def launching(name: str, extra: float = 0.0, error: str = "") -> Callable[..., None]:
    """A launch of 2 x + 1 that is off by ``extra`` in the last element, or raises ``error``."""

    def launch(output: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
        LAUNCHED.append(name)
        if error:
            raise RuntimeError(error)
        output.copy_(2 * x + 1)
        output.view(-1)[-1] += extra

    return launch


def rung(name: str, launch: Callable[..., None] | None = None, **options: Any) -> Rung:
    return Rung(name, "a test", "python", launch or launching(name), Path(__file__), **options)


def affine(*rungs: Rung, **options: Any) -> Op:
    """2 x + 1 with a name of its own: two library operators may not share one."""
    spec = replace(toys.AFFINE, schema=f"toys::online{next(NUMBER)}(Tensor x) -> Tensor", **options)
    return Op(spec, rungs, tables=Tables(spec.name, None, lambda x: ("", {"n": x.shape[0]})))


def times(**micros: float) -> FakeTimer:
    return FakeTimer(**{name.replace("_at_", "@"): [value * MICRO] for name, value in micros.items()})


Switch = Callable[..., Online]


def computed_by(op: Op, x: torch.Tensor) -> list[str]:
    """The rungs that a call launches; its result is right."""
    LAUNCHED.clear()
    assert torch.equal(op(x), 2 * x + 1)
    return list(dict.fromkeys(LAUNCHED))


def point(winner: str, n: int, kind: str = "", rival: str = "") -> TunedPoint:
    return TunedPoint("float32", kind, {"n": n}, winner, 1e-5, rival, 2e-5 if rival else None, 2 * n)
