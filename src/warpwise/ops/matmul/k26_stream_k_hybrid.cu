// Hybrid stream-K: the tiles of the incomplete last wave are divided among all clusters first; then whole tiles.
//
// k20 computes whole tiles, so 1024 tiles take 66 clusters 16 waves for 15.5 waves of work. Here 34 clusters own one
// of the 34 remaining tiles each and compute its first k-tiles; the other 32 clusters compute the rest, all at nearly
// the same k, so that one read from DRAM serves several through L2. Their partial sums go to global memory, one half
// of them during the main loop of the next unit, and from there through the owner's pipeline stages, like k-tiles, to
// its accumulators.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/sm90/gemm.cuh>

#include "stream_k_scheduler.cuh"

namespace sm90 = warpwise::sm90;

// a: (m, k), or (k, m) if A_MN_MAJOR; b: (n, k), or (k, n) if B_MN_MAJOR; c: (m, n): tensor maps with boxes of 64 x
// 64. rows, columns: C in tiles of a cluster; raster_group: of TileScheduler; sk_tiles, splits, edge: of StreamK.
// partials: BM x BN floats per block; flags: one int per block and warpgroup, 0 before and after. For the other
// parameters and the shared memory see GemmConfig and sm90::gemm. Grid: all clusters must be resident at once.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) __cluster_dims__(CM* CN, 1, 1)
    matmul_stream_k_hybrid(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                           const __grid_constant__ sm90::TensorMap c, float* partials, int* flags, int k_tiles,
                           int rows, int columns, int raster_group, int sk_tiles, int splits, int edge) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  constexpr unsigned kBoxBytes = sm90::kBoxBytes;
  extern __shared__ unsigned char raw[];
  const sm90::GemmStorage<P> storage(raw);
  const sm90::Pipeline& pipeline = storage.pipeline;
  const int rank = static_cast<int>(sm90::cluster_ctarank()), cluster_m = rank % P::cm, cluster_n = rank / P::cm;
  const sm90::TileScheduler order{rows, columns, raster_group};
  // Partial sums are passed in kChunks chunks, each through the memory of B in one stage; a chunk has kVectors
  // float4 per consumer thread.
  constexpr int kChunks = BM / 32, kVectors = P::wgmmas * P::width / 8 / kChunks;
  static_assert(kChunks * P::bytes_b == BM * BN * sizeof(float), "all sums of a block");
  const auto partials_of = [&](int worker, int chunk) {
    return reinterpret_cast<float4*>(partials) +
           ((worker * P::cluster + rank) * kChunks + chunk) * (BM * BN / 4 / kChunks);
  };
  const auto flag_of = [&](int worker, int group) { return flags + (worker * P::cluster + rank) * P::groups + group; };
  const StreamK stream_k{k_tiles, sk_tiles, static_cast<int>(gridDim.x) / P::cluster, splits, edge};

  const int cluster = blockIdx.x / P::cluster;
  if (threadIdx.x == 0) {
    storage.init();
    sm90::fence_mbarrier_init();
  }
  sm90::cluster_sync_relaxed();

  if (threadIdx.x < sm90::kWarpgroupThreads) {
    if constexpr (P::groups > 1) sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      sm90::Producer<P> producer(&a, &b, storage, cluster_m, cluster_n);
      WorkUnits unit(stream_k, order.tiles(), cluster);
      while (unit.next()) {
        const int row = (order.row(unit.tile) * P::cm + cluster_m) * P::bm;
        const int column = (order.column(unit.tile) * P::cn + cluster_n) * P::bn;
#pragma unroll 1
        for (int s = unit.from; s < unit.to; ++s) producer.load(row, column, s);
        unit.for_each_peer([&](int peer) {
          for (int g = 0; g < P::groups; ++g) wait_and_reset(flag_of(peer, g));
          global_proxy_fence();
          sm90::PipelineState& state = producer.state;
          for (int chunk = 0; chunk < kChunks; ++chunk, state.next(P::stages)) {
            const unsigned full_barrier = pipeline.producer_acquire(state, P::bytes_b);
            tma_load_bulk(storage.stages_b + state.index * P::bytes_b, partials_of(peer, chunk), P::bytes_b,
                          full_barrier);
          }
        });
      }
    }
    const int warp = threadIdx.x / 32;
    if (warp >= 1 && warp <= P::groups) {
      for (WorkUnits unit(stream_k, order.tiles(), cluster); unit.next() && unit.from > 0;) {
        sm90::named_barrier_sync(2 + warp, sm90::kWarpgroupThreads + 32);
        if (threadIdx.x % 32 == 0) signal(flag_of(unit.slot, warp - 1));
        __syncwarp();
      }
    }
  } else {
    if constexpr (P::groups > 1) sm90::warpgroup_reg_alloc<232>();
    const int group = threadIdx.x / sm90::kWarpgroupThreads - 1, group_m = group % P::gm, group_n = group / P::gm;
    const int thread = threadIdx.x % sm90::kWarpgroupThreads;
    const unsigned own_a = storage.stages_a + group_m * P::wgmmas * kBoxBytes,
                   own_b = storage.stages_b + group_n * (P::width / 64) * kBoxBytes;
    const bool releases = thread < P::cluster && (thread % P::cm == cluster_m || thread / P::cm == cluster_n);
    sm90::WgmmaConsumer consumer(pipeline, sm90::ClusterRelease{releases, thread});
    sm90::PipelineState& state = consumer.state;
    float d[P::wgmmas][P::width / 2];
    // The previous tile, rounded, to be stored at (pending_row, pending_column); or one half of a unit's partial sums.
    unsigned pending[P::subtiles][16];
    int pending_row = 0, pending_column = 0, slot = 0, box = 0;
    bool has_pending = false, has_partials = false;

    const auto k_tile = [&](int s) {
      consumer.k_tile(s, [&](int stage) { sm90::wgmma_k_tile<P>(d, own_a, own_b, stage, s); });
    };
    const auto store_partials = [&](int subtile) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = (P::subtiles + subtile) * 4 + j;
        const unsigned* const of = &pending[subtile][4 * j];
        __stcg(partials_of(slot, i / kVectors) + (group * kVectors + i % kVectors) * sm90::kWarpgroupThreads + thread,
               make_float4(__uint_as_float(of[0]), __uint_as_float(of[1]), __uint_as_float(of[2]),
                           __uint_as_float(of[3])));
      }
      if (subtile == P::subtiles - 1) {
        global_proxy_fence();
        sm90::named_barrier_sync(3 + group, sm90::kWarpgroupThreads + 32);
        has_partials = false;
      }
    };
    const auto store_subtile = [&](int subtile) {
      if (thread == 0) sm90::tma_store_wait_read<P::boxes - 1>();
      sm90::named_barrier_sync(1 + group, sm90::kWarpgroupThreads);
      sm90::store_tile(storage.staging + (group * P::boxes + box) * kBoxBytes, pending[subtile], group, &c,
                       pending_row + subtile / (P::width / 64) * 64, pending_column + subtile % (P::width / 64) * 64);
      if (P::boxes == 2) box ^= 1;
    };
    WorkUnits unit(stream_k, order.tiles(), cluster);
    while (unit.next()) {
      const int count = unit.to - unit.from;
      k_tile(0);
      int row = ((order.row(unit.tile) * P::cm + cluster_m) * P::gm + group_m) * P::wgmmas * 64;
      int column = ((order.column(unit.tile) * P::cn + cluster_n) * P::gn + group_n) * P::width;
      asm volatile("" : "+r"(row), "+r"(column));  // computed here, while wgmma runs
      if (has_pending) store_subtile(0);
      if (has_partials) store_partials(0);
#pragma unroll
      for (int subtile = 1; subtile < P::subtiles; ++subtile) {
        if (subtile < count) k_tile(subtile);
        if (has_pending) store_subtile(subtile);
        if (has_partials) store_partials(subtile);
      }
      for (int s = P::subtiles; s < count; ++s) k_tile(s);
      consumer.finish();

      has_pending = unit.from == 0;
      if (!has_pending) {
        slot = unit.slot;
#pragma unroll
        for (int i = 0; i < kChunks * kVectors / 2; ++i) {
          const float* const of = &d[i / (P::width / 8)][i % (P::width / 8) * 4];
          __stcg(partials_of(slot, i / kVectors) + (group * kVectors + i % kVectors) * sm90::kWarpgroupThreads + thread,
                 make_float4(of[0], of[1], of[2], of[3]));
        }
        // An opaque copy: if it shared registers with D, the compiler would serialise wgmma.
#pragma unroll
        for (int i = 0; i < P::subtiles * 16; ++i) {
          const int at = P::subtiles * 16 + i;
          asm volatile("mov.b32 %0, %1;"
                       : "=r"(pending[i / 16][i % 16])
                       : "f"(d[at / (P::width / 2)][at % (P::width / 2)]));
        }
        has_partials = true;
        continue;
      }
      unit.for_each_peer([&](int) {
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk, state.next(P::stages)) {
          pipeline.consumer_wait(state);
          const unsigned vectors =
              storage.stages_b + state.index * P::bytes_b + (group * kVectors * sm90::kWarpgroupThreads + thread) * 16;
#pragma unroll
          for (int i = 0; i < kVectors; ++i) {
            float values[4];
            warpwise::ld_shared_v4(values, vectors + i * sm90::kWarpgroupThreads * 16);
            float* const to = &d[(chunk * kVectors + i) / (P::width / 8)][(chunk * kVectors + i) % (P::width / 8) * 4];
            to[0] += values[0], to[1] += values[1], to[2] += values[2], to[3] += values[3];
            // Forces the additions here, which bounds live registers to one chunk.
            asm volatile("" : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3]));
          }
          sm90::named_barrier_sync(1 + group, sm90::kWarpgroupThreads);
          if (releases) pipeline.consumer_release(state.index, thread);
        }
      });
      pending_row = row;
      pending_column = column;
#pragma unroll
      for (int subtile = 0; subtile < P::subtiles; ++subtile) {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const float* const pair = &d[subtile / (P::width / 64)][subtile % (P::width / 64) * 32 + 2 * i];
          pending[subtile][i] = sm90::rounded(pair[0], pair[1], T());
        }
      }
    }
    if (has_pending || has_partials) {
#pragma unroll
      for (int subtile = 0; subtile < P::subtiles; ++subtile) {
        if (has_pending) store_subtile(subtile);
        if (has_partials) store_partials(subtile);
      }
    }
    if (thread == 0) sm90::tma_store_wait_read<0>();  // the end of the kernel waits for the global writes
  }
  sm90::cluster_sync_relaxed();  // a block must not exit while others may arrive at its barriers
}
