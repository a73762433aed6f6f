"""Python's ``assert`` in a Triton kernel."""

from __future__ import annotations

import torch
import triton.language as tl

from warpwise import triton as wt


@wt.jit
def asserting_of_a_block(x_ptr, LIMIT: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    assert at < LIMIT
    assert N > 2, f"{N} is too few"
    tl.store(x_ptr + at, 1.0)


def test_an_assert_tests_each_element_and_the_kernel_continues() -> None:
    x = torch.zeros(2)
    findings = asserting_of_a_block[1].check(x, 1, 2)
    messages = [finding.message.partition(": ")[2] for finding in findings]
    assert messages == ["device_assert failed: at < LIMIT", "device_assert failed: 2 is too few"]
    assert findings[0].access is not None
    assert findings[0].access.thread == (1, 0, 0)
    assert x.tolist() == [1, 1]
    assert asserting_of_a_block[1].check(torch.zeros(4), 4, 4) == []


@wt.jit
def assuming(x_ptr, n, BLOCK: tl.constexpr):
    tl.assume(n > 0)
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 1.0, mask=at < n)


def test_a_false_assumption_is_found() -> None:
    assert assuming[1].check(torch.zeros(4), 4, 4) == []
    (finding,) = assuming[1].check(torch.zeros(4), 0, 4)
    assert finding.message == "program (0, 0, 0): tl.assume failed: the condition is false"
