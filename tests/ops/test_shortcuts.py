"""Shortcuts: calls alike go the way of the first of them, and nothing that a call depends on is overlooked."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import warpwise.ops
from warpwise import registry, tuned
from warpwise.ops import _shortcuts
from warpwise.ops._public import public
from warpwise.ops._shortcuts import ALIKE, Shortcuts

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*torch.jit.*:DeprecationWarning"
)  # parts of PyTorch, as they are imported


class _Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class _Own(torch.Tensor):
    pass


def way(*args: object) -> object:
    return args[0]


def kept(*args: object, rung: str | None = None) -> Shortcuts:
    shortcuts = Shortcuts()
    shortcuts.keep(args, rung, way)
    assert shortcuts.find(args, rung) is way
    return shortcuts


def at(offset: int, *shape: int) -> torch.Tensor:
    """A tensor that begins ``offset`` bytes after a multiple of 256."""
    room = torch.empty(4 * 2048)
    first = (offset - room.data_ptr()) % 256 // 4
    return room[first : first + torch.Size(shape).numel()].view(shape)


def test_these_guards_are_there():
    """Where they are not every call goes the longer way, which is right and costs a few microseconds."""
    assert _shortcuts._guards() is not None


def test_calls_alike_find_a_way_and_others_none():
    x, y = at(0, 4, 6), at(64, 6, 4)
    shortcuts = kept(x, y)
    assert shortcuts.find((at(0, 4, 6), at(64, 6, 4)), None) is way
    others = {
        "offset": at(4, 4, 6), "shape": at(0, 6, 4), "numel": at(0, 4, 5), "stride": at(0, 6, 4).t(), "dtype": at(0, 4, 6).int(),
        "gradient": at(0, 4, 6).requires_grad_(), "negated": at(0, 4, 6)._neg_view(), "class": _Own(at(0, 4, 6)), "scalar": 1.0,
        "parameter": torch.nn.Parameter(at(0, 4, 6), requires_grad=False), "none": None, "meta": torch.empty(4, 6, device="meta"),
        "sparse": torch.ones(4, 6).to_sparse(),
    }  # fmt: skip
    for name, other in others.items():
        assert shortcuts.find((other, y), None) is None, name
    assert shortcuts.find((x, y), "k01") is None
    assert shortcuts.find((x,), None) is None
    assert shortcuts.find((x, y, None), None) is None


def test_constants_are_told_apart_by_kind_and_place():
    x = at(0, 4, 6)
    shortcuts = kept(x, None, 1)
    assert shortcuts.find((x, None, 1), None) is way
    for other in ((x, None, True), (x, None, 1.0), (x, None, 2), (x, 1, None), (None, x, 1), (x, x, 1)):
        assert shortcuts.find(other, None) is None


def test_what_traces_or_transforms_is_seen():
    x = at(0, 4, 6)
    shortcuts = kept(x)
    found = lambda value: shortcuts.find((value,), None)
    with torch.no_grad():
        assert found(x) is None, "no gradient is recorded there"
    with torch.inference_mode():
        assert found(x) is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert found(x) is None
    with torch.autocast("cpu", enabled=False):
        assert found(x) is way
    with _Watching():
        assert found(x) is None
    with torch._subclasses.FakeTensorMode():
        assert found(torch.empty(4, 6)) is None
    with torch.device("cpu"):
        assert found(x) is way, "a function mode sees the operators that the way calls"
    seen = []
    torch.func.vmap(lambda row: (seen.append(found(row)), seen.append(found(x)), row)[-1])(torch.ones(2, 4, 6))
    torch.func.grad(lambda value: (seen.append(found(value)), seen.append(found(x)), value.sum())[-1])(x)
    assert seen == [None] * 4
    assert found(x) is way


def test_ways_end_where_tables_change_and_keep_nothing_alive():
    x = at(0, 4, 6)
    shortcuts = kept(x)
    tuned.forget()
    assert shortcuts.find((x,), None) is None
    shortcuts.keep((x,), None, way)
    assert shortcuts.find((x,), None) is way
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


def test_only_so_many_are_kept(monkeypatch):
    """A list of ways for tensors of one number of elements, and all of them together."""
    shortcuts = Shortcuts()
    for rows in range(2, 2 + 2 * ALIKE):
        shortcuts.keep((torch.empty(0, rows),), None, way)
    assert [len(ways) for ways in shortcuts._ways.values()] == [ALIKE]
    assert shortcuts.find((torch.empty(0, 1 + 2 * ALIKE),), None) is way
    monkeypatch.setattr(_shortcuts, "MOST", 20)
    for rows in range(2, 12):
        shortcuts.keep((torch.empty(rows),), None, way)
    assert sum(len(ways) for ways in shortcuts._ways.values()) < 20


def test_what_has_no_key_or_comes_twice_is_not_kept():
    shortcuts, x = Shortcuts(), torch.ones(3)
    shortcuts.keep((x, x), None, way)
    shortcuts.keep((x, [1]), None, way)
    assert shortcuts.find((x, x), None) is None
    assert shortcuts.find((x, [1]), None) is None


def test_without_guards_every_call_goes_the_longer_way(monkeypatch):
    monkeypatch.setattr(_shortcuts, "_guards", lambda: None)
    square = registry.get("square")
    function = public(replace(square, spec=replace(square.spec, name="unguarded")), "(Tensor input) -> Tensor")
    for _ in range(2):
        assert torch.equal(function(torch.full((3,), 2.0)), torch.full((3,), 4.0))


def test_the_second_call_is_short_and_the_same(monkeypatch):
    """With and without a gradient, of parameters, and again after autocast, which casts each time."""
    function, x, weight = warpwise.ops.matmul, torch.randn(4, 6), torch.nn.Parameter(torch.randn(6, 5))
    expected = x @ weight
    function(x, weight)
    with torch.no_grad():
        function(x, weight)
    with monkeypatch.context() as patch:
        patch.setattr(warpwise.ops._plans.Plans, "plan", lambda *_: pytest.fail("the longer way"))
        result = function(x, weight)
        with torch.no_grad():
            assert not function(x, weight).requires_grad
    torch.testing.assert_close(result, expected)
    (grad,) = torch.autograd.grad(result.sum(), weight)
    torch.testing.assert_close(grad, x.t() @ torch.ones(4, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert function(x, weight).dtype == torch.bfloat16
    with pytest.raises(ValueError, match="as many rows as a has columns"):
        function(x, weight.t())
