"""Cooperative groups, cuda::barrier, cuda::pipeline and asynchronous copies on the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import (
    DataRace,
    Deadlock,
    Finding,
    UndefinedBehaviour,
    UninitializedRead,
    UnsupportedFeature,
)

MODULE = cuda.load(
    r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

__global__ void ranks(int* out) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(warp);
  auto dynamic = cg::tiled_partition(block, 4);
  auto wide = cg::tiled_partition<64>(block);
  int* mine = out + block.thread_rank() * 8;
  mine[0] = warp.thread_rank();
  mine[1] = warp.meta_group_rank() * 100 + warp.meta_group_size();
  mine[2] = eight.meta_group_rank() * 100 + eight.meta_group_size();
  mine[3] = eight.shfl(block.thread_rank(), 3);
  mine[4] = dynamic.thread_rank() * 100 + dynamic.size();
  mine[5] = wide.thread_rank() * 100 + wide.meta_group_rank();
  mine[6] = eight.ballot(block.thread_rank() & 1) * 2 + eight.any(warp.thread_rank() == 17);
  mine[7] = eight.shfl_xor(warp.thread_rank(), 1) * 100 + eight.shfl_down(warp.thread_rank(), 2);
}
__global__ void collectives(const int* x, int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int t = threadIdx.x, v = x[t];
  int* mine = out + t * 8;
  mine[0] = cg::reduce(warp, v, cg::plus<int>());
  mine[1] = cg::reduce(warp, v, cg::less<int>());
  mine[2] = cg::reduce(warp, v, cg::bit_xor<int>());
  mine[3] = cg::inclusive_scan(warp, v);
  mine[4] = cg::exclusive_scan(warp, v);
  auto odd = cg::binary_partition(warp, v & 1);
  mine[5] = cg::reduce(odd, 1, cg::plus<int>());
  auto label = cg::labeled_partition(warp, v % 3);
  mine[6] = cg::reduce(label, v, cg::greater<int>());
  mine[7] = -1;
  if (t % 4 == 0) {
    auto here = cg::coalesced_threads();
    mine[7] = here.size() * 100 + here.shfl(t, 1) * 10 + (here.thread_rank() == t % 32 / 4);
  }
}
__global__ void wide_tiles(int* x, int* y) {
  auto tile = cg::tiled_partition<64>(cg::this_thread_block());
  __shared__ int s[128];
  s[threadIdx.x] = x[threadIdx.x];
  tile.sync();
  y[threadIdx.x] = s[threadIdx.x ^ 63];
}
__global__ void grid_steps(int* x, int steps) {
  auto grid = cg::this_grid();
  unsigned rank = grid.thread_rank(), size = grid.size();
  for (int i = 0; i < steps; i++) {
    int v = x[(rank + 1) % size];
    grid.sync();
    x[rank] = v;
    grid.sync();
  }
}
__global__ void grid_arrives(int* x, int wait) {
  auto grid = cg::this_grid();
  unsigned rank = grid.thread_rank(), size = grid.size();
  x[rank] = rank;
  auto token = grid.barrier_arrive();
  int v = wait ? 0 : x[(rank + 64) % size];
  grid.barrier_wait(static_cast<decltype(token)&&>(token));
  x[size + rank] = wait ? x[(rank + 64) % size] : v;
}
__global__ void grid_without_sync(int* x) {
  auto grid = cg::this_grid();
  x[grid.thread_rank()] = x[(grid.thread_rank() + 64) % grid.size()];
}
__global__ void group_copy(const float* x, float* y, int wait) {
  __shared__ float s[64];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, x, sizeof s);
  if (wait) cg::wait(block); else block.sync();
  y[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void barrier_copy(const float* x, float* y, int wait) {
  __shared__ float s[64];
  __shared__ cuda::barrier<cuda::thread_scope_block> filled;
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&filled, blockDim.x);
  block.sync();
  cuda::memcpy_async(block, s, x, cuda::aligned_size_t<16>(sizeof s), filled);
  auto token = filled.arrive();
  if (wait) filled.wait(std::move(token));
  y[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void barrier_phases(int* x, int rounds, int expected) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) init(&bar, expected);
  __syncthreads();
  for (int i = 0; i < rounds; i++) {
    int v = x[(threadIdx.x + 33) % 64];
    bar.arrive_and_wait();
    x[threadIdx.x] = v;
    bar.arrive_and_wait();
  }
}
__global__ void barrier_unready(int* x) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  bar.arrive_and_wait();
}
__global__ void producer_consumer(const float* x, float* y, int tiles) {
  __shared__ float s[2][32];
  __shared__ cuda::barrier<cuda::thread_scope_block> bars[4];  // two ready, two filled
  if (threadIdx.x < 4) init(bars + threadIdx.x, 64);
  __syncthreads();
  int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int i = 0; i < tiles; i++) {
      bars[i % 2].arrive_and_wait();
      s[i % 2][lane] = x[i * 32 + lane];
      auto token = bars[2 + i % 2].arrive();
      (void)token;
    }
  } else {
    auto first = bars[0].arrive();
    auto second = bars[1].arrive();
    (void)first; (void)second;
    for (int i = 0; i < tiles; i++) {
      bars[2 + i % 2].arrive_and_wait();
      y[i * 32 + lane] = s[i % 2][31 - lane];
      auto token = bars[i % 2].arrive();
      (void)token;
    }
  }
}
template <bool WAIT, bool SHARED_STATE>
__global__ void pipelined(const float* x, float* y, int tiles) {
  __shared__ float s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  for (int loaded = 0, i = 0; i < tiles; i++) {
    for (; loaded < tiles && loaded < i + 2; loaded++) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s[loaded % 2], x + loaded * 64, sizeof s[0], pipe);
      pipe.producer_commit();
    }
    if (WAIT) pipe.consumer_wait();
    y[i * 64 + threadIdx.x] = s[i % 2][63 - threadIdx.x];
    pipe.consumer_release();
  }
}
__global__ void producing_warp(const float* x, float* y, int tiles) {
  __shared__ float s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  bool producer = threadIdx.x >= 64;
  auto role = producer ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  int lane = threadIdx.x % 32;
  for (int i = 0; i < tiles; i++) {
    if (producer) {
      pipe.producer_acquire();
      for (int k = lane; k < 64; k += 32) cuda::memcpy_async(&s[i % 2][k], x + i * 64 + k, sizeof(float), pipe);
      pipe.producer_commit();
    } else {
      pipe.consumer_wait();
      y[i * 64 + threadIdx.x] = s[i % 2][63 - threadIdx.x];
      pipe.consumer_release();
    }
  }
}
template <int SIZE>
__global__ void wide_sums(const int* x, int* sums) {
  __shared__ cg::block_tile_memory<256> scratch;
  auto tile = cg::tiled_partition<SIZE>(cg::this_thread_block(scratch));
  for (int i = 1; i < 4; i++) {
    int sum = cg::reduce(tile, x[threadIdx.x] * i, cg::plus<int>());
    if (tile.thread_rank() == 0) sums[(i - 1) * tile.meta_group_size() + tile.meta_group_rank()] = sum;
  }
}
__global__ void own_pipeline(const float* x, float* y, int tiles, int early) {
  __shared__ float s[2][64];
  auto pipe = cuda::make_pipeline();
  int t = threadIdx.x;
  pipe.producer_acquire();
  cuda::memcpy_async(&s[0][t], x + t, sizeof(float), pipe);
  pipe.producer_commit();
  for (int i = 0; i < tiles; i++) {
    if (i + 1 < tiles) {
      pipe.producer_acquire();
      cuda::memcpy_async(&s[(i + 1) % 2][t], x + (i + 1) * 64 + t, sizeof(float), pipe);
      pipe.producer_commit();
    }
    if (!early) pipe.consumer_wait();
    __syncthreads();
    y[i * 64 + t] = s[i % 2][63 - t];
    __syncthreads();
    pipe.consumer_release();
  }
}
__global__ void primitives(const float* x, float* y, int tiles, int pending) {
  __shared__ float s[2][64];
  int t = threadIdx.x;
  __pipeline_memcpy_async(&s[0][t], x + t, 4);
  __pipeline_commit();
  for (int i = 0; i < tiles; i++) {
    if (i + 1 < tiles) __pipeline_memcpy_async(&s[(i + 1) % 2][t], x + (i + 1) * 64 + t, 4);
    __pipeline_commit();
    __pipeline_wait_prior(pending);
    __syncthreads();
    y[i * 64 + t] = s[i % 2][63 - t];
    __syncthreads();
  }
}
__global__ void overwritten_source(float* x, float* y) {
  __shared__ float s[32];
  __pipeline_memcpy_async(&s[threadIdx.x], x + threadIdx.x, 4);
  x[threadIdx.x] = 7;
  __pipeline_commit();
  __pipeline_wait_prior(0);
  y[threadIdx.x] = s[threadIdx.x];
}
__global__ void odd_copy(const float* x) {
  __shared__ float s[32];
  __pipeline_memcpy_async(s, x, 12);
}
"""
)
REVERSED = np.arange(64, dtype="f4")[::-1]


def check(name: str, grid: object, block: object, *args: object, **options: object) -> list[Finding]:
    return MODULE[name][grid, block].check(*args, **options)


def test_ranks_sizes_and_shuffles_of_tiles() -> None:
    out = np.zeros((128, 8), "i4")
    assert check("ranks", 1, 128, cuda.out(out)) == []
    rank = np.arange(128)
    lane = rank % 32
    assert (out[:, 0] == lane).all()
    assert (out[:, 1] == rank // 32 * 100 + 4).all()
    assert (out[:, 2] == lane // 8 * 100 + 4).all()
    assert (out[:, 3] == rank // 8 * 8 + 3).all()
    assert (out[:, 4] == rank % 4 * 100 + 4).all()
    assert (out[:, 5] == rank % 64 * 100 + rank // 64).all()
    assert (out[:, 6] == 0b10101010 * 2 + (lane // 8 == 2)).all()
    assert (out[:, 7] == (lane ^ 1) * 100 + np.where(rank % 8 < 6, lane + 2, lane)).all()


def test_reductions_scans_and_partitions() -> None:
    x = np.random.default_rng(0).integers(0, 50, 64).astype("i4")
    out = np.zeros((64, 8), "i4")
    assert check("collectives", 1, 64, x, cuda.out(out)) == []
    for first in (0, 32):
        v, o = x[first : first + 32], out[first : first + 32]
        assert set(o[:, 0]) == {v.sum()}
        assert set(o[:, 1]) == {v.min()}
        assert set(o[:, 2]) == {np.bitwise_xor.reduce(v)}
        assert (o[:, 3] == np.cumsum(v)).all()
        assert (o[:, 4] == np.cumsum(v) - v).all()
        assert (o[:, 5] == [(v % 2 == each % 2).sum() for each in v]).all()
        assert (o[:, 6] == [v[v % 3 == each % 3].max() for each in v]).all()
        assert (o[::4, 7] == 801 + (first + 4) * 10).all()


def test_tiles_of_two_warps_and_the_whole_grid() -> None:
    x, y = np.arange(128, dtype="i4"), np.zeros(128, "i4")
    assert check("wide_tiles", 1, 128, x, cuda.out(y)) == []
    assert (y == (np.arange(128) ^ 63)).all()
    x = np.arange(256, dtype="i4")
    assert check("grid_steps", 8, 32, x, 5) == []
    assert (x == (np.arange(256) + 5) % 256).all()


def test_work_between_arrival_and_wait_of_the_grid() -> None:
    x = np.zeros(512, "i4")
    assert check("grid_arrives", 4, 64, x, 1) == []
    assert (x[256:] == (np.arange(256) + 64) % 256).all()
    assert check("grid_arrives", 4, 64, x, 0)[0].kind is DataRace


def test_a_missing_grid_barrier_is_a_race_between_blocks() -> None:
    findings = check("grid_without_sync", 4, 32, np.arange(128, dtype="i4"))
    assert findings[0].kind is DataRace
    assert findings[0].access.block != findings[0].other.block


def test_a_grid_too_large_for_a_grid_barrier() -> None:
    findings = check("grid_steps", 40, 1024, np.zeros(40 * 1024, "i4"), 1)
    assert [finding.kind for finding in findings] == [UnsupportedFeature]
    assert "smaller grid" in findings[0].message


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
@pytest.mark.parametrize("name", ["group_copy", "barrier_copy"])
def test_copies_by_a_group(name: str, order: str) -> None:
    x, y = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    assert check(name, 1, 64, x, cuda.out(y), 1, order=order) == []
    assert (y == REVERSED).all()


@pytest.mark.parametrize("name", ["group_copy", "barrier_copy"])
def test_a_missing_wait_for_a_copy_is_a_data_race(name: str) -> None:
    findings = check(name, 1, 64, np.arange(64, dtype="f4"), cuda.out(np.zeros(64, "f4")), 0)
    assert findings[0].kind is DataRace
    assert findings[0].variable == "s"
    assert "asynchronous copy" in {findings[0].access.what, findings[0].other.what}
    assert "memcpy_async" in findings[0].access.text + findings[0].other.text


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
def test_a_copy_without_a_wait_and_a_barrier_says_both_and_first_the_wait(order: str) -> None:
    source = """#include <cooperative_groups/memcpy_async.h>
    __global__ void f(const float* x, float* y) {
      __shared__ float s[128];
      cooperative_groups::memcpy_async(cooperative_groups::this_thread_block(), s, x, sizeof s);
      y[threadIdx.x] = s[127 - threadIdx.x];
    }"""
    findings = cuda.load(source)["f"][1, 128].check(np.zeros(128, "f4"), cuda.out(np.zeros(128, "f4")), order=order)
    races = [finding for finding in findings if finding.kind is DataRace]
    assert races == findings[: len(races)] and len(races) > 1
    assert "the copy has not been waited for" in races[0].hint
    assert all("after a wait for it" in race.hint for race in races[1:])


def test_barrier_objects() -> None:
    x = np.arange(64, dtype="i4")
    assert check("barrier_phases", 1, 64, x, 3, 64) == []
    assert (x == (np.arange(64) + 99) % 64).all()
    assert [finding.kind for finding in check("barrier_phases", 1, 64, x, 1, 65)] == [Deadlock]
    assert check("barrier_phases", 1, 64, x, 1, 32)[0].kind is DataRace
    unready = check("barrier_unready", 1, 64, x)[0]
    assert unready.kind in (DataRace, UninitializedRead)
    assert unready.variable == "bar"


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
def test_producer_and_consumer_barriers(order: str) -> None:
    x, y = np.arange(160, dtype="f4"), np.zeros(160, "f4")
    assert check("producer_consumer", 1, 64, x, cuda.out(y), 5, order=order) == []
    assert (y.reshape(5, 32) == x.reshape(5, 32)[:, ::-1]).all()


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
def test_a_producer_warp(order: str) -> None:
    x, y = np.arange(320, dtype="f4"), np.zeros(320, "f4")
    assert check("producing_warp", 2, 96, x, cuda.out(y), 5, order=order) == []
    assert (y.reshape(5, 64) == x.reshape(5, 64)[:, ::-1]).all()


@pytest.mark.parametrize("size", [64, 128])
def test_sums_over_tiles_of_several_warps(size: int) -> None:
    x, sums = np.arange(256, dtype="i4"), np.zeros((3, 256 // size), "i4")
    assert check(f"wide_sums<{size}>", 1, 256, x, cuda.out(sums)) == []
    assert (sums == x.reshape(-1, size).sum(1) * np.arange(1, 4)[:, None]).all()


@pytest.mark.parametrize(
    "name,argument", [("pipelined<true, true>", ()), ("own_pipeline", (0,)), ("primitives", (1,)), ("primitives", (0,))]
)
def test_pipelines(name: str, argument: tuple[int, ...]) -> None:
    x, y = np.arange(256, dtype="f4"), np.zeros(256, "f4")
    assert check(name, 1, 64, x, cuda.out(y), 4, *argument) == []
    assert (y.reshape(4, 64) == x.reshape(4, 64)[:, ::-1]).all()


@pytest.mark.parametrize(
    "name,argument", [("pipelined<false, true>", ()), ("own_pipeline", (1,)), ("primitives", (2,))]
)
def test_a_pipeline_stage_read_before_its_wait(name: str, argument: tuple[int, ...]) -> None:
    findings = check(name, 1, 64, np.arange(256, dtype="f4"), cuda.out(np.zeros(256, "f4")), 4, *argument)
    assert findings[0].kind is DataRace
    assert findings[0].variable == "s"
    assert "asynchronous copy" in {findings[0].access.what, findings[0].other.what}


def test_a_write_to_the_source_of_a_pending_copy_and_an_invalid_copy_size() -> None:
    findings = check("overwritten_source", 1, 32, np.zeros(32, "f4"), cuda.out(np.zeros(32, "f4")))
    assert [(finding.kind, finding.variable) for finding in findings] == [(DataRace, "x")]
    assert [finding.kind for finding in check("odd_copy", 1, 1, np.zeros(32, "f4"))] == [UndefinedBehaviour]
