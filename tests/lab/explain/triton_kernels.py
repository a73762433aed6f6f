"""Triton kernels to be explained."""

import triton.language as tl

from warpwise import triton as wt


@wt.jit
def strided_copy(x_ptr, y_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets * STRIDE, mask=offsets < n)
    tl.store(y_ptr + offsets, x, mask=offsets < n)


@wt.jit
def transposed(x_ptr, y_ptr, SIDE: tl.constexpr):
    rows, columns = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    block = tl.load(x_ptr + columns * SIDE + rows)
    tl.store(y_ptr + rows * SIDE + columns, block + 1)


@wt.jit
def beyond(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n))


@wt.jit
def added(x_ptr, sum_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(sum_ptr + offsets % 2, tl.load(x_ptr + offsets))


@wt.jit
def product(a_ptr, b_ptr, c_ptr, SIDE: tl.constexpr):
    rows, columns = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    a = tl.load(a_ptr + rows * SIDE + columns)
    b = tl.load(b_ptr + rows * SIDE + columns)
    tl.store(c_ptr + rows * SIDE + columns, tl.dot(a, b).to(tl.float16))


@wt.jit
def product_in_tf32(a_ptr, b_ptr, c_ptr, SIDE: tl.constexpr):
    rows, columns = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    a, b = tl.load(a_ptr + rows * SIDE + columns), tl.load(b_ptr + rows * SIDE + columns)
    tl.store(c_ptr + rows * SIDE + columns, tl.dot(a, b))
