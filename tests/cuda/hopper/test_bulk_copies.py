"""Bulk copies (TMA): boxes of tensors of 1 to 5 dimensions, swizzles, stores, reductions, multicast."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpwise import cuda

HEAD = r"""
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/tma.cuh>
namespace sm90 = warpwise::sm90;
"""


def loads(dimensions: int) -> cuda.Kernel:
    """out = the bytes of the box at (x[0], x[1], ...), in the order of shared memory."""
    return loading_kernel(dimensions, "tile")


def loading_kernel(dimensions: int, mode: str) -> cuda.Kernel:
    """A block loads a box by the coordinates in x, and with mode "im2col" by the offsets after them, and copies it to
    out."""
    offsets = range(dimensions, 2 * dimensions - 2) if mode == "im2col" else range(0)
    at = ", ".join(f"%{3 + d}" for d in range(dimensions))
    more = f", {{{', '.join(f'%{3 + d}' for d in offsets)}}}" if offsets else ""
    values = ", ".join([*(f'"r"(x[{d}])' for d in range(dimensions)), *(f'"h"((short)x[{d}])' for d in offsets)])
    return cuda.load(
        HEAD
        + f"""
    extern "C" __global__ void copy(const __grid_constant__ sm90::TensorMap map, const int* x, unsigned* out,
                                    int bytes) {{
      extern __shared__ __align__(1024) unsigned box[];
      __shared__ unsigned long long barrier;
      const unsigned at = warpwise::shared_address(&barrier);
      if (threadIdx.x == 0) {{
        sm90::mbarrier_init(at, 1);
        sm90::fence_mbarrier_init();
        sm90::mbarrier_arrive_expect_tx(at, bytes);
        asm volatile("cp.async.bulk.tensor.{dimensions}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {{{at}}}], [%2]{more};"
                     :: "r"(warpwise::shared_address(box)), "l"(&map), "r"(at), {values} : "memory");
      }}
      __syncthreads();
      sm90::mbarrier_wait(at, 0);
      for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = box[i];
    }}"""
    )["copy"]


def swizzled(box: torch.Tensor, span: int) -> torch.Tensor:
    """The bytes of a dense box, which begins at a multiple of 1024, in the order of the swizzle of ``span`` bytes."""
    content = box.contiguous().view(torch.uint8).flatten()
    if not span:
        return content
    result = torch.empty_like(content)
    at = torch.arange(content.numel())
    result[at ^ ((at >> 7 & (span // 16 - 1)) << 4)] = content
    return result


def box_at(tensor: torch.Tensor, first: list[int], box: list[int], nan: bool = False) -> torch.Tensor:
    """The box of ``tensor`` at ``first``, with zeros outside the tensor, or the NaN of TMA, words of 0x7ff7."""
    result = torch.zeros(box, dtype=tensor.dtype)
    if nan:
        result.view(torch.int16).fill_(0x7FF7)
    inside = [slice(max(0, -x), max(0, min(b, size - x))) for x, b, size in zip(first, box, tensor.shape, strict=True)]
    taken = [slice(max(0, x), max(0, min(size, x + b))) for x, b, size in zip(first, box, tensor.shape, strict=True)]
    if all(part.start < part.stop for part in inside):
        result[tuple(inside)] = tensor[tuple(taken)]
    return result


@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 5])
def test_a_box_is_loaded_with_its_swizzle(dimensions, span):
    torch.manual_seed(dimensions)
    columns = span // 2 or 24
    shape, box = [3, 4, 5, 9, 40][-dimensions:], [2, 2, 3, 8, columns][-dimensions:]
    tensor = torch.randn(shape).half()
    kernel = loads(dimensions)
    for first in ([0] * dimensions, [1] * (dimensions - 1) + [24], [-1] * (dimensions - 1) + [-8]):
        wanted = swizzled(box_at(tensor, first, box), span)
        out = torch.empty(wanted.numel() // 4, dtype=torch.int32)
        x = torch.tensor(first[::-1], dtype=torch.int32)
        kernel[1, 32, wanted.numel()](cuda.tensor_map(tensor, box, swizzle=span), x, cuda.out(out), wanted.numel())
        assert torch.equal(out.view(torch.uint8), wanted), first


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_elements_outside_are_nan(dtype):
    tensor, first, box = torch.randn(9, 24).to(dtype), [-2, 16], [4, 16]
    wanted = box_at(tensor, first, box, nan=True).view(torch.int32)
    out = torch.empty_like(wanted)
    x = torch.tensor(first[::-1], dtype=torch.int32)
    made = cuda.tensor_map(tensor, box, swizzle=0, nan=True)
    loads(2)[1, 32, out.nbytes](made, x, cuda.out(out), out.nbytes)
    assert torch.equal(out, wanted)
    with pytest.raises(cuda.ArgumentError, match="expected float16, bfloat16, float32 or float64 with nan=True"):
        cuda.tensor_map(tensor.int(), box, swizzle=0, nan=True)


@pytest.mark.parametrize("span", [0, 64])
@pytest.mark.parametrize("steps", [(2, 1, 1), (3, 2, 1), (8, 5, 1)])
def test_element_strides(steps, span):
    """Of a box of n elements, ceil(n / step) are loaded, `step` apart; coordinates are those of the tensor."""
    tensor, box = torch.randn(20, 19, 40), [15, 6, 16]
    for first in ([0, 0, 0], [-1, 3, 24], [9, 17, -4]):
        wanted = swizzled(box_at(tensor, first, box)[:: steps[0], :: steps[1]], span)
        out = torch.empty(wanted.numel() // 4, dtype=torch.int32)
        x = torch.tensor(first[::-1], dtype=torch.int32)
        made = cuda.tensor_map(tensor, box, swizzle=span, steps=steps)
        loads(3)[1, 32, wanted.numel()](made, x, cuda.out(out), wanted.numel())
        assert torch.equal(out.view(torch.uint8), wanted), first
    for wrong in ((1, 1), (9, 1, 1), (1, 1, 2)):
        with pytest.raises(cuda.ArgumentError, match="expected steps to hold 3 element strides of 1 to 8"):
            cuda.tensor_map(tensor, box, swizzle=span, steps=wrong)


@given(data=st.data())
def test_boxes_of_drawn_shapes(data):
    rows, columns = data.draw(st.integers(1, 20)), 4 * data.draw(st.integers(1, 12))
    box = [data.draw(st.integers(1, 9)), 4 * data.draw(st.integers(1, 8))]
    first = [data.draw(st.integers(-10, 25)), data.draw(st.integers(-40, 60))]
    tensor = torch.arange(1.0, 1.0 + rows * columns).view(rows, columns)
    wanted = box_at(tensor, first, box)
    out = torch.empty(wanted.shape)
    x = torch.tensor(first[::-1], dtype=torch.int32)
    loads(2)[1, 32, out.nbytes](cuda.tensor_map(tensor, box, swizzle=0), x, cuda.out(out.view(torch.int32)), out.nbytes)
    assert torch.equal(out, wanted)


def test_float32_is_rounded_to_tf32():
    tensor = torch.tensor([[1.0, 1.0 + 2**-11, 1.0 + 3 * 2**-11, -(1.0 + 2**-10 + 2**-12)]])
    out = torch.empty(4)
    loads(2)[1, 32, 16](
        cuda.tensor_map(tensor, (1, 4), swizzle=0, tf32=True),
        torch.zeros(2, dtype=torch.int32),
        cuda.out(out.view(torch.int32)),
        16,
    )
    assert out.tolist() == [1.0, 1.0, 1.0 + 2**-9, -(1.0 + 2**-10)]


STORES = (
    HEAD
    + r"""
extern "C" __global__ void store(const __grid_constant__ sm90::TensorMap map, const float* from, int x, int y) {
  __shared__ alignas(1024) float box[8][32];
  for (int i = threadIdx.x; i < 256; i += 32) {
    const int row = i / 32, unit = i % 32 / 4 ^ row;  // of 16 bytes
    box[row][unit * 4 + i % 4] = from[i];
  }
  sm90::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    sm90::tma_store_2d(&map, warpwise::shared_address(box), x, y);
    sm90::tma_store_wait_read<0>();
  }
}
extern "C" __global__ void add(const __grid_constant__ sm90::TensorMap map) {
  __shared__ alignas(128) float box[32];
  box[threadIdx.x] = blockIdx.x + 1.0f;
  sm90::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%1}], [%2];"
                 :: "l"(&map), "r"(16), "r"(warpwise::shared_address(box)) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}
extern "C" __global__ void bytes(const float* from, float* to) {
  __shared__ alignas(16) float middle[64];
  __shared__ unsigned long long barrier;
  const unsigned at = warpwise::shared_address(&barrier);
  if (threadIdx.x == 0) {
    sm90::mbarrier_init(at, 1);
    sm90::fence_mbarrier_init();
    sm90::mbarrier_arrive_expect_tx(at, 256);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(warpwise::shared_address(middle)), "l"(from), "r"(256), "r"(at) : "memory");
  }
  __syncthreads();
  sm90::mbarrier_wait(at, 0);
  middle[threadIdx.x] *= 2.0f;
  sm90::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;"
                 :: "l"(to), "r"(warpwise::shared_address(middle)), "r"(256) : "memory");
}
"""
)


def test_a_box_is_stored_inside_the_tensor_only():
    box, c = torch.randn(8, 32), torch.zeros(10, 44)
    cuda.load(STORES)["store"][1, 32](cuda.tensor_map(c, (8, 32)), box, 20, 5)
    wanted = torch.zeros(10, 44)
    wanted[5:, 20:] = box[:5, :24]
    assert torch.equal(c, wanted)


def test_a_reduction_adds_to_the_tensor():
    c = torch.ones(40)
    cuda.load(STORES)["add"][5, 32](cuda.tensor_map(c, (32,), swizzle=0))
    assert torch.equal(c, torch.cat([torch.ones(16), torch.full((24,), 16.0)]))


def test_contiguous_bytes_are_copied_both_ways():
    x, y = torch.randn(64), torch.empty(64)
    cuda.load(STORES)["bytes"][1, 64](x, cuda.out(y))
    assert torch.equal(y, 2 * x)


MULTICAST = (
    HEAD
    + r"""
extern "C" __global__ void __cluster_dims__(4, 1, 1)
    multicast(const __grid_constant__ sm90::TensorMap map, float* out, int expected) {
  __shared__ alignas(128) float quarters[4][32];
  __shared__ unsigned long long barrier;
  const unsigned at = warpwise::shared_address(&barrier), rank = sm90::cluster_ctarank();
  if (threadIdx.x == 0) {
    sm90::mbarrier_init(at, 1);
    sm90::fence_mbarrier_init();
    sm90::mbarrier_arrive_expect_tx(at, expected);
  }
  sm90::cluster_sync_relaxed();
  if (threadIdx.x == 0)  // each block loads a row for all four
    sm90::tma_load_2d_multicast(warpwise::shared_address(quarters[rank]), &map, at, 0, blockIdx.x, 0xf);
  sm90::mbarrier_wait(at, 0);
  for (int row = 0; row < 4; ++row) out[(blockIdx.x * 4 + row) * 32 + threadIdx.x] = quarters[row][threadIdx.x];
  sm90::cluster_sync();
}
extern "C" __global__ void __cluster_dims__(4, 1, 1) ring(float* out) {
  __shared__ float mine[32];
  __shared__ unsigned long long barrier;
  const unsigned at = warpwise::shared_address(&barrier), rank = sm90::cluster_ctarank();
  if (threadIdx.x == 0) {
    sm90::mbarrier_init(at, 1);
    sm90::mbarrier_arrive_expect_tx(at, 128);
    sm90::fence_mbarrier_init();
  }
  sm90::cluster_sync();
  const unsigned next = (rank + 1) % 4;
  if (threadIdx.x < 8) {
    const float v[4] = {rank + 0.0f, threadIdx.x + 0.0f, 2.0f, 3.0f};
    sm90::st_async_v4(sm90::mapa(warpwise::shared_address(mine + threadIdx.x * 4), next), sm90::mapa(at, next), v);
  }
  sm90::mbarrier_wait_cluster(at, 0);
  out[blockIdx.x * 32 + threadIdx.x] = mine[threadIdx.x];
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) exchange(const float* in, float* out) {
  __shared__ float mine[32];
  mine[threadIdx.x] = in[blockIdx.x * 32 + threadIdx.x];
  sm90::cluster_sync();
  float v[4];
  const unsigned lane = threadIdx.x % 8 * 4;
  sm90::ld_shared_cluster_v4(v, warpwise::shared_address(mine + lane), sm90::cluster_ctarank() ^ 1);
  if (threadIdx.x < 8)
    for (int i = 0; i < 4; ++i) out[blockIdx.x * 32 + lane + i] = v[i];
  sm90::cluster_sync();
}
"""
)


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
def test_multicast_loads_for_all_blocks_of_a_cluster(order):
    x, out = torch.randn(8, 32), torch.empty(8, 4, 32)
    kernel = cuda.load(MULTICAST)["multicast"]
    kernel[8, 32](cuda.tensor_map(x, (1, 32), swizzle=0), cuda.out(out), 512, order=order)
    assert torch.equal(out, torch.stack([x[:4]] * 4 + [x[4:]] * 4))


def test_more_expected_bytes_than_are_copied_are_a_deadlock():
    x, out = torch.randn(4, 32), torch.empty(4, 4, 32)
    with pytest.raises(cuda.Deadlock, match="expects 0 of 1 arrivals and 128 bytes more of bulk copies"):
        cuda.load(MULTICAST)["multicast"][4, 32](cuda.tensor_map(x, (1, 32), swizzle=0), out, 640)


OVERLAPPING = (
    HEAD
    + r"""
// Stores two rows of 32 floats, the second one 24 columns further; `step` separates their values.
extern "C" __global__ void overlapping(const __grid_constant__ sm90::TensorMap map, float step) {
  __shared__ alignas(128) float rows[2][32];
  for (int i = 0; i < 2; ++i) rows[i][threadIdx.x] = 24 * i + threadIdx.x + 1.0f + step * i;
  sm90::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) sm90::tma_store_2d(&map, warpwise::shared_address(rows[i]), 24 * i, 0);
    sm90::tma_store_wait_read<0>();
  }
}
"""
)


def test_stores_overlap_with_equal_values_only():
    c = torch.zeros(1, 56)
    kernel = cuda.load(OVERLAPPING)["overlapping"]
    kernel[1, 32](cuda.tensor_map(c, (1, 32), swizzle=0), 0.0)
    assert torch.equal(c, torch.arange(1.0, 57.0)[None])
    with pytest.raises(cuda.DataRace, match="are not ordered"):
        kernel[1, 32](cuda.tensor_map(torch.zeros(1, 56), (1, 32), swizzle=0), 0.5)


def test_fewer_expected_bytes_than_are_copied_are_a_race():
    x, out = torch.randn(4, 32), torch.empty(4, 4, 32)
    with pytest.raises(cuda.DataRace, match="asynchronous copy and read"):
        cuda.load(MULTICAST)["multicast"][4, 32](cuda.tensor_map(x, (1, 32), swizzle=0), out, 384)


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
def test_remote_stores_complete_at_the_barrier_of_the_other_block(order):
    out = torch.empty(4, 8, 4)
    cuda.load(MULTICAST)["ring"][4, 32](cuda.out(out), order=order)
    assert out[:, :, 0].eq(torch.tensor([3.0, 0.0, 1.0, 2.0])[:, None]).all()
    assert out[:, :, 1].eq(torch.arange(8.0)).all()


def test_distributed_shared_memory_is_read():
    x, out = torch.randn(6, 32), torch.empty(6, 32)
    cuda.load(MULTICAST)["exchange"][6, 32](x, cuda.out(out))
    assert torch.equal(out, x.view(3, 2, 32).flip(1).reshape(6, 32))


def test_a_grid_that_clusters_do_not_divide_is_refused():
    with pytest.raises(cuda.LaunchError, match="clusters of 2 x 1 x 1 blocks do not divide the grid of 3"):
        cuda.load(MULTICAST)["exchange"][3, 32](torch.zeros(96), torch.zeros(96))


REDUCE = "\n".join(
    f"""
extern "C" __global__ void reduce_{name}(const __grid_constant__ sm90::TensorMap map, const unsigned* from, int x) {{
  __shared__ alignas(128) unsigned box[4][8];
  box[threadIdx.x / 8][threadIdx.x % 8] = from[threadIdx.x];
  sm90::fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {{
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.{name}.tile.bulk_group [%0, {{%1, %2}}], [%3];"
                 :: "l"(&map), "r"(x), "r"(-1), "r"(warpwise::shared_address(box)) : "memory");
    asm volatile("cp.async.bulk.commit_group;\\ncp.async.bulk.wait_group 0;" ::: "memory");
  }}
}}"""
    for name in ("add", "min", "max", "and", "or", "xor", "inc", "dec")
)
MODELS = {
    "add": lambda old, x: old + x,
    "min": torch.minimum,
    "max": torch.maximum,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "inc": lambda old, x: torch.where(old >= x, 0, old + 1),
    "dec": lambda old, x: torch.where((old == 0) | (old > x), x, old - 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_reduction_applies_to_the_part_inside_the_tensor(name):
    old, given = torch.randint(0, 9, (5, 12)), torch.randint(0, 9, (4, 8))
    wanted = old.clone()
    wanted[:3, 6:] = MODELS[name](old[:3, 6:], given[1:, :6])  # the box begins at row -1, column 6
    c = old.to(torch.uint32)
    kernel = cuda.load(HEAD + REDUCE)[f"reduce_{name}"]
    kernel[1, 32](cuda.tensor_map(c, (4, 8), swizzle=0), given.to(torch.uint32), 6)
    assert torch.equal(c.long(), wanted)
