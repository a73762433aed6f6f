"""Rungs at sizes of more than 2^31 elements: no index wraps around in the blocks that ``explain`` samples."""

from __future__ import annotations

import math

import pytest

import warpwise.ops  # noqa: F401 - registers the operations
from warpwise import lab
from warpwise.lab.explain import memory
from warpwise.operation import Case, registry

ELEMENTS = 5 * 2**29
SIZES = {  # the operation, the size that grows, and the sizes of its largest tensor
    "vector_add": ("n", ("n",)),
    "square": ("rows", ("rows", "cols")),
    "softmax": ("rows", ("rows", "columns")),
    "transpose": ("cols", ("rows", "cols")),
    "matvec": ("m", ("m", "k")),
    "matrix_add": ("cols", ("rows", "cols")),
}


@pytest.mark.parametrize("name", SIZES)
def test_no_index_wraps_around(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1 << 28)  # all arguments occupy no memory
    op, (grown, shape) = registry.get(name), SIZES[name]
    first = op.spec.sizes[0]
    others = math.prod(first.sizes[size] for size in shape if size != grown)
    case = Case("large", {**first.sizes, grown: ELEMENTS // others}, first.attributes)
    executed = 0
    for rung in op.rungs:
        if rung.language not in ("cuda", "triton"):
            continue
        try:
            found = lab.explain_rung(op, rung, case, checks="none", blocks=1, timeout=10)
        except ValueError:  # the rung does not take the size, or PyTorch copies an argument
            continue
        executed += all(not one.unsupported for one in found)
        assert not any("out-of-bounds" in one.unsupported for one in found), (rung.name, found)
    assert executed >= 3
