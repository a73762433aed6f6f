// Slices of tiles dealt evenly to clusters: who does which, and how sums pass from one to another.
#pragma once

// The slices of the first `cut` tiles, for `clusters` shares. parts = 0, in a row: share by share through one tile
// after another; a boundary within `edge` slices of a tile's lies there, as sums that leave cost more than such a piece
// evens out. parts >= 2, side by side: the first `cut` shares are the first `edge` slices of a tile each, and the
// others what is left, in parts - 1 parts a tile; where these shares are fewer than tiles, each goes from tile to tile.
struct Shares {
  int slices, cut, clusters, parts, edge;
  __device__ int begin(int share) const {  // in a row
    const int total = cut * slices, at = share * (total / clusters) + min(share, total % clusters);
    const int past = at % slices, left = slices - past;
    return past <= edge ? at - past : left <= edge ? at + left : at;
  }
  __device__ int bound(int part) const {  // side by side: where a part begins
    return part == 0 ? 0 : edge + (slices - edge) * (part - 1) / (parts - 1);
  }
};

// What a cluster does: its pieces of tiles, slices [from, to), those that begin inside a tile first, then every
// clusters-th whole tile. Sums of a piece that begins inside a tile are left at `slot`, for the cluster that has the
// tile's first slices. Shares are awaited by earlier ones alone, and dealt from the last on: nobody waits for a cluster
// that starts later.
struct Pieces {
  const Shares& shares;
  int tiles, share, at, end, whole, step = 0, part = 0, tile = 0, from = 0, to = 0, slot = 0;
  __device__ Pieces(const Shares& shares, int tiles, int cluster)
      : shares(shares), tiles(tiles), share(shares.clusters - 1 - cluster), whole(shares.cut + cluster) {
    if (shares.parts) {
      const int helper = share - shares.cut,
                helpers = min(shares.clusters - shares.cut, (shares.parts - 1) * shares.cut);
      end = helper < helpers ? shares.cut : 0;
      at = helper < 0 ? share : helper % max(1, shares.cut);
      part = helper < 0 ? 0 : 1 + helper / max(1, shares.cut);
      step = helper < 0 ? shares.cut : helpers;
    } else {
      at = shares.begin(share);
      end = shares.begin(share + 1);
    }
  }
  __device__ bool next() {  // whether there is one more
    if (at >= end) {
      tile = whole, from = 0, to = shares.slices;
      whole += shares.clusters;
    } else if (shares.parts) {
      tile = at, from = shares.bound(part), to = shares.bound(part + 1);
      slot = tile + (part - 1) * shares.cut;
      at += step;
    } else {
      tile = at / shares.slices, from = at % shares.slices, to = min(shares.slices, from + end - at);
      slot = share;
      at += to - from;
    }
    return tile < tiles;
  }
  template <class Visit>
  __device__ void each_other(const Visit& visit) const {  // slot of the tile whose first slices these are
    if (from > 0 || to == shares.slices) return;
    if (shares.parts) {
      for (int other = 0; other < shares.parts - 1; ++other) visit(tile + other * shares.cut);
      return;
    }
    const int last = (tile + 1) * shares.slices;
    for (int other = share + 1, first = end; first < last; ++other) {
      const int next = shares.begin(other + 1);
      if (first < next) visit(other);
      first = next;
    }
  }
};

// Ordinary stores to global memory come before what the copy engine reads of it, once a flag has told.
__device__ inline void global_proxy_fence() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

__device__ inline void raise(int* flag) { asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory"); }
__device__ inline void lower_once_raised(int* flag) {
  int raised;
  do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(raised) : "l"(flag) : "memory");
  while (!raised);
  *flag = 0;  // for the next launch
}

// `bytes` of global memory, a multiple of 16, to shared memory.
__device__ inline void load_bytes(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
