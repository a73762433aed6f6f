"""Host-side tensor descriptors in interpreted kernels: results, clipping and checks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from warpwise import triton as wt
from warpwise.cuda.errors import DataRace, OutOfBounds, UninitializedRead, UnwrittenOutput


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


@wt.jit
def scale_warp_specialised(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    for row in tl.range(0, M, BLOCK, num_stages=2, warp_specialize=True):
        tl.store_tensor_descriptor(y, [row, 0], tl.load_tensor_descriptor(x, [row, 0]) * 2)


@wt.jit
def matmul_persistent(a_ptr, b_ptr, c_ptr, M, N, K, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK, BLOCK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK, BLOCK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    tiles_m = tl.cdiv(M, BLOCK)
    for tile in tl.range(tl.program_id(0), tiles_m * tl.cdiv(N, BLOCK), PROGRAMS, flatten=True, warp_specialize=True):
        row, column = tile % tiles_m * BLOCK, tile // tiles_m * BLOCK
        total = tl.zeros((BLOCK, BLOCK), tl.float32)
        for k in range(tl.cdiv(K, BLOCK)):
            total = tl.dot(a.load([row, k * BLOCK]), b.load([column, k * BLOCK]).T, total)
        c.store([row, column], total.to(tl.float16))


@wt.jit
def accumulate(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, [BLOCK, N], [N, 1], [BLOCK, BLOCK])
    y.atomic_add([0, 0], x.load([tl.program_id(0) * BLOCK, 0]))


@wt.jit
def accumulate_without_atomics(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, [BLOCK, N], [N, 1], [BLOCK, BLOCK])
    y.store([0, 0], y.load([0, 0]) + x.load([tl.program_id(0) * BLOCK, 0]))


@wt.jit
def largest(x, y):
    y.atomic_max([0, 0], x.load([0, 0]))


@wt.jit
def permute_rows(x_ptr, rows_ptr, y_ptr, M, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [1, COLUMNS])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [1, COLUMNS])
    rows = tl.load(rows_ptr + tl.arange(0, ROWS))
    y.scatter(x.gather(rows, 0) + 1, rows, 0)


def test_descriptors_made_in_the_kernel():
    x = torch.randn(40, 16)
    y = torch.empty_like(x)
    scale_warp_specialised[(1,)](x, wt.out(y), 40, 16, BLOCK=16)
    assert torch.equal(y, 2 * x)
    with pytest.raises(OutOfBounds, match=r"read of x_ptr\[640\], 1 past its last element"):
        scale_warp_specialised[(1,)](x, y, 48, 16, BLOCK=16)


def test_warp_specialised_persistent_matmul():
    a, b = torch.randn(40, 48, dtype=torch.float16), torch.randn(56, 48, dtype=torch.float16)
    c = torch.empty(40, 56, dtype=torch.float16)
    matmul_persistent[(3,)](a, b, wt.out(c), 40, 56, 48, PROGRAMS=3, BLOCK=16)
    np.testing.assert_allclose(c.numpy(), a.float().numpy() @ b.float().numpy().T, rtol=2e-3, atol=2e-3)


def test_reductions_through_a_descriptor_are_atomic():
    x, y = torch.randint(0, 9, (64, 16)).float(), torch.zeros(16, 16)
    accumulate[(4,)](x, y, 64, 16, BLOCK=16)
    assert torch.equal(y, x.view(4, 16, 16).sum(0))
    with pytest.raises(DataRace, match=r"of y_ptr\[0\], which program \(0, 0, 0\) writes"):
        accumulate_without_atomics[(4,)](x + 1, y, 64, 16, BLOCK=16)
    halves = torch.randn(2, 8, 16).half()
    expected = halves.amax(0)
    largest[(1,)](boxes(halves[0], 8, 16), boxes(halves[1], 8, 16))
    assert torch.equal(halves[1], expected)


def test_gather_and_scatter_of_rows():
    x, y = torch.randn(16, 16), torch.zeros(16, 16)
    rows = torch.tensor([3, 1, 2, 0, 5, 4, 15, 9], dtype=torch.int32)
    permute_rows[(1,)](x, rows, y, 16, 16, ROWS=8, COLUMNS=16)
    expected = torch.zeros(16, 16)
    expected[rows] = x[rows] + 1
    assert torch.equal(y, expected)
    with pytest.raises(OutOfBounds, match="read of x_ptr"):
        permute_rows[(1,)](x, rows + 1, y, 17, 16, ROWS=8, COLUMNS=16)
