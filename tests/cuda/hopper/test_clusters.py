"""Races between the blocks of a cluster, and the emulated parts of clusters that the bulk copies do not use."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda

SOURCE = r"""
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tma.cuh>
namespace sm90 = warpwise::sm90;

// Each block reads what the other one wrote to its shared memory.
extern "C" __global__ void __cluster_dims__(2, 1, 1) exchange(float* out, int bug) {
  __shared__ float4 mine[32];
  mine[threadIdx.x] = float4{blockIdx.x + 0.0f, threadIdx.x + 0.0f, 0.0f, 0.0f};
  if (bug == 1)
    __syncthreads();
  else if (bug == 2)
    sm90::cluster_sync_relaxed();
  else
    sm90::cluster_sync();
  float v[4];
  sm90::ld_shared_cluster_v4(v, warpwise::shared_address(mine + threadIdx.x), sm90::cluster_ctarank() ^ 1);
  out[blockIdx.x * 32 + threadIdx.x] = v[0] * 100 + v[1];
  if (bug == 3) mine[threadIdx.x] = float4{};
  if (bug != 4) sm90::cluster_sync();
  if (bug == 5) mine[threadIdx.x] = float4{};  // after the barrier: correct
  if (bug == 4 && blockIdx.x % 2) {
    sm90::cluster_arrive_relaxed();
    for (int i = 0; i < 1000; ++i)
      sm90::ld_shared_cluster_v4(v, warpwise::shared_address(mine + threadIdx.x), 0), __nanosleep(1);
  } else if (bug == 4) {
    sm90::cluster_arrive_relaxed();
  }
}

// Blocks load halves of each row for both; a stage is free once the consumers of both blocks have released it.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    multicast(const __grid_constant__ sm90::TensorMap map, float* out, int rows, int bug) {
  __shared__ alignas(128) float stages[2][2][32];
  __shared__ unsigned long long barriers[4];
  const sm90::Pipeline pipeline(warpwise::shared_address(barriers), 2);
  const unsigned rank = sm90::cluster_ctarank();
  if (threadIdx.x == 0) {
    pipeline.init(1, bug == 1 ? 1 : 2);
    sm90::fence_mbarrier_init();
  }
  if (bug == 2)
    __syncthreads();
  else
    sm90::cluster_sync_relaxed();
  if (threadIdx.x >= 32) {
    if (threadIdx.x == 32) {
      sm90::PipelineState state{0, 1};
      for (int row = 0; row < rows; ++row, state.next(2)) {
        const unsigned full = pipeline.producer_acquire(state, 256);
        sm90::tma_load_2d_multicast(warpwise::shared_address(stages[state.index][rank]), &map, full, rank * 32, row,
                                    bug == 3 ? 1 << rank : 3);
      }
    }
  } else {
    sm90::PipelineState state{0, 0};
    for (int row = 0; row < rows; ++row, state.next(2)) {
      pipeline.consumer_wait(state);
      for (int half = 0; half < 2; ++half)
        out[((blockIdx.x * rows + row) * 2 + half) * 32 + threadIdx.x] = stages[state.index][half][threadIdx.x];
      if (bug != 4) __syncwarp();
      if (bug == 1 ? threadIdx.x == 0 : threadIdx.x < 2)
        pipeline.consumer_release(state.index, bug == 1 ? rank : threadIdx.x);
    }
  }
  sm90::cluster_sync_relaxed();
}

extern "C" __global__ void __cluster_dims__(2, 2, 1) places(int* out) {
  unsigned values[6];
  asm("mov.u32 %0, %%cluster_ctarank;\nmov.u32 %1, %%cluster_nctarank;\nmov.u32 %2, %%cluster_ctaid.x;\n"
      "mov.u32 %3, %%cluster_ctaid.y;\nmov.u32 %4, %%clusterid.x;\nmov.u32 %5, %%nclusterid.y;"
      : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3]), "=r"(values[4]), "=r"(values[5]));
  const int block = blockIdx.y * gridDim.x + blockIdx.x;
  for (int i = 0; i < 6; ++i) out[block * 6 + i] = values[i];
}
"""
GROUPS = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Bins of a histogram are distributed over the blocks of a cluster.
extern "C" __global__ void __cluster_dims__(4, 1, 1) histogram(const int* values, int* bins, int count) {
  __shared__ int mine[8];
  auto cluster = cg::this_cluster();
  if (threadIdx.x < 8) mine[threadIdx.x] = 0;
  cluster.sync();
  for (int i = cluster.thread_rank(); i < count; i += cluster.num_threads())
    atomicAdd(cluster.map_shared_rank(mine, values[i] / 8) + values[i] % 8, 1);
  cluster.sync();
  if (threadIdx.x < 8) bins[cluster.block_rank() * 8 + threadIdx.x] = mine[threadIdx.x];
}
"""
EXITS = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// The second warp arrives at the cluster's barrier and exits; the first waits, and reads what the other block wrote.
extern "C" __global__ void __cluster_dims__(2, 1, 1) arrive_and_exit(int* out, int bug) {
  __shared__ int mine;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0 && bug != 1) mine = blockIdx.x;
  if (threadIdx.x >= 32) {
    if (bug != 2) cluster.barrier_arrive();
    return;
  }
  if (bug == 1 && threadIdx.x == 31) {
    for (int i = 0; i < 500; ++i) __nanosleep(10);
    mine = blockIdx.x;
  }
  cluster.sync();
  const int other = *cluster.map_shared_rank(&mine, cluster.block_rank() ^ 1);
  if (threadIdx.x == 0) out[blockIdx.x] = other;
  cluster.sync();
}

__device__ float* late() {
  __shared__ float table[32];
  return table;
}

// Block 1 exits; block 0 then calls a function whose variable takes the memory that block 1 had.
extern "C" __global__ void __cluster_dims__(2, 1, 1) call_late(float* out) {
  auto cluster = cg::this_cluster();
  __shared__ float own[32];
  own[threadIdx.x] = threadIdx.x;
  if (cluster.block_rank() == 1) {
    __shared__ float other[32];
    other[threadIdx.x] = 1.0f;
    out[32 + threadIdx.x] = own[threadIdx.x];
    cluster.barrier_arrive();
    return;
  }
  cluster.sync();
  for (int i = 0; i < 200; ++i) __nanosleep(10);
  late()[threadIdx.x] = threadIdx.x;
  __syncwarp();
  out[threadIdx.x] = late()[threadIdx.x ^ 1];
}
"""
ORDERS = ["forward", "reverse", "shuffle"]


def exchanged(bug: int, order: str = "forward") -> list[cuda.Finding]:
    out = torch.empty(4, 32)
    found = cuda.load(SOURCE)["exchange"][4, 32].check(cuda.out(out), bug, order=order)
    if not found:
        assert torch.equal(out, torch.tensor([1.0, 0.0, 3.0, 2.0])[:, None] * 100 + torch.arange(32.0))
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bug", [0, 5])
def test_a_barrier_of_the_cluster_orders_distributed_shared_memory(bug, order):
    assert exchanged(bug, order) == []


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bug", [1, 2, 3])
def test_without_one_reads_of_the_other_block_race(bug, order):
    """No barrier of the cluster, a relaxed one, and a write after the read without a barrier in between."""
    found = exchanged(bug, order)
    assert any(each.kind in (cuda.DataRace, cuda.UninitializedRead) for each in found), found


def test_a_read_of_a_block_that_has_exited_is_found():
    found = exchanged(4)
    assert any("which has exited" in str(each) for each in found), found


def multicast(bug: int, order: str = "forward") -> list[cuda.Finding]:
    torch.manual_seed(0)
    x, out = torch.randn(6, 64), torch.empty(2, 6, 64)
    found = cuda.load(SOURCE)["multicast"][2, 64].check(
        cuda.tensor_map(x, (1, 32), swizzle=0), cuda.out(out), 6, bug, order=order
    )
    if not found:
        assert torch.equal(out, torch.stack([x, x]))
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_a_ring_with_multicast_has_no_finding(order):
    assert multicast(0, order) == []


@pytest.mark.whole
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bug,kind", [(1, cuda.DataRace), (3, cuda.Deadlock), (4, cuda.DataRace)])
def test_its_bugs_are_found(bug, kind, order):
    """Releases to the own block only; loads for the own block only; a release before all lanes have read."""
    assert any(each.kind is kind for each in multicast(bug, order))


def test_a_missing_barrier_after_the_initialisation_is_found_in_some_order():
    assert any(multicast(2, order) for order in ORDERS)


def test_special_registers_of_clusters():
    out = torch.empty(16, 6, dtype=torch.int32)
    cuda.load(SOURCE)["places"][(4, 4), 1](cuda.out(out))
    for block, (rank, blocks, x, y, cluster, clusters) in enumerate(out.tolist()):
        row, column = divmod(block, 4)
        assert (rank, blocks, x, y) == (row % 2 * 2 + column % 2, 4, column % 2, row % 2)
        assert (cluster, clusters) == (column // 2, 2)


@pytest.mark.parametrize("order", ORDERS)
def test_a_histogram_in_distributed_shared_memory(order):
    values, bins = torch.randint(0, 32, (1000,), dtype=torch.int32), torch.empty(32, dtype=torch.int32)
    cuda.load(GROUPS)["histogram"][4, 64](values, cuda.out(bins), 1000, order=order)
    assert torch.equal(bins, torch.bincount(values, minlength=32).int())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bug", [0, 1, 2])
def test_threads_that_arrive_at_the_barrier_and_exit_count_once(bug, order):
    """``bug`` 1: a lane writes late, before its own arrival. 2: an exit counts as an arrival."""
    out = torch.zeros(4, dtype=torch.int32)
    assert cuda.load(EXITS)["arrive_and_exit"][4, 64].check(out, bug, order=order) == []
    assert out.tolist() == [1, 0, 3, 2]


@pytest.mark.parametrize("order", ORDERS)
def test_a_variable_in_a_function_that_is_called_late(order):
    out = torch.empty(64)
    assert cuda.load(EXITS)["call_late"][2, 32].check(cuda.out(out), order=order) == []
    assert torch.equal(out, torch.cat([torch.arange(32) ^ 1, torch.arange(32)]).float())
