"""Locks of Triton programs: they need acquire and release semantics, and a scope that includes other programs."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import DataRace


@wt.jit
def count_under_a_lock(x_ptr, lock_ptr, TAKE: tl.constexpr, FREE: tl.constexpr, SCOPE: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1, sem=TAKE, scope=SCOPE) == 1:
        pass
    tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0, sem=FREE, scope=SCOPE)


@pytest.mark.parametrize(
    "take, free, scope, ordered",
    [
        ("acquire", "release", "gpu", True),
        ("relaxed", "release", "gpu", False),
        ("acquire", "relaxed", "gpu", False),
        ("acquire", "release", "cta", False),
    ],
)
def test_a_lock_acquires_and_releases_in_scope_gpu(take: str, free: str, scope: str, ordered: bool) -> None:
    x, lock = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    findings = count_under_a_lock[4].check(x, lock, take, free, scope)
    assert (DataRace in {finding.kind for finding in findings}) != ordered


@wt.jit
def store_after_the_unlock(x_ptr, lock_ptr, n):
    for _ in range(n):
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        tl.store(x_ptr, tl.load(x_ptr) + 1)
        tl.atomic_xchg(lock_ptr, 0)
    tl.store(x_ptr + 1, tl.program_id(0))


@pytest.mark.parametrize("n", [1, 20])
def test_a_store_after_the_unlock(n: int) -> None:
    x, lock = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    findings = store_after_the_unlock[4].check(x, lock, n)
    assert {(finding.kind, finding.index) for finding in findings} == {(DataRace, 1)}
    assert x.tolist() == [4 * n, 3]


@wt.jit
def partial_after_the_count(x_ptr, count_ptr, PROGRAMS: tl.constexpr):
    number = tl.atomic_add(count_ptr, 1)
    tl.store(x_ptr + tl.program_id(0), 1)
    if number == PROGRAMS - 1:
        tl.store(x_ptr + PROGRAMS, tl.sum(tl.load(x_ptr + tl.arange(0, PROGRAMS))))


def test_the_last_program_reads_what_others_store_after_the_count() -> None:
    findings = partial_after_the_count[100].check(torch.zeros(129), torch.zeros(1, dtype=torch.int32), 128)
    assert findings == []  # fewer programs than PROGRAMS: none is the last
    findings = partial_after_the_count[128].check(torch.zeros(129), torch.zeros(1, dtype=torch.int32), 128)
    assert {finding.kind for finding in findings} == {DataRace}


@wt.jit
def add_under_a_lock(x_ptr, lock_ptr, HOW: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    mask = at < (1 if HOW == "one lane" else BLOCK)
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    tl.store(x_ptr + at, x + 1, mask=mask)
    if HOW == "barrier":
        tl.debug_barrier()
    if HOW == "reduction":
        tl.store(x_ptr + BLOCK, tl.sum(x, axis=0))
    if HOW == "two atomics":
        tl.atomic_xchg(lock_ptr + 1, 1)
    if HOW == "result used":
        tl.device_assert(tl.atomic_xchg(lock_ptr, 0) == 1)
    elif HOW == "compare and swap":
        tl.atomic_cas(lock_ptr, 1, 0)
    else:
        tl.atomic_xchg(lock_ptr, 0)


HOW = ("no barrier", "two atomics", "barrier", "reduction", "one lane", "result used", "compare and swap")


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("how", HOW)
def test_one_thread_unlocks_without_waiting_for_the_others(how: str, num_warps: int) -> None:
    x, lock = torch.zeros(513), torch.zeros(2, dtype=torch.int32)
    findings = add_under_a_lock[4].check(x, lock, how, 512, num_warps=num_warps)
    assert {finding.kind for finding in findings} == ({DataRace} if how in HOW[:2] and num_warps > 1 else set())
    assert all("put tl.debug_barrier() before it" in finding.hint for finding in findings)
    assert x[:512].tolist() == ([4.0] + 511 * [0.0] if how == "one lane" else 512 * [4.0])


@wt.jit
def pass_a_block_on(x_ptr, flag_ptr, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(x_ptr + at, at + 1)
        if BARRIER:
            tl.debug_barrier()
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(x_ptr + BLOCK + at, tl.load(x_ptr + at))


@pytest.mark.parametrize("barrier", [False, True])
def test_a_flag_after_a_block(barrier: bool) -> None:
    x = torch.zeros(512, dtype=torch.int32)
    findings = pass_a_block_on[2].check(x, torch.zeros(1, dtype=torch.int32), barrier, 256)
    assert [finding.index for finding in findings] == ([] if barrier else [0])
    assert barrier or "executes the atomic at line" in findings[0].hint
