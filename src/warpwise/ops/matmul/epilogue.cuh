// Epilogue of k13: the sums of eight consumer warps to tiles of C, or to partial tiles in global memory.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/sm90/warpgroup.cuh>

namespace warpwise {

constexpr int kWarps = 8, kConsumerThreads = kWarps * 32;  // consumer threads, which synchronise at named barrier 1

// Eight warps compute a tile of BM x BN. A warp tile is 64 x 64, or 32 x 128 for BM = 32; a thread computes 8 x 16.
// Tiles with fewer than eight warp tiles divide each k-tile among `split` warps, whose sums are added in the epilogue.
template <int BM, int BN>
struct Warps {
  static constexpr int rows = BM < 64 ? BM : 64, columns = 4096 / rows;
  static constexpr int lanes_n = columns / 16, lanes_m = 32 / lanes_n;  // lanes of a warp across and down its tile
  static constexpr int tiles_n = BN / columns, tiles = BM / rows * tiles_n, split = kWarps / tiles;
  static constexpr int pitch = columns + 16;  // of staged sums: 16-byte accesses of eight lanes cover all banks
  static_assert(split * tiles == kWarps && BN % columns == 0 && BM % rows == 0, "the tile occupies all warps");
};

constexpr int kStaging = kWarps * 8 * 80;  // floats: lanes_m rows of each warp, lanes_m * pitch <= 8 * 80

// K-tiles [first, first + k_tiles) of a tile; slot: of its partial sums, or -1 for the whole of K.
struct WorkUnit {
  int tile, slot, first, k_tiles;
};

// Each of the first `whole_tiles` tiles of C is one work unit. Each of the other tiles has `pitch` k-tiles. These are
// divided among the first `ranges` blocks; a block has a range of `base` k-tiles, base <= pitch. A range covers parts
// of one or two tiles, and the last range part of one. Each part is a work unit, whose partial sums are written to slot
// block + tile of `partials`, (slots, BM, BN). The slots of a tile are adjacent, in the order of K. If there are
// ranges, whole_tiles is a multiple of the number of blocks.
struct StreamK {
  float* partials;
  int whole_tiles, ranges, base, pitch;

  __device__ int units() const {  // of this block: those below, in steps of the grid
    const int block = blockIdx.x, second = block + 1 < ranges && block * base % pitch + base > pitch;
    return block < ranges ? whole_tiles + (1 + second) * static_cast<int>(gridDim.x) : whole_tiles;
  }
  __device__ WorkUnit unit(int index, int k_tiles) const {
    if (index < whole_tiles) return {index, -1, 0, k_tiles};
    const int block = blockIdx.x, first = block * base % pitch, here = min(base, pitch - first);
    const int second = index >= whole_tiles + static_cast<int>(gridDim.x), tile = block * base / pitch + second;
    if (second) return {whole_tiles + tile, block + tile, 0, base - here};
    return {whole_tiles + tile, block + tile, first, min(here, k_tiles - first)};
  }
  // The slots of the partial sums of the tile whole_tiles + `tile`: the first, and the one after the last.
  __device__ int2 slots(int tile) const {
    return {tile * pitch / base + tile, ((tile + 1) * pitch - 1) / base + tile + 1};
  }
};

// Adds `zero`, which is 0 but not a constant to the compiler. The registers of a 16-byte access are consecutive:
// accumulators allocated there would have register bank conflicts in the main loop.
__device__ inline Float4 to_float4(const float* sums, float zero) {
  return {sums[0] + zero, sums[1] + zero, sums[2] + zero, sums[3] + zero};
}

// Stores every fourth staged row of half a warp tile, from `first` on, to `to`: (m, n), row-major, at row and column
// `at`; V elements per access, to which the rows of C are aligned.
template <int BM, int BN, int V>
__device__ __forceinline__ void store_staged_rows(const float* staging, float* to, int m, int n, int2 at, int thread,
                                                  int first) {
  using W = Warps<BM, BN>;
  constexpr int kLanes = BN / V < 32 ? BN / V : 32;  // per row
#pragma unroll 1
  for (int i = thread / kLanes; i < BM / W::rows * W::lanes_m; i += kConsumerThreads / kLanes) {
    const int row = at.x + i / W::lanes_m * W::rows + first + i % W::lanes_m * 4, left = row < m ? n - at.y : 0;
    const float* const staged = staging + (i / W::lanes_m * W::tiles_n * W::lanes_m + i % W::lanes_m) * W::pitch;
    float* const line = to + static_cast<long long>(row) * n + at.y;
#pragma unroll
    for (int offset = 0; offset < BN; offset += kLanes * V) {
      const int x = thread % kLanes * V + offset;
      if (x >= left) continue;
      Vector<float, V> sum = {};
#pragma unroll
      for (int k_group = 0; k_group < W::split; ++k_group) {
        const auto values = *reinterpret_cast<const Vector<float, V>*>(
            staged + (k_group * W::tiles + x / W::columns) * W::lanes_m * W::pitch + x % W::columns);
#pragma unroll
        for (int e = 0; e < V; ++e) sum.at[e] += values.at[e];
      }
      *reinterpret_cast<Vector<float, V>*>(line + x) = sum;
    }
  }
}

// Stores the sums of a tile to `to`: (m, n), row-major, at row and column `at`. `thread`: index among the consumer
// threads.
template <int BM, int BN>
__device__ __forceinline__ void store_tile(const float (&sums)[8][16], float* staging, float* to, int m, int n, int2 at,
                                           int thread, float zero) {
  using W = Warps<BM, BN>;
  const bool vectorised = n % 4 == 0;
  if (W::split == 1 && vectorised) {
    const int row = at.x + thread / 32 / W::tiles_n * W::rows + thread % 32 / W::lanes_n * 4;
    const int column = at.y + thread / 32 % W::tiles_n * W::columns + thread % W::lanes_n * 4;
    float* line = to + static_cast<long long>(row) * n + column;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int left = row + i / 4 * (W::rows / 2) + i % 4 < m ? n - column : 0;
#pragma unroll
      for (int q = 0; q < 4; ++q)
        store4<true>(line + q * (W::columns / 4), to_float4(&sums[i][4 * q], zero).at, left - q * (W::columns / 4));
      line += static_cast<long long>(i == 3 ? W::rows / 2 - 3 : 1) * n;
      asm volatile("" ::: "memory");  // bounds live registers to one row
    }
    return;
  }
  float* const own_words = staging + thread / W::lanes_n * W::pitch + thread % W::lanes_n * 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sm90::named_barrier_sync(1, kConsumerThreads);
#pragma unroll
    for (int q = 0; q < 4; ++q)
      *reinterpret_cast<Float4*>(own_words + q * (W::columns / 4)) = to_float4(&sums[i][4 * q], zero);
    sm90::named_barrier_sync(1, kConsumerThreads);
    const int first = i / 4 * (W::rows / 2) + i % 4;
    if (W::split > 1 && vectorised)
      store_staged_rows<BM, BN, 4>(staging, to, m, n, at, thread, first);
    else
      store_staged_rows<BM, BN, 1>(staging, to, m, n, at, thread, first);
  }
}

}  // namespace warpwise
