"""Gluon kernels on a CPU: results beside PyTorch, and the findings of kernels with a planted bug."""

from __future__ import annotations

import pytest
import torch
from click.testing import CliRunner
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    mma_v2,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from warpwise import triton as wt
from warpwise.cli import cli
from warpwise.cuda.errors import (
    CompileError,
    DataRace,
    Deadlock,
    OutOfBounds,
    UndefinedBehaviour,
    UninitializedRead,
    UnsupportedFeature,
)

GLUON_FILE = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def scale(x, y, n, BLOCK: gl.constexpr):
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, gl.BlockedLayout([1], [32], [4], [0]))
    gl.store(y + i, 2 * gl.load(x + i, mask=i < n), mask=i < n)
"""


@wt.jit
@gluon.jit
def scale(x, y, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    gl.store(y + i, 2 * gl.load(x + i, mask=i < n), mask=i < n)


@gluon.jit
def row_offsets(M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    rows = gl.arange(0, M, gl.SliceLayout(1, layout))
    columns = gl.arange(0, N, gl.SliceLayout(0, layout))
    return rows[:, None] * N + columns[None, :]


@wt.jit
@gluon.jit
def softmax(x, y, M: gl.constexpr, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    offsets = row_offsets(M, N, layout)
    value = gl.load(x + offsets)
    value = gl.exp(value - gl.max(value, axis=1)[:, None])
    gl.store(y + offsets, value / gl.sum(value, axis=1)[:, None])


@wt.jit
@gluon.jit
def transpose(x, y, M: gl.constexpr, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[1, 0])
    tile = gl.allocate_shared_memory(gl.float32, [M, N], shared, gl.load(x + row_offsets(M, N, layout)))
    in_registers = gl.permute(tile.load(layout), (1, 0))
    turned = gl.convert_layout(in_registers, layout) + tile.permute((1, 0)).load(layout)
    gl.store(y + row_offsets(N, M, layout), turned)


@wt.jit
@gluon.jit
def add_pipelined(x, z, y, n, BLOCK: gl.constexpr, STAGES: gl.constexpr, OUTSTANDING: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
    i = gl.arange(0, BLOCK, layout)
    x_tiles = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK], shared)
    z_tiles = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK], shared)
    loaded = 0
    for _ in gl.static_range(STAGES - 1):
        offsets = loaded * BLOCK + i
        async_copy.async_copy_global_to_shared(x_tiles.index(loaded % STAGES), x + offsets, mask=offsets < n)
        async_copy.async_copy_global_to_shared(z_tiles.index(loaded % STAGES), z + offsets, mask=offsets < n)
        async_copy.commit_group()
        loaded += 1
    for tile in range(gl.cdiv(n, BLOCK)):
        offsets = loaded * BLOCK + i
        async_copy.async_copy_global_to_shared(x_tiles.index(loaded % STAGES), x + offsets, mask=offsets < n)
        async_copy.async_copy_global_to_shared(z_tiles.index(loaded % STAGES), z + offsets, mask=offsets < n)
        async_copy.commit_group()
        loaded += 1
        async_copy.wait_group(OUTSTANDING)
        total = x_tiles.index(tile % STAGES).load(layout) + z_tiles.index(tile % STAGES).load(layout)
        gl.store(y + tile * BLOCK + i, total, mask=tile * BLOCK + i < n)


@wt.jit
@gluon.jit
def matmul(a_desc, b_desc, c_desc, OVERLAP: gl.constexpr, BUG: gl.constexpr, num_warps: gl.constexpr):
    BLOCK_M: gl.constexpr = c_desc.block_type.shape[0]
    BLOCK_N: gl.constexpr = c_desc.block_type.shape[1]
    BLOCK_K: gl.constexpr = a_desc.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [num_warps, 1], [16, BLOCK_N, 16])
    a_tile = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b_tile = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    row, column = gl.program_id(0) * BLOCK_M, gl.program_id(1) * BLOCK_N
    acc = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, layout)
    if BUG == "no mma wait":
        acc = warpgroup_mma_init(acc)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    if BUG != "no init":
        mbarrier.init(bar, count=1)
    phase = 0
    for k in range(0, a_desc.shape[1], BLOCK_K):
        if BUG != "no expect":
            tiles: gl.constexpr = 1 if BUG == "expect less" else 3 if BUG == "expect more" else 2
            mbarrier.expect(bar, tiles * a_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(a_desc, [row, k], bar, a_tile)
        tma.async_copy_global_to_shared(b_desc, [column, k], bar, b_tile)
        if BUG != "no wait":
            mbarrier.wait(bar, phase=phase)
        if BUG != "phase":
            phase ^= 1
        acc = warpgroup_mma(a_tile, b_tile.permute((1, 0)), acc, is_async=OVERLAP)
        if OVERLAP and BUG != "no mma wait":
            acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    if BUG == "no mma wait":
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    mbarrier.invalidate(bar)
    c_tile = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_type.shape, c_desc.layout)
    if BUG != "no store":
        c_tile.store(acc)
    if BUG != "no fence":
        fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [0 if BUG == "programs" else row, column], c_tile)
    if BUG == "overwrite":
        c_tile.store(acc)
    tma.store_wait(pendings=0)


@gluon.jit
def load_partition(x_desc, tiles, full, empty, count):
    stages: gl.constexpr = tiles.type.shape[0]
    for i in range(count):
        mbarrier.wait(empty.index(i % stages), (i // stages & 1) ^ 1)
        mbarrier.expect(full.index(i % stages), x_desc.block_type.nbytes)
        start = [0, i * x_desc.block_shape[1]]
        tma.async_copy_global_to_shared(x_desc, start, full.index(i % stages), tiles.index(i % stages))


@gluon.jit
def sum_partition(tiles, full, empty, count, layout: gl.constexpr, BUG: gl.constexpr):
    stages: gl.constexpr = tiles.type.shape[0]
    total = gl.zeros(tiles.type.shape[1:], gl.float32, layout)
    for i in range(count):
        mbarrier.wait(full.index(i % stages), i // stages & 1)
        if BUG == "early release":
            mbarrier.arrive(empty.index(i % stages), count=1)
        total += tiles.index(i % stages).load(layout)
        if BUG == "":
            mbarrier.arrive(empty.index(i % stages), count=1)
    return (total,)


@wt.jit
@gluon.jit
def sum_tiles(x_desc, y, count, STAGES: gl.constexpr, WORKER_WARPS: gl.constexpr, BUG: gl.constexpr):
    M: gl.constexpr = x_desc.block_shape[0]
    N: gl.constexpr = x_desc.block_shape[1]
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    tiles = gl.allocate_shared_memory(gl.float32, [STAGES, M, N], x_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    (total,) = gl.warp_specialize(
        [
            (sum_partition, (tiles, full, empty, count, layout, BUG)),
            (load_partition, (x_desc, tiles, full, empty, count)),
        ],
        [WORKER_WARPS],
        [24],
    )
    gl.store(y + row_offsets(M, N, layout), total)


@wt.jit
@gluon.jit
def sum_of_stages(x, y, BLOCK: gl.constexpr, FIRST: gl.constexpr, PREDICATE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, BLOCK, layout)
    stages = gl.allocate_shared_memory(gl.float32, [2] + (BLOCK,), gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bars = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bars.index(0), count=1)
    mbarrier.arrive(bars.index(FIRST), count=1, pred=PREDICATE)
    stages.index(0).store(gl.load(x + i))
    stages.index(1).store(gl.load(x + BLOCK + i))
    gl.static_assert(gl.bank_conflicts(i.type.with_element_ty(gl.float32), stages.index(0).type) == 0)
    halves = stages.reshape([2 * BLOCK]).slice(BLOCK, BLOCK)
    gl.store(y + i, stages.index(0).load(layout) + halves.load(layout))


@wt.jit
@gluon.jit
def copy_by_descriptors_made_in_the_kernel(x, y, M: gl.constexpr, N: gl.constexpr):
    shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([M, N], gl.float32)
    source = tma.make_tensor_descriptor(x, [M, N], [N, 1], [M, N], shared)
    target = tma.make_tensor_descriptor(y, [M, N], [N, 1], [M, N], shared)
    tile = gl.allocate_shared_memory(gl.float32, [M, N], shared)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, 1)
    mbarrier.expect(bar, source.block_type.nbytes)
    tma.async_copy_global_to_shared(source, [0, 0], bar, tile)
    mbarrier.wait(bar, 0)
    tma.async_copy_shared_to_global(target, [0, 0], tile)
    tma.store_wait(0)


@wt.jit
@gluon.jit
def matmul_mma_v2(a, b, c, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    offsets = row_offsets(N, N, layout)
    left = gl.convert_layout(gl.load(a + offsets), gl.DotOperandLayout(0, mma, 2))
    right = gl.convert_layout(gl.load(b + offsets), gl.DotOperandLayout(1, mma, 2))
    product = mma_v2(left, right, gl.zeros([N, N], gl.float32, mma))
    gl.store(c + offsets, gl.convert_layout(product, layout))


@wt.jit
@gluon.jit
def mismatched_layouts(x, y, BLOCK: gl.constexpr):
    first = gl.arange(0, BLOCK, gl.BlockedLayout([1], [32], [4], [0]))
    second = gl.arange(0, BLOCK, gl.BlockedLayout([2], [32], [4], [0]))
    gl.store(y + first, gl.load(x + first + second))


@wt.jit
@gluon.jit
def copy_with_mbarrier_arrive(x, y, BLOCK: gl.constexpr):
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    async_copy.mbarrier_arrive(bar)


def boxes(tensor: torch.Tensor, *box: int) -> TensorDescriptor:
    layout = gl.NVMMASharedLayout.get_default_for(list(box), gl.float16 if tensor.dtype.itemsize == 2 else gl.float32)
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(box), layout)


def run_matmul(overlap: bool = False, bug: str = "") -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    a, b = torch.randn(80, 96, dtype=torch.float16), torch.randn(72, 96, dtype=torch.float16)
    c = torch.zeros(80, 72)
    matmul[(2, 2)](boxes(a, 64, 32), boxes(b, 64, 32), boxes(c, 64, 64), overlap, bug, num_warps=4)
    return c, a.float() @ b.float().T


def test_elementwise_kernel_with_a_layout():
    x, y = torch.randn(1000), torch.empty(1000)
    scale[4](x, wt.out(y), 1000, BLOCK=256)
    assert torch.equal(y, 2 * x)
    with pytest.raises(OutOfBounds, match=r"read of x\[1000\], 1 past its last element"):
        scale[4](x, wt.out(y), 1001, BLOCK=256)


def test_reductions_slices_and_transposition():
    x, y = torch.randn(16, 32), torch.empty(16, 32)
    softmax[1](x, wt.out(y), M=16, N=32)
    torch.testing.assert_close(y, x.softmax(1))
    turned = torch.empty(32, 16)
    transpose[1](x, wt.out(turned), M=16, N=32)
    assert torch.equal(turned, 2 * x.T)


def test_pipelined_async_copies():
    x, z, y = torch.randn(1000), torch.randn(1000), torch.empty(1000)
    add_pipelined[1](x, z, wt.out(y), 1000, BLOCK=128, STAGES=3, OUTSTANDING=2)
    assert torch.equal(y, x + z)
    with pytest.raises(DataRace, match="load of shared memory .* which an unfinished async_copy writes") as raised:
        add_pipelined[1](x, z, wt.out(y), 1000, BLOCK=128, STAGES=3, OUTSTANDING=3)
    assert "async_copy.wait_group before the access" in str(raised.value)


@pytest.mark.parametrize("overlap", [False, True])
def test_matmul_with_tma_mbarriers_and_warpgroup_mma(overlap):
    result, expected = run_matmul(overlap)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "bug, error, message",
    [
        ("no init", UndefinedBehaviour, "is used before mbarrier.init"),
        ("no expect", Deadlock, "1 of 1 arrivals are missing and 8,192 more bytes were copied than"),
        ("expect less", DataRace, "warpgroup_mma of shared memory .* which an unfinished TMA load writes"),
        ("expect more", Deadlock, "0 phases have completed; in the current one 4,096 bytes that mbarrier.expect"),
        ("no wait", DataRace, "warpgroup_mma of shared memory .* which an unfinished TMA load writes"),
        ("phase", Deadlock, "mbarrier.wait for phase 0 never ends: 2 phases have completed"),
        ("no mma wait", DataRace, "TMA load to shared memory .* which an unfinished warpgroup_mma reads"),
        ("no store", UninitializedRead, "TMA store of shared memory .* of which 4,096 elements were never written"),
        ("no fence", DataRace, "TMA store of shared memory .* without a fence_async_shared since"),
        ("overwrite", DataRace, "store to shared memory .* which an unfinished TMA store reads"),
        ("programs", DataRace, r"write of c_desc\[0\], which program \(0, 0, 0\) writes"),
    ],
)
def test_planted_bugs(bug, error, message):
    with pytest.raises(error, match=message) as raised:
        run_matmul(overlap=bug == "no mma wait", bug=bug)
    assert "test_gluon.py:" in str(raised.value)


def test_descriptors_made_in_the_kernel_and_mma_v2():
    x, y = torch.randn(16, 32), torch.empty(16, 32)
    copy_by_descriptors_made_in_the_kernel[1](x, wt.out(y), M=16, N=32)
    assert torch.equal(x, y)
    a, b, c = torch.randn(64, 64).half(), torch.randn(64, 64).half(), torch.empty(64, 64)
    matmul_mma_v2[1](a, b, wt.out(c), N=64)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-4, atol=1e-4)


def test_warp_specialised_partitions():
    x, y = torch.randint(0, 9, (16, 320)).float(), torch.empty(16, 32)
    sum_tiles[1](boxes(x, 16, 32), wt.out(y), 10, STAGES=3, WORKER_WARPS=1, BUG="")
    assert torch.equal(y, x.view(16, 10, 32).sum(1))
    with pytest.raises(DataRace, match="load of shared memory .* which an unfinished TMA load writes"):
        sum_tiles[1](boxes(x, 16, 32), wt.out(y), 10, STAGES=1, WORKER_WARPS=1, BUG="early release")
    with pytest.raises(Deadlock, match=r"mbarrier.wait for phase . never ends: .* 1 of 1 arrivals are missing"):
        sum_tiles[1](boxes(x, 16, 32), wt.out(y), 10, STAGES=3, WORKER_WARPS=1, BUG="no release")
    y.fill_(-1)
    sum_tiles[1](boxes(x, 16, 32), wt.out(y), 10, STAGES=1, WORKER_WARPS=1, BUG="")
    assert torch.equal(y, x.view(16, 10, 32).sum(1))


def test_an_index_outside_of_shared_memory_is_found_at_the_access():
    x, y = torch.randn(256), torch.empty(128)
    sum_of_stages[1](x, wt.out(y), BLOCK=128, FIRST=-1, PREDICATE=False)
    assert torch.equal(y, x[:128] + x[128:])
    with pytest.raises(OutOfBounds, match="index 2 of shared memory allocated at line .*, which has 2 blocks"):
        sum_of_stages[1](x, wt.out(y), BLOCK=128, FIRST=2, PREDICATE=True)


def test_layouts_are_checked():
    x, y = torch.randn(256), torch.empty(256)
    with pytest.raises(CompileError, match="Layout mismatch in broadcast"):
        mismatched_layouts[1](x, y, BLOCK=128)
    with pytest.raises(CompileError, match=r"the layout has 4 warps .* num_warps=8"):
        scale[1](x, y, 256, BLOCK=256, num_warps=8)


def test_check_takes_a_file_with_gluon_kernels(tmp_path):
    path = tmp_path / "gluon_kernel.py"
    path.write_text(GLUON_FILE)
    arguments = ["--arg", "x=f32[1000]", "--arg", "y=out:f32[1000]", "--arg", "n=1000", "--arg", "BLOCK=256"]
    result = CliRunner().invoke(cli, ["check", str(path), "--kernel", "scale", "--grid", "4", *arguments])
    assert "no finding" in result.output


def test_unsupported_operations_are_named():
    with pytest.raises(
        UnsupportedFeature, match=r"async_copy_mbarrier_arrive is not supported on the CPU: use"
    ) as raised:
        copy_with_mbarrier_arrive[1](torch.zeros(8), torch.zeros(8), BLOCK=8)
    assert "async_copy.mbarrier_arrive(bar)" in str(raised.value)


def test_compiled_without_a_gpu():
    x = torch.empty(1000, device="meta")
    assert "st.global" in scale.compile_for(x, x, 1000, BLOCK=256, target="sm_90").ptx
