// The producer/consumer pipeline of the sm_90 kernels: a ring of stages in shared memory, with two mbarriers per stage.
//
// A producer loads k-tiles into the stages by TMA or cp.async; consumer warps multiply them. With four stages:
//
//     time ------>
//     stage 0  |load k0|wgmma k0 |load k4|        full         |wgmma k4 |
//     stage 1   |load k1|  full  |wgmma k1 |load k5|
//     stage 2    |load k2|      full       |wgmma k2 |load k6|
//     stage 3     |load k3|          full            |wgmma k3 |load k7|
//                      A         B
//
// A: full[0] completes, for which the consumers wait. They issue the wgmma of k0 and, when full[1] completes, that of
//    k1 behind it.
// B: The wgmma of k0 is complete: the consumers arrive at empty[0], for which the producer waits. It loads k4.
//
//     barrier   completes when                                             who waits for it
//     full[s]   the bytes that producer_acquire announces are loaded       consumer_wait
//     empty[s]  all consumers have released the stage (consumer_release)   producer_acquire
//
// If the blocks of a cluster share operands by multicast, a load fills the same stage of several blocks. A stage is
// then free when the consumers of all these blocks have released it: each consumer arrives at the empty barriers of all
// blocks that load for it.
//
// The phases of a barrier have alternating parity, from 0 on. A consumer waits for parity 0 first, the first load. A
// producer waits for parity 1 first, that of the phase before, which is complete: all stages are free at first.
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

// Releases to the blocks of a cluster: a thread that `releases` arrives at the empty barrier of block `thread`.
struct ClusterRelease {
  bool releases;
  int thread;
  __device__ void operator()(unsigned empty_barrier) const {
    if (releases) mbarrier_arrive(empty_barrier, thread);
  }
};

// A consumer warpgroup whose wgmma of one k-tile runs while that of the next one is issued. `release(barrier)`: this
// thread's arrivals at an empty barrier.
template <class Release = ClusterRelease>
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

  // Waits for the last k-tile of a tile, if it has `any`, and releases it.
  __device__ void finish(bool any = true) const {
    wgmma_wait_group<0>();
    if (any) release(previous_empty);
  }
};

}  // namespace sm90
}  // namespace warpwise
