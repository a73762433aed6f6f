// The producer/consumer pipeline of the sm_90 kernels: a ring of stages in shared memory with two mbarriers each.
//
// A producer loads k-tiles into the stages by TMA or cp.async; consumer warps multiply them. The figure has four
// stages. A stage is released one k-tile late: the wgmma of k0 is complete only when that of k1 has been issued and
// `wgmma_wait_group<1>` returns.
//
//     time ----->
//     producer  acquire 0 1 2 3     acquire 0         acquire 1         acquire 2
//     stage 0   |load k0|wgmma k0 :       |load k4|          |wgmma k4
//     stage 1     |load k1|  full   |wgmma k1 :       |load k5|            |wgmma k5
//     stage 2       |load k2|       full    |wgmma k2 :      |load k6|
//     stage 3         |load k3|           full        |wgmma k3 :
//     consumer          wait 0      wait 1    wait 2     wait 3
//                                   release 0   release 1   release 2
//
//     full[s]:  completes when the bytes of `producer_acquire` have been loaded; `consumer_wait` waits for it.
//     empty[s]: completes when every consumer of the stage has arrived (`consumer_release`); `producer_acquire` waits
//               for it. If a cluster shares operands by multicast, these are the consumers of all blocks that receive
//               what this block loads: a consumer arrives at the barriers of all blocks that load for it.
//
// A barrier alternates between phases of parity 0 and 1. Consumers wait for parity 0 first: the first load. A producer
// waits for parity 1 first, that of the phase before, which is complete: all stages are free at first.
#pragma once

#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace warpwise {
namespace sm90 {

// A stage of the ring and the phase parity of its barriers. PipelineState{0, 1} is a producer's first state.
struct PipelineState {
  int index = 0;
  unsigned phase = 0;

  __device__ void next(int stages) {
    if (++index == stages) {
      index = 0;
      phase ^= 1;
    }
  }

  // `count` stages further, at most `stages`.
  __device__ void advance(int count, int stages) {
    if ((index += count) >= stages) {
      index -= stages;
      phase ^= 1;
    }
  }
};

// The barriers of a ring.
struct Pipeline {
  int stages;
  unsigned full, empty;  // shared addresses of 8 bytes per stage

  // `barriers`: the shared address of 16 * stages bytes.
  __device__ Pipeline(unsigned barriers, int stages) : stages(stages), full(barriers), empty(barriers + 8 * stages) {}

  // Initialises the barriers; called by one thread, before fence_mbarrier_init and a barrier of all threads that use
  // them. full_arrivals: 1 for TMA. empty_arrivals: of all consumers of a stage.
  __device__ void init(int full_arrivals, int empty_arrivals) const {
    for (int s = 0; s < stages; ++s) {
      mbarrier_init(full + 8 * s, full_arrivals);
      mbarrier_init(empty + 8 * s, empty_arrivals);
    }
  }

  __device__ unsigned full_barrier(int index) const { return full + 8 * index; }
  __device__ unsigned empty_barrier(int index) const { return empty + 8 * index; }

  // Waits until the stage is free.
  __device__ void producer_acquire(const PipelineState& state) const {
    mbarrier_wait(empty_barrier(state.index), state.phase);
  }

  // The same, and announces `bytes` of TMA loads. Returns the barrier for them.
  __device__ unsigned producer_acquire(const PipelineState& state, unsigned bytes) const {
    const unsigned barrier = full_barrier(state.index);
    producer_acquire(state);
    mbarrier_arrive_expect_tx(barrier, bytes);
    return barrier;
  }

  // Waits until the stage is loaded.
  __device__ void consumer_wait(const PipelineState& state) const {
    mbarrier_wait(full_barrier(state.index), state.phase);
  }

  // Releases a stage: an arrival at the empty barrier of this block, or of block `rank` of the cluster.
  __device__ void consumer_release(int index) const { mbarrier_arrive(empty_barrier(index)); }
  __device__ void consumer_release(int index, unsigned rank) const { mbarrier_arrive(empty_barrier(index), rank); }
};

// Releases to the blocks of a cluster: a thread that `releases` arrives at the barrier of block `thread`.
struct ClusterRelease {
  bool releases;
  int thread;
  __device__ void operator()(unsigned empty_barrier) const {
    if (releases) mbarrier_arrive(empty_barrier, thread);
  }
};

// Releases to the own block: one arrival per warpgroup.
struct BlockRelease {
  int thread;  // in the warpgroup
  __device__ void operator()(unsigned empty_barrier) const {
    if (thread == 0) mbarrier_arrive(empty_barrier, 0);
  }
};

// A consumer warpgroup whose wgmma of one k-tile runs while that of the next one is issued. `release(barrier)`: this
// thread's arrivals at an empty barrier.
template <class Release>
struct WgmmaConsumer {
  Pipeline pipeline;
  Release release;
  PipelineState state;
  unsigned previous_empty = 0;  // empty barrier of the k-tile whose wgmma may be pending

  __device__ WgmmaConsumer(const Pipeline& pipeline, const Release& release) : pipeline(pipeline), release(release) {}

  // Waits for k-tile `s` of a tile, issues its wgmma by `multiply(stage)`, which begins with wgmma_fence(), and
  // releases the k-tile before.
  template <class Multiply>
  __device__ void k_tile(int s, const Multiply& multiply) {
    pipeline.consumer_wait(state);
    multiply(state.index);
    wgmma_commit_group();
    wgmma_wait_group<1>();
    if (s > 0) release(previous_empty);
    previous_empty = pipeline.empty_barrier(state.index);
    state.next(pipeline.stages);
  }

  // Waits for the last k-tile of a tile and releases it.
  __device__ void finish() const {
    wgmma_wait_group<0>();
    release(previous_empty);
  }
};

}  // namespace sm90
}  // namespace warpwise
