"""Kernels that load the addresses of tensors, which are no arguments, from a table."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl

from warpwise import triton as wt
from warpwise.cuda import DataRace, OutOfBounds


@wt.jit
def halve_each(table_ptr, sizes_ptr, BLOCK: tl.constexpr):
    number = tl.program_id(0)
    x_ptr = tl.load(table_ptr + number).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, BLOCK)
    mask = at < tl.load(sizes_ptr + number)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=mask) / 2, mask=mask)


@wt.jit
def shift(from_ptr, to_ptr, BLOCK: tl.constexpr):
    number, at = tl.program_id(0), tl.arange(0, BLOCK)
    following = tl.load(from_ptr + (number + 1) % tl.num_programs(0)).to(tl.pointer_type(tl.float32))
    own = tl.load(to_ptr + number).to(tl.pointer_type(tl.float32))
    tl.store(own + at, tl.load(following + at))


def table(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([tensor.data_ptr() for tensor in tensors])


def test_tensors_behind_a_table_of_addresses() -> None:
    tensors = [torch.randn(size) for size in (5, 32, 17)]
    expected = [tensor / 2 for tensor in tensors]
    assert halve_each[3].check(table(tensors), torch.tensor([5, 32, 17]), BLOCK=32) == []
    for tensor, half in zip(tensors, expected, strict=True):
        torch.testing.assert_close(tensor, half)


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.grad, torch.func.functionalize])
def test_a_tensor_that_outlives_its_transform_is_no_target(transform) -> None:
    kept = []
    transform(lambda x: kept.append(x * 2) or x.sum())(torch.ones(4, 3) if transform is torch.vmap else torch.ones(4))
    tensors = [torch.randn(5), torch.randn(32)]
    expected = [tensor / 2 for tensor in tensors]
    halve_each[2](table(tensors), torch.tensor([5, 32]), BLOCK=32)
    torch.testing.assert_close(tensors, expected)
    assert len(kept) == 1


def test_an_access_past_the_end_names_the_shape() -> None:
    tensors = [torch.randn(32), torch.randn(4, 3)]
    with pytest.raises(OutOfBounds, match=r"has 12 elements, shape \(4, 3\)"):
        halve_each[2](table(tensors), torch.tensor([32, 13]), BLOCK=32)


def test_programs_race_through_pointers() -> None:
    inputs, outputs = [torch.randn(8) for _ in range(3)], [torch.randn(8) for _ in range(3)]
    assert shift[3].check(table(inputs), table(outputs), BLOCK=8) == []
    assert {finding.kind for finding in shift[3].check(table(inputs), table(inputs), BLOCK=8)} == {DataRace}


@pytest.mark.parametrize("step", [4, 8])
def test_slices_of_one_tensor_race_only_if_they_overlap(step: int) -> None:
    whole, inputs = torch.zeros(32), [torch.full((8,), float(value)) for value in range(3)]
    slices = [whole[step * number :][:8] for number in range(3)]
    assert bool(shift[3].check(table(inputs), table(slices), BLOCK=8)) == (step < 8)


@wt.jit
def store_twice(x_ptr, table_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(x_ptr + at, at.to(tl.float32))
    else:
        tl.store(tl.load(table_ptr).to(tl.pointer_type(tl.float32)) + at, at + 1.0)


def test_an_argument_behind_a_pointer_is_the_same_memory() -> None:
    x = torch.zeros(8)
    (finding,) = store_twice[2].check(x, table([x]), BLOCK=8)
    assert finding.kind is DataRace and finding.variable == "x_ptr"
