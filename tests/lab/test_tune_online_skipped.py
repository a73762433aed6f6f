"""``tune_online``: calls that are not measured."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from tests.lab import toys
from tests.lab.online import NUMBER, affine, computed_by, rung, times

from warpwise import operation
from warpwise.cuda.launch.intercept import intercepting
from warpwise.lab.tune import online as module
from warpwise.operation import Cost, Op, Output, Spec, Tables, choice


@pytest.mark.parametrize("state", ["capture", "compile", "deterministic", "profiler", "intercepted"])
def test_nothing_is_measured_in_this_state(state, switch, monkeypatch):
    op, timer = affine(rung("k01_plain")), times(k01_plain=3, torch=5)
    switch(timer)
    intercepted = intercepting(lambda *launch: None) if state == "intercepted" else contextlib.nullcontext()
    with monkeypatch.context() as patch, intercepted:
        if state == "capture":
            patch.setattr(module, "capturing", lambda device: True)
        if state == "compile":
            patch.setattr(torch.compiler, "is_compiling", lambda: True)
        if state == "deterministic":
            patch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
        if state == "profiler":
            patch.setattr(module.ranges, "profiling_active", lambda: True)
        assert op.chosen(torch.ones(64)) is None
    assert not timer.log
    assert computed_by(op, torch.ones(64)) == [], "the choice stays for the process"
    assert not timer.log


def test_torch_compile_traces_without_a_measurement(switch):
    op, timer = affine(rung("k01_plain")), times(k01_plain=3, torch=5)
    assert op.call
    switch(timer)
    seen: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append(len(timer.log))
        return graph

    torch.compiler.reset()
    made = torch.compile(lambda x: op(x), backend=backend, fullgraph=True)(torch.ones(64))
    assert torch.equal(made, torch.full((64,), 3.0))
    assert seen == [0]


def test_meta_and_cpu_calls_are_as_without(switch, monkeypatch):
    op, timer = affine(rung("k01_plain")), times(k01_plain=3, torch=5)
    switch(timer)
    assert op(torch.ones(64, device="meta")).shape == (64,)
    monkeypatch.setattr(choice, "TABLE_DEVICES", {"cuda"})
    op(torch.ones(64))
    assert operation.chosen(op, torch.ones(64)).source == "device"
    assert not timer.log


def test_an_operation_that_writes_its_arguments_is_not_measured(switch):
    spec = Spec(
        schema=f"toys::online{next(NUMBER)}(Tensor(a!) x) -> ()",
        outputs={"x": Output(like="x")},
        inputs=toys.affine_inputs,
        reference=lambda x: x.double() + 1,
        eager=lambda x: x.add_(1) and None,
        cost=lambda x: Cost(2 * x.nbytes),
    )
    op = Op(spec, (rung("k01_plain"),), tables=Tables(spec.name, None, lambda x: ("", {"n": x.shape[0]})))
    timer, x = times(k01_plain=3, torch=5), torch.ones(1)
    switch(timer)
    op(x)
    assert (x.item(), timer.log) == (2.0, [])
