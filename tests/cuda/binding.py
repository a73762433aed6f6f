"""Arguments of one parameter list, bound, for tests."""

from __future__ import annotations

from typing import Any

import pytest

from warpwise.cuda.errors import ArgumentError
from warpwise.cuda.launch.arguments import Binder, Buffer, Scalar
from warpwise.cuda.launch.elements import element
from warpwise.cuda.source.signature import parse


def binder(types: str, sizes: tuple[int, ...] = (), names: tuple[str, ...] = ()) -> Binder:
    parameters = parse(f"void (*)({types})")
    known = [8 if p.pointers else e.bytes if (e := element(p.element)) else 0 for p in parameters]
    declared = [(p.text, name) for p, name in zip(parameters, names or "abcdefgh", strict=False)]
    return Binder("kernel<4>", parameters, sizes or known, declared)


def buffer(types: str, value: Any) -> Buffer:
    (bound,) = binder(types).cpu([value])
    assert isinstance(bound, Buffer)
    return bound


def scalar(types: str, value: Any, size: int | None = None) -> bytes:
    (bound,) = binder(types, (size,) if size else ()).cpu([value])
    assert isinstance(bound, Scalar)
    return bound.data


def refused(types: str, value: Any, message: str, size: int | None = None) -> None:
    made = binder(types, (size,) if size else ())
    with pytest.raises(ArgumentError, match=message):
        made.cpu([value])
