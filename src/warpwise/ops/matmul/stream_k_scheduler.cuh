// Hybrid stream-K tile scheduler: the k-tiles of `sk_tiles` tiles are divided among all clusters; the other tiles are
// computed whole.
#pragma once

// Stream-K work of the first `sk_tiles` tiles, for `clusters` clusters.
//
// splits = 0: all k-tiles form one sequence, which is divided evenly; a boundary within `edge` k-tiles of a tile's
// boundary is moved to it, since passing partial sums costs more than the imbalance.
//
// splits >= 2: the first `sk_tiles` clusters own a tile each and compute its first `edge` k-tiles; the other clusters
// compute the remainder, in splits - 1 equal ranges per tile. If there are fewer clusters than ranges, each computes
// ranges of several tiles.
struct StreamK {
  int k_tiles, sk_tiles, clusters, splits, edge;
  __device__ int begin(int worker) const {  // splits = 0
    const int total = sk_tiles * k_tiles, at = worker * (total / clusters) + min(worker, total % clusters);
    const int beyond = at % k_tiles, remaining = k_tiles - beyond;
    return beyond <= edge ? at - beyond : remaining <= edge ? at + remaining : at;
  }
  __device__ int split_begin(int split) const {  // splits >= 2: the first k-tile of a split
    return split == 0 ? 0 : edge + (k_tiles - edge) * (split - 1) / (splits - 1);
  }
};

// The work units of a cluster: k-tiles [from, to) of `tile`. Units that begin inside a tile come first; then every
// clusters-th whole tile. The partial sums of a unit that begins inside a tile are stored at `slot`, for the cluster
// that has the first k-tiles of the tile. Workers are numbered from the last cluster to the first: a cluster waits
// only on clusters with a lower blockIdx, so it cannot deadlock.
struct WorkUnits {
  const StreamK& stream_k;
  int tiles, worker, at, end, next_whole_tile, step = 0, split = 0, tile = 0, from = 0, to = 0, slot = 0;
  __device__ WorkUnits(const StreamK& stream_k, int tiles, int cluster)
      : stream_k(stream_k),
        tiles(tiles),
        worker(stream_k.clusters - 1 - cluster),
        next_whole_tile(stream_k.sk_tiles + cluster) {
    if (stream_k.splits) {
      const int contributor = worker - stream_k.sk_tiles,
                contributors = min(stream_k.clusters - stream_k.sk_tiles, (stream_k.splits - 1) * stream_k.sk_tiles);
      end = contributor < contributors ? stream_k.sk_tiles : 0;
      at = contributor < 0 ? worker : contributor % max(1, stream_k.sk_tiles);
      split = contributor < 0 ? 0 : 1 + contributor / max(1, stream_k.sk_tiles);
      step = contributor < 0 ? stream_k.sk_tiles : contributors;
    } else {
      at = stream_k.begin(worker);
      end = stream_k.begin(worker + 1);
    }
  }
  __device__ bool next() {  // advances; false if there are no more units
    if (at >= end) {
      tile = next_whole_tile, from = 0, to = stream_k.k_tiles;
      next_whole_tile += stream_k.clusters;
    } else if (stream_k.splits) {
      tile = at, from = stream_k.split_begin(split), to = stream_k.split_begin(split + 1);
      slot = tile + (split - 1) * stream_k.sk_tiles;
      at += step;
    } else {
      tile = at / stream_k.k_tiles, from = at % stream_k.k_tiles, to = min(stream_k.k_tiles, from + end - at);
      slot = worker;
      at += to - from;
    }
    return tile < tiles;
  }
  template <class Visit>
  __device__ void for_each_peer(const Visit& visit) const {  // visits the slots of the tile that this cluster owns
    if (from > 0 || to == stream_k.k_tiles) return;
    if (stream_k.splits) {
      for (int peer = 0; peer < stream_k.splits - 1; ++peer) visit(tile + peer * stream_k.sk_tiles);
      return;
    }
    const int last = (tile + 1) * stream_k.k_tiles;
    for (int peer = worker + 1, first = end; first < last; ++peer) {
      const int next = stream_k.begin(peer + 1);
      if (first < next) visit(peer);
      first = next;
    }
  }
};

// Orders earlier generic-proxy accesses of global memory before later accesses by TMA (async proxy).
__device__ inline void global_proxy_fence() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

__device__ inline void signal(int* flag) { asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory"); }
__device__ inline void wait_and_reset(int* flag) {
  int ready;
  do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
  while (!ready);
  *flag = 0;  // for the next launch
}

// cp.async.bulk: copies `bytes` of global memory, a multiple of 16, to shared memory.
__device__ inline void tma_load_bulk(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
