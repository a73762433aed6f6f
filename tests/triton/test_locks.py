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
