"""Host-side tensor descriptors in interpreted kernels: results, clipping and checks."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from warpwise import triton as wt
from warpwise.cuda.errors import OutOfBounds, UninitializedRead, UnwrittenOutput


@wt.jit
def copy_box(source, target, row, column):
    target.store([row, column], source.load([row, column]))


@wt.jit
def copy_rows(source, target, read_row, write_row):
    target.store([write_row, 0], source.load([read_row, 0]))


@wt.jit
def add_to_box(target):
    target.store([0, 0], target.load([0, 0]) + 1.0)


@wt.jit
def transpose_box(source, target):
    target.store([0, 0], source.load([0, 0]).T)


@wt.jit
def copy_from_batch(source, target, BLOCK: tl.constexpr):
    target.store([0, 0], source.load([tl.program_id(0) + 1, 0, 0]).reshape(BLOCK, BLOCK))


def boxes(tensor: torch.Tensor, *box: int) -> TensorDescriptor:
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(box))


def test_boxes_past_the_end_load_zeros_and_store_nothing():
    source, target = torch.arange(15 * 20.0).view(15, 20), torch.full((15, 20), -1.0)
    copy_box[(1,)](boxes(source, 8, 16), boxes(target, 8, 16), 8, 16)
    expected = torch.full((15, 20), -1.0)
    expected[8:, 16:] = source[8:, 16:]
    assert torch.equal(target, expected)
    wide = torch.full((16, 32), -1.0)
    copy_box[(1,)](boxes(source, 8, 16), boxes(wide, 8, 16), 8, 16)
    assert wide[15].tolist() == [-1.0] * 16 + [0.0] * 16
    assert (wide[8:15, 20:] == 0).all()


def test_transposed_and_batched_boxes():
    source, target = torch.randn(8, 16), torch.empty(16, 8)
    transpose_box[(1,)](boxes(source, 8, 16), wt.out(boxes(target, 16, 8)))
    assert torch.equal(target, source.t())
    batch, one = torch.randn(3, 16, 16), torch.empty(16, 16)
    copy_from_batch[(1,)](boxes(batch, 1, 16, 16), wt.out(boxes(one, 16, 16)), BLOCK=16)
    assert torch.equal(one, batch[1])


def test_unwritten_output_through_a_descriptor():
    source, target = torch.ones(8, 16), torch.empty(16, 16)
    with pytest.raises(UnwrittenOutput, match="128 of the 256 elements of 'target' were never written"):
        copy_box[(1,)](boxes(source, 8, 16), wt.out(boxes(target, 8, 16)), 0, 0)
    with pytest.raises(UninitializedRead, match="an output element that no program has written"):
        add_to_box[(1,)](wt.out(boxes(target, 16, 16)))


def test_descriptor_shape_larger_than_the_tensor():
    source, target = torch.ones(8, 16), torch.empty(8, 16)
    longer = TensorDescriptor(source, [9, 16], [16, 1], [16, 16])
    with pytest.raises(OutOfBounds, match="1 past its last element"):
        copy_box[(1,)](longer, boxes(target, 16, 16), 0, 0)


def test_negative_coordinates_load_zeros_and_may_not_be_stored_to():
    """As TMA does: loads are clipped on every side, stores only at the end."""
    source, target = torch.arange(16 * 16.0).view(16, 16), torch.full((16, 16), -1.0)

    copy_rows[(1,)](boxes(source, 16, 16), boxes(target, 16, 16), -3, 0)
    assert torch.equal(target[3:], source[:13])
    assert (target[:3] == 0).all()
    with pytest.raises(OutOfBounds, match=r"store of a box that starts at \[-3, 0\]: only a load may"):
        copy_rows[(1,)](boxes(source, 16, 16), boxes(target, 16, 16), 0, -3)
