"""The operations of the package and their rungs, as parameters of tests."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch

import warpwise.ops
from warpwise import operation
from warpwise.operation import Op, Rung

HOME = Path(warpwise.ops.__file__).parents[1]
OPS: list[Op] = [op for op in operation.all_ops() if all(HOME in rung.source.parents for rung in op.rungs)]
RUNGS: list[tuple[Op, Rung]] = [(op, rung) for op in OPS for rung in op.rungs]


@functools.lru_cache(maxsize=4)
def problem(op: str, device: str):
    """The references of one operation, shared by the tests of its rungs."""
    from warpwise import lab

    return lab.Problem(operation.get(op), torch.device(device))


def rungs(language: str = "", device: str = "") -> list:
    """Parameters ``op,rung``: all rungs, or those of one language, or those that run on one kind of device."""
    return [
        pytest.param(op, rung, id=f"{op.name}-{rung.name}")
        for op, rung in RUNGS
        if (not language or rung.language == language) and (not device or device in rung.devices)
    ]


EVERY_OP = [pytest.param(op, id=op.name) for op in OPS]
