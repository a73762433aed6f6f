"""Views as arguments: an access outside of the view is found, and the hint says if its storage has the element."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt


@wt.jit
def lengths(offsets_ptr, out_ptr, SHIFT: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, tl.load(offsets_ptr + row + SHIFT) - tl.load(offsets_ptr + row))


@pytest.mark.parametrize("shift, inside", [(1, True), (-1, True), (3, False), (-2, False)])
def test_the_hint_of_an_access_outside_of_a_view(shift: int, inside: bool) -> None:
    whole = torch.arange(4)
    (finding,) = lengths[2].check(whole[1:3], torch.zeros(2, dtype=torch.int64), shift)
    assert finding.variable == "offsets_ptr"
    assert ("offsets_ptr is a view, and its storage has this element" in finding.hint) == inside


def test_one_element_is_no_elements() -> None:
    (finding,) = lengths[1].check(torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), 1)
    assert "offsets_ptr has 1 element, shape (1,)" in finding.message
