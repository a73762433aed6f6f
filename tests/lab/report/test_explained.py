"""Explanations of a report: from the cache, on all cores, and without a second check of a verified rung."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.lab import toys

from warpwise.lab.report import explained, processes
from warpwise.operation import Op


def toy() -> Op:
    def first(output: Any, x: Any) -> None:
        output.copy_(2 * x + 1)

    def second(output: Any, x: Any) -> None:
        output.copy_(2 * x + 1)

    return toys.op(toys.AFFINE, first, second, language="cuda")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """The rungs that are explained, with their checks; in this process."""
    found: list[tuple[str, str]] = []
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    monkeypatch.setattr(
        explained,
        "explain_rung",
        lambda op, rung, case, dtype, *, target, budget, checks, arguments: found.append((rung, checks)) or [],
    )
    monkeypatch.setattr(processes.os, "sched_getaffinity", lambda process: {0})
    return found


def test_a_verified_rung_is_not_checked_again_and_each_is_explained_once(asked: list[tuple[str, str]]) -> None:
    op, seen = toy(), list[tuple[str, str, int, int]]()
    ladder = explained.LadderAtPoint(op, "sm_90", None, {"first"})
    for name, rungs in explained.explain_ladders([ladder], lambda *step: seen.append(step)):
        assert (name, list(rungs)) == (op.name, ["first", "second"])
    assert asked == [("first", "none"), ("second", "all")]
    assert seen == [(op.name, "first", 1, 2), (op.name, "second", 2, 2)]
    assert len(dict(explained.explain_ladders([ladder]))[op.name]) == 2
    assert len(asked) == 2, "the second report takes both from the cache"
    list(explained.explain_ladders([explained.LadderAtPoint(op, "sm_90")]))
    assert asked[2:] == [("first", "all")], "a rung without a verdict is checked"


@pytest.mark.parametrize("cores", [1, 2])
def test_work_is_divided_among_forks(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(processes.os, "sched_getaffinity", lambda process: set(range(cores)))
    found = dict(processes.on_all_cores(["a", "b", "c"], lambda name: (name * 2, os.getpid())))
    assert {name: text for name, (text, _) in found.items()} == {"a": "aa", "b": "bb", "c": "cc"}
    assert (os.getpid() in {process for _, process in found.values()}) == (cores == 1)


def test_what_ends_a_fork_is_done_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()
    monkeypatch.setattr(processes.os, "sched_getaffinity", lambda process: {0, 1})
    found = dict(processes.on_all_cores(["a", "b"], lambda name: name if os.getpid() == here else os._exit(3)))
    assert found == {"a": "a", "b": "b"}
