// Hybrid stream-K for a GEMM (gemm.cuh): the k-tiles of `sk_tiles` tiles are divided among all clusters; the other
// tiles are computed whole. sm_90a only.
#pragma once

#include <warpwise/sm90/gemm_store.cuh>

namespace warpwise {
namespace sm90 {

// Stream-K work of the first `sk_tiles` tiles, for `clusters` clusters: the first `sk_tiles` clusters own a tile each
// and compute its first `edge` k-tiles; the other clusters compute the remainder, in splits - 1 equal ranges per tile.
// If there are fewer clusters than ranges, each computes ranges of several tiles.
struct StreamK {
  int k_tiles, sk_tiles, clusters, splits, edge;
  __device__ int split_begin(int split) const {  // the first k-tile of a split
    return split == 0 ? 0 : edge + (k_tiles - edge) * (split - 1) / (splits - 1);
  }
};

// The work units of a cluster: k-tiles [from, to) of `tile`. Units that begin inside a tile come first; then every
// clusters-th whole tile. The partial sums of a unit that begins inside a tile are stored at `slot`, for the cluster
// that has the first k-tiles of the tile. Workers are numbered from the last cluster to the first: a cluster waits
// only on clusters with a lower blockIdx, so it cannot deadlock.
struct WorkUnits {
  const StreamK& stream_k;
  int tiles, next_whole_tile, at, end, step, split, tile = 0, from = 0, to = 0, slot = 0;
  __device__ WorkUnits(const StreamK& stream_k, int tiles, int cluster)
      : stream_k(stream_k), tiles(tiles), next_whole_tile(stream_k.sk_tiles + cluster) {
    const int worker = stream_k.clusters - 1 - cluster, contributor = worker - stream_k.sk_tiles,
              contributors = min(stream_k.clusters - stream_k.sk_tiles, (stream_k.splits - 1) * stream_k.sk_tiles);
    end = contributor < contributors ? stream_k.sk_tiles : 0;
    at = contributor < 0 ? worker : contributor % stream_k.sk_tiles;
    split = contributor < 0 ? 0 : 1 + contributor / stream_k.sk_tiles;
    step = contributor < 0 ? stream_k.sk_tiles : contributors;
  }
  __device__ bool next() {  // advances; false if there are no more units
    if (at >= end) {
      tile = next_whole_tile, from = 0, to = stream_k.k_tiles;
      next_whole_tile += stream_k.clusters;
    } else {
      tile = at, from = stream_k.split_begin(split), to = stream_k.split_begin(split + 1);
      slot = tile + (split - 1) * stream_k.sk_tiles;
      at += step;
    }
    return tile < tiles;
  }
  template <class Visit>
  __device__ void for_each_peer(const Visit& visit) const {  // visits the slots of the tile that this cluster owns
    if (from > 0 || to == stream_k.k_tiles) return;
    for (int peer = 0; peer < stream_k.splits - 1; ++peer) visit(tile + peer * stream_k.sk_tiles);
  }
};

// The tile scheduler: all units of a cluster. P: a GemmConfig.
template <class P>
struct StreamKTiles {
  static constexpr bool unrolled = false, alternates = false;
  TileScheduler order;
  StreamK stream_k;

  struct Work {
    using Config = P;
    static constexpr bool transposed = false, may_be_empty = false;
    const TileScheduler& order;
    const WorkUnits& unit;
    __device__ int k_tiles() const { return unit.to - unit.from; }
    __device__ int first_k() const { return unit.from * P::tile_k; }
    __device__ TileCoord at() const {
      const Tile tile = order.at(unit.tile);
      return {tile.row * P::cm * P::bm, tile.column * P::cn * P::bn};
    }
  };
  __device__ WorkUnits units() const { return WorkUnits(stream_k, order.tiles(), blockIdx.x / P::cluster); }
  template <class Visit>
  __device__ void for_each(const Visit& visit) const {
    WorkUnits unit = units();
    while (unit.next()) visit(Work{order, unit});
  }
};

__device__ inline void signal_flag(int* flag) {
  asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");
}
__device__ inline void wait_and_reset(int* flag) {
  int ready;
  do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
  while (!ready);
  asm volatile("st.relaxed.gpu.global.s32 [%0], 0;" ::"l"(flag) : "memory");  // for the next launch
}

// OverlappedStore that exchanges partial sums through global memory. A unit that begins inside a tile stores its sums
// there, one half during the main loop of the next unit. The producer of the tile's owner loads them into the pipeline
// stages, like k-tiles, and the owner adds them to its accumulators. An otherwise idle warp for each warpgroup signals
// that they are stored, so the consumers do not wait for their stores.
template <class P>
struct StreamKStore : OverlappedStore<P, BoxStore> {
  using Base = OverlappedStore<P, BoxStore>;
  // Partial sums are passed in kChunks chunks, each through the memory of B in one stage; a chunk has kVectors float4
  // per consumer thread.
  static constexpr int kChunks = P::bm / 32, kVectors = P::wgmmas * P::width / 8 / kChunks;
  static_assert(kChunks * P::bytes_b == P::bm * P::bn * sizeof(float), "all sums of a block");
  const GemmStorage<P>& storage;
  float4* const partials;  // P::bm x P::bn floats per block
  int* const flags;        // one per block and warpgroup, 0 before and after a launch
  const int rank;          // of the block in its cluster
  int slot = 0;
  bool has_partials = false;  // `pending` has the second half of a unit's partial sums

  __device__ StreamKStore(const GemmStorage<P>& storage, const TensorMap* c, float* partials, int* flags)
      : Base(storage, {c}),
        storage(storage),
        partials(reinterpret_cast<float4*>(partials)),
        flags(flags),
        rank(static_cast<int>(cluster_ctarank())) {}

  __device__ float4* chunk_of(int worker, int chunk) const {
    return partials + ((worker * P::cluster + rank) * kChunks + chunk) * (P::bm * P::bn / 4 / kChunks);
  }
  __device__ int* flag_of(int worker, int group) const {
    return flags + (worker * P::cluster + rank) * P::groups + group;
  }
  // Stores this thread's vector `i` of its accumulators.
  __device__ void store_vector(int i, float4 sums) const {
    __stcg(chunk_of(slot, i / kVectors) + (P::group() * kVectors + i % kVectors) * kWarpgroupThreads +
               threadIdx.x % kWarpgroupThreads,
           sums);
  }

  template <class Producer, class Work>
  __device__ void produce(Producer& producer, const Work& work) const {
    work.unit.for_each_peer([&](int peer) {
      for (int g = 0; g < P::groups; ++g) wait_and_reset(flag_of(peer, g));
      fence_proxy_async_global();
      PipelineState& state = producer.state;
      for (int chunk = 0; chunk < kChunks; ++chunk, state.next(P::stages)) {
        const unsigned full_barrier = storage.pipeline.producer_acquire(state, P::bytes_b);
        tma_load_bulk(storage.stages_b + state.index * P::bytes_b, chunk_of(peer, chunk), P::bytes_b, full_barrier);
      }
    });
  }
  __device__ void signal(const StreamKTiles<P>& tiles) const {
    const int warp = threadIdx.x / 32;
    if (warp < 1 || warp > P::groups) return;
    for (WorkUnits unit = tiles.units(); unit.next() && unit.from > 0;) {
      named_barrier_sync(2 + warp, kWarpgroupThreads + 32);
      if (threadIdx.x % 32 == 0) signal_flag(flag_of(unit.slot, warp - 1));
      __syncwarp();
    }
  }

  __device__ void step(int subtile) {
    Base::step(subtile);
    if (has_partials) store_partials(subtile);
  }
  __device__ void store_partials(int subtile) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const unsigned* const of = &this->pending[subtile][4 * j];
      store_vector((P::subtiles + subtile) * 4 + j, make_float4(__uint_as_float(of[0]), __uint_as_float(of[1]),
                                                                __uint_as_float(of[2]), __uint_as_float(of[3])));
    }
    if (subtile == P::subtiles - 1) {
      fence_proxy_async_global();
      named_barrier_sync(3 + P::group(), kWarpgroupThreads + 32);
      has_partials = false;
    }
  }
  template <class Sums, class Work>
  __device__ void finish(Sums& d, const Work& work, int k_tiles, WgmmaConsumer<>& consumer) {
    if (work.unit.from > 0) {
      keep_partials(d, work.unit.slot);
      return;
    }
    work.unit.for_each_peer([&](int) { add_partials(d, consumer); });
    Base::finish(d, work, k_tiles, consumer);
  }
  template <class Sums>
  __device__ void keep_partials(Sums& d, int to) {
    this->has_pending = false;
    has_partials = true;
    slot = to;
#pragma unroll
    for (int i = 0; i < kChunks * kVectors / 2; ++i) {
      const float* const of = &d[i / (P::width / 8)][i % (P::width / 8) * 4];
      store_vector(i, make_float4(of[0], of[1], of[2], of[3]));
    }
    // An opaque copy: if it shared registers with D, the compiler would serialise wgmma.
#pragma unroll
    for (int i = 0; i < P::subtiles * 16; ++i) {
      const int at = P::subtiles * 16 + i;
      asm volatile("mov.b32 %0, %1;"
                   : "=r"(this->pending[i / 16][i % 16])
                   : "f"(d[at / (P::width / 2)][at % (P::width / 2)]));
    }
  }
  template <class Sums>
  __device__ void add_partials(Sums& d, WgmmaConsumer<>& consumer) const {
    const int thread = threadIdx.x % kWarpgroupThreads;
    PipelineState& state = consumer.state;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk, state.next(P::stages)) {
      storage.pipeline.consumer_wait(state);
      const unsigned vectors =
          storage.stages_b + state.index * P::bytes_b + (P::group() * kVectors * kWarpgroupThreads + thread) * 16;
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        float values[4];
        ld_shared_v4(values, vectors + i * kWarpgroupThreads * 16);
        float* const to = &d[(chunk * kVectors + i) / (P::width / 8)][(chunk * kVectors + i) % (P::width / 8) * 4];
        to[0] += values[0], to[1] += values[1], to[2] += values[2], to[3] += values[3];
        // Forces the additions here, which bounds live registers to one chunk.
        asm volatile("" : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3]));
      }
      named_barrier_sync(1 + P::group(), kWarpgroupThreads);
      consumer.release(storage.pipeline.empty_barrier(state.index));
    }
  }
  __device__ void drain() {
    if (!this->has_pending && !has_partials) return;
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile) step(subtile);
  }
};

}  // namespace sm90
}  // namespace warpwise
