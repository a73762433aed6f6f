"""Results of interpreted kernels on CPU tensors, against PyTorch."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples
from triton.language import program_id
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

from warpwise import triton as wt
from warpwise.triton import lib

BLOCK_POINTERS = tuple(int(part) for part in triton.__version__.split(".")[:2]) < (3, 9)
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@wt.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@settings(max_examples=examples(30), deadline=None)
@given(n=st.integers(1, 700), block=st.sampled_from([16, 64, 256]), seed=st.integers(0, 3))
def test_vector_add(n: int, block: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, n, generator=generator)
    out = torch.empty(n)
    add[lambda meta: (wt.cdiv(n, meta["BLOCK"]),)](x, y, wt.out(out), n, BLOCK=block, num_warps=4)
    assert torch.equal(out, x + y)


def test_numpy_arrays_are_written_in_place() -> None:
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, dtype=np.float32)
    add[1](x, x, wt.out(out), 10, BLOCK=16)
    assert np.array_equal(out, 2 * x)


def test_empty_grid_runs_no_program() -> None:
    x = torch.ones(4)
    add[0](x, x, x, 4, BLOCK=4)
    assert torch.equal(x, torch.ones(4))


@wt.jit
def softmax_row(x_ptr, out_ptr, cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + offsets, mask=offsets < cols, other=-float("inf"))
    exponentials = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + offsets, exponentials / tl.sum(exponentials, axis=0), mask=offsets < cols)


@settings(max_examples=examples(15), deadline=None)
@given(rows=st.integers(1, 5), cols=st.integers(1, 100), gap=st.integers(0, 3))
def test_softmax_of_strided_rows(rows: int, cols: int, gap: int) -> None:
    x = torch.randn(rows, cols + gap)[:, :cols]
    out = torch.empty(rows, cols)
    softmax_row[rows,](x, wt.out(out), cols, x.stride(0), BLOCK=128)
    torch.testing.assert_close(out, x.softmax(-1))


@wt.jit
def online_softmax(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = x_ptr + tl.program_id(0) * cols
    offsets = tl.arange(0, BLOCK)
    greatest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        x = tl.load(row + start + offsets, mask=start + offsets < cols, other=float("-inf"))
        greatest, total = lib.online_softmax_combine(greatest, total, x, tl.where(x > float("-inf"), 1.0, 0.0))
    row_max, row_sum = tl.reduce((greatest, total), 0, lib.online_softmax_combine)
    for start in range(0, cols, BLOCK):
        x = tl.load(row + start + offsets, mask=start + offsets < cols)
        result = tl.exp(x - row_max) / row_sum
        tl.store(out_ptr + tl.program_id(0) * cols + start + offsets, result, mask=start + offsets < cols)


@pytest.mark.parametrize("cols", [1, 31, 100])
def test_online_softmax_combine(cols: int) -> None:
    x = torch.randn(3, cols) * 30
    out = torch.empty_like(x)
    online_softmax[3,](x, wt.out(out), cols, BLOCK=32)
    torch.testing.assert_close(out, x.softmax(-1))


@wt.jit
def tile_order(out_ptr, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    m, n = lib.tile_index(tl.program_id(0), tiles_m, tiles_n, GROUP_M)
    tl.store(out_ptr + m * tiles_n + n, tl.program_id(0))


@pytest.mark.parametrize("tiles_m, tiles_n, group", [(5, 7, 2), (8, 8, 4), (1, 3, 8), (6, 1, 4)])
def test_tile_index_visits_each_tile_once(tiles_m: int, tiles_n: int, group: int) -> None:
    out = torch.empty(tiles_m, tiles_n, dtype=torch.int32)
    tile_order[tiles_m * tiles_n](wt.out(out), tiles_m, tiles_n, group)
    assert torch.equal(out.flatten().sort().values, torch.arange(out.numel(), dtype=torch.int32))
    assert torch.equal(out[: min(group, tiles_m), 0], torch.arange(min(group, tiles_m), dtype=torch.int32))


@wt.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        inner = start + tl.arange(0, BK)
        a = tl.load(
            a_ptr + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & (inner[None, :] < K), other=0.0
        )
        b = tl.load(
            b_ptr + inner[:, None] * N + cols[None, :], mask=(inner[:, None] < K) & (cols[None, :] < N), other=0.0
        )
        total = tl.dot(a, b, total)
    where = c_ptr + rows[:, None] * N + cols[None, :]
    tl.store(where, total.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn], ids=str
)
def test_matmul_of_every_dtype(dtype: torch.dtype) -> None:
    m, n, k = 33, 20, 40
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    c = torch.empty(m, n, dtype=dtype)
    matmul[wt.cdiv(m, 16), wt.cdiv(n, 16)](a, b, wt.out(c), m, n, k, BM=16, BN=16, BK=16)
    exact = a.double() @ b.double()
    # Products of these dtypes are exact in float32. The errors are those of the sum and of the store, whose error is up
    # to 2**-10 for a subnormal float8_e4m3fn.
    subnormal = 2.0**-10 if dtype == torch.float8_e4m3fn else 0.0
    assert ((c.double() - exact).abs() <= torch.finfo(dtype).eps * exact.abs() + subnormal + 1e-5).all()


@wt.jit
def integer_dot(a_ptr, b_ptr, c_ptr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), out_dtype=tl.int32))


def test_integer_dot_is_exact() -> None:
    a, b = torch.randint(-128, 128, (2, 32, 32), dtype=torch.int8)
    c = torch.empty(32, 32, dtype=torch.int32)
    integer_dot[1](a, b, wt.out(c), 32)
    assert torch.equal(c, (a.long() @ b.long()).int())


@wt.jit
def doubled(x, factor: tl.constexpr = 2.0):
    return x * factor


@triton.jit
def doubled_and_more(x):
    return doubled(x) + LOG2E * x


@wt.jit
def nested(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n and not (offsets < 0)
    tl.store(out_ptr + offsets, doubled_and_more(tl.load(x_ptr + offsets, mask=mask)), mask=mask)


def test_device_functions_constants_and_boolean_operators() -> None:
    x, out = torch.randn(20), torch.empty(20)
    nested[3](x, wt.out(out), 20, BLOCK=8)
    torch.testing.assert_close(out, 2 * x + LOG2E.value * x)


def _scaling(factor: float):
    constant = tl.constexpr(factor)

    @wt.jit
    def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, offsets < n) * constant, offsets < n)

    return scale


def test_closure_variables() -> None:
    x, out = torch.randn(5), torch.empty(5)
    for kernel, factor in ((_scaling(3.0), 3.0), (_scaling(5.0), 5.0)):
        kernel[1](x, wt.out(out), 5, BLOCK=8)
        assert torch.equal(out, x * factor)


@wt.jit
def library(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    value, index = tl.max(x, axis=0, return_indices=True)
    tl.store(out_ptr + at, tl.cumsum(x, 0))
    tl.store(out_ptr + BLOCK + at, tl.sort(x))
    tl.store(out_ptr + 2 * BLOCK + at, tl.flip(x, 0))
    tl.store(out_ptr + 3 * BLOCK + at, libdevice.tanh(x))
    tl.store(out_ptr + 4 * BLOCK + at, tl.erf(x))
    tl.store(out_ptr + 5 * BLOCK + at, tl.cumsum(x, 0, reverse=True))
    tl.store(out_ptr + 6 * BLOCK + at, tl.rand(7, at))
    tl.store(out_ptr + 7 * BLOCK + at, tl.where(at == index, max(value, 1000.0), x.sum(axis=0)))


_specification = importlib.util.find_spec("triton.language.extra.libdevice")
_copy = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(_copy)
copied_rsqrt = _copy.rsqrt


@wt.jit
def reciprocal_roots(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, copied_rsqrt(tl.load(x_ptr + at)))


def test_a_function_of_a_copy_of_libdevice() -> None:
    x, out = torch.rand(8) + 1, torch.empty(8)
    reciprocal_roots[1](x, wt.out(out), 8)
    torch.testing.assert_close(out, x.rsqrt())


@wt.jit
def methods(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x.exp().log2().floor() + x.sqrt().ceil() + x.abs().sum())


def test_functions_that_are_methods_of_a_tensor() -> None:
    x, out = torch.rand(8) + 1, torch.empty(8)
    methods[1](x, wt.out(out), 8)
    torch.testing.assert_close(out, x.exp().log2().floor() + x.sqrt().ceil() + x.sum())


@wt.jit
def rounded(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, libdevice.llrint(tl.load(x_ptr + at).to(tl.float32)))


def test_llrint_of_reinterpreted_bytes() -> None:
    x, out = torch.tensor([0.5, 1.5, -2.5, 3.5]).to(torch.float8_e5m2), torch.empty(4, dtype=torch.int64)
    rounded[1](triton.reinterpret(x.view(torch.int8), tl.float8e5), wt.out(out), 4)
    assert out.tolist() == [0, 2, -2, 4]


def test_triton_language_functions() -> None:
    x, out = torch.randn(64, generator=torch.Generator().manual_seed(0)), torch.empty(8, 64)
    library[1](x, wt.out(out), 64)
    expected = [x.cumsum(0), x.sort().values, x.flip(0), x.tanh(), x.erf(), x.flip(0).cumsum(0).flip(0)]
    for row, wanted in zip(out, expected, strict=False):
        torch.testing.assert_close(row, wanted, rtol=1e-5, atol=1e-5)
    assert out[6].min() >= 0
    assert out[6].max() < 1
    assert len(out[6].unique()) > 60
    assert out[7, x.argmax()] == 1000
    rounding = 64 * torch.finfo(torch.float32).eps * x.abs().sum()  # of a sum of 64 terms, in any order
    assert (out[7].sort().values[:-1].double() - x.double().sum()).abs().max() <= rounding


@wt.jit
def block_pointers(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    first = tl.program_id(0) * BM
    source = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (first, 0), (BM, BN), (1, 0))
    target = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (first, 0), (BM, BN), (1, 0))
    for _ in range(0, N, BN):
        tl.store(target, tl.load(source, boundary_check=(0, 1), padding_option="zero") * 2, boundary_check=(0, 1))
        source = tl.advance(source, (0, BN))
        target = tl.advance(target, (0, BN))


@pytest.mark.skipif(not BLOCK_POINTERS, reason="this Triton has no block pointers")
def test_block_pointers() -> None:
    x = torch.randn(20, 37)
    out = torch.empty_like(x)
    block_pointers[wt.cdiv(20, 8)](x, wt.out(out), 20, 37, BM=8, BN=16)
    assert torch.equal(out, 2 * x)


@wt.jit
def descriptors(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [BM, BN])
    first = tl.program_id(0) * BM
    target.store([first, 0], source.load([first, 0]) * 2)


@wt.jit
def host_descriptors(source, target, BM: tl.constexpr):
    first = tl.program_id(0) * BM
    target.store([first, 0], source.load([first, 0]) * 2)


def test_tensor_descriptors() -> None:
    x = torch.randn(20, 32)
    out, again = torch.empty_like(x), torch.empty_like(x)
    descriptors[wt.cdiv(20, 8)](x, wt.out(out), 20, 32, BM=8, BN=32)
    assert torch.equal(out, 2 * x)
    sides = [TensorDescriptor.from_tensor(tensor, [8, 32]) for tensor in (x, again)]
    host_descriptors[wt.cdiv(20, 8)](*sides, BM=8)
    assert torch.equal(again, 2 * x)


@wt.jit
def histogram(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.atomic_add(counts_ptr + values, 1, mask=offsets < n)


@pytest.mark.parametrize("bins", [1, 3, 200])
def test_atomic_add_with_many_lanes_on_one_element(bins: int) -> None:
    x = torch.randint(0, bins, (1000,), dtype=torch.int32)
    counts = torch.zeros(bins, dtype=torch.int32)
    histogram[4](x, counts, 1000, BLOCK=256)
    assert torch.equal(counts, torch.bincount(x, minlength=bins).int())


@wt.jit
def extremes(x_ptr, out_ptr, old_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.atomic_max(out_ptr + at * 0, x)
    tl.atomic_min(out_ptr + 1 + at * 0, x)
    tl.store(old_ptr + at, tl.atomic_add(out_ptr + 2 + at * 0, 1.0))


def test_atomic_extremes_and_old_values() -> None:
    x, out, old = torch.randn(64), torch.zeros(3), torch.empty(64)
    extremes[4](x, out, wt.out(old), BLOCK=16)
    assert out[0] == x.max()
    assert out[1] == x.min()
    assert out[2] == 64
    assert torch.equal(old.sort().values, torch.arange(64.0)), "each lane must see a different old value"


@wt.jit
def by_value(out_ptr, flag, small, large, real):
    if flag:
        tl.store(out_ptr, small + large + real)


def test_scalar_argument_types() -> None:
    out = torch.zeros(1, dtype=torch.float64)
    by_value[1](out, True, 3, 2**40, 0.5)
    assert out.item() == float(np.float32(3 + 2**40) + np.float32(0.5))
    by_value[1](out, False, 1, 1, 1.0)
    assert out.item() != 3


@wt.jit
def unrolled(out_ptr, COUNT: tl.constexpr):
    total = 0
    for i in tl.static_range(COUNT):
        total += i
    for j in tl.range(0, COUNT, num_stages=2):
        total += j.to(tl.int32)
    tl.store(out_ptr, total)


def test_static_range_and_range() -> None:
    out = torch.empty(1, dtype=torch.int32)
    unrolled[1](wt.out(out), COUNT=5)
    assert out.item() == 20


@pytest.mark.parametrize("kernel", [add, wt.jit(triton.jit(add.fn)), wt.jit(do_not_specialize=["n"])(add.fn)])
def test_jit_of_functions_and_triton_kernels(kernel: wt.Kernel) -> None:
    x, out = torch.randn(10), torch.empty(10)
    kernel[1](x, x, wt.out(out), 10, BLOCK=16)
    assert torch.equal(out, x + x)


def test_triton_language_is_restored_after_a_launch() -> None:
    before = (tl.load, tl.core.load, tl.tensor.__add__, tl.constexpr.__add__, triton.JITFunction.__call__, tl.range)
    x = torch.ones(4)
    add[1](x, x, x, 4, BLOCK=4)
    after = (tl.load, tl.core.load, tl.tensor.__add__, tl.constexpr.__add__, triton.JITFunction.__call__, tl.range)
    assert before == after
    with pytest.raises(ValueError, match="jit"):
        tl.arange(0, 4)
