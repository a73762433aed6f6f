// Epilogue of the warp-specialised fp32 kernels: the sums of the consumer warps to tiles of row-major C.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/sm90/warpgroup.cuh>

namespace warpwise {

// WARPS consumer warps compute a tile of BM x BN. A warp tile is 64 x 64, or 32 x 128 for BM = 32; a thread computes 8
// x 16. Tiles with fewer warp tiles than warps divide each k-tile among `split` warps, whose sums are added in the
// epilogue. Consumers synchronise at named barrier 1.
template <int BM, int BN, int WARPS>
struct Warps {
  static constexpr int bm = BM, bn = BN;
  static constexpr int rows = BM < 64 ? BM : 64, columns = 4096 / rows;
  static constexpr int lanes_n = columns / 16, lanes_m = 32 / lanes_n;  // lanes of a warp across and down its tile
  static constexpr int tiles_n = BN / columns, tiles = BM / rows * tiles_n, split = WARPS / tiles;
  static constexpr int pitch = columns + 16;  // of staged sums: 16-byte accesses of eight lanes cover all banks
  static constexpr int threads = WARPS * 32;
  static constexpr int staging = WARPS * 8 * 80;  // floats: lanes_m rows of each warp, lanes_m * pitch <= 8 * 80
  static_assert(split * tiles == WARPS && BN % columns == 0 && BM % rows == 0, "the tile occupies all warps");
};

// Adds `zero`, which is 0 but not a constant to the compiler. The registers of a 16-byte access are consecutive:
// accumulators allocated there would have register bank conflicts in the main loop.
__device__ inline Float4 to_float4(const float* sums, float zero) {
  return {sums[0] + zero, sums[1] + zero, sums[2] + zero, sums[3] + zero};
}

// Stores every fourth staged row of half a warp tile, from `first` on, to `to`: (m, n), row-major, at row and column
// `at`; V elements per access, to which the rows of C are aligned.
template <class W, int V>
__device__ __forceinline__ void store_staged_rows(const float* staging, float* to, int m, int n, int2 at, int thread,
                                                  int first) {
  constexpr int kLanes = W::bn / V < 32 ? W::bn / V : 32;  // per row
#pragma unroll 1
  for (int i = thread / kLanes; i < W::bm / W::rows * W::lanes_m; i += W::threads / kLanes) {
    const int row = at.x + i / W::lanes_m * W::rows + first + i % W::lanes_m * 4, left = row < m ? n - at.y : 0;
    const float* const staged = staging + (i / W::lanes_m * W::tiles_n * W::lanes_m + i % W::lanes_m) * W::pitch;
    float* const line = to + static_cast<long long>(row) * n + at.y;
#pragma unroll
    for (int offset = 0; offset < W::bn; offset += kLanes * V) {
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

// Stores the sums of a tile to `to`: (m, n), row-major, at row and column `at`. `thread`: index among the consumers.
template <class W>
__device__ __forceinline__ void store_tile(const float (&sums)[8][16], float* staging, float* to, int m, int n, int2 at,
                                           int thread, float zero) {
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
    sm90::named_barrier_sync(1, W::threads);
#pragma unroll
    for (int q = 0; q < 4; ++q)
      *reinterpret_cast<Float4*>(own_words + q * (W::columns / 4)) = to_float4(&sums[i][4 * q], zero);
    sm90::named_barrier_sync(1, W::threads);
    const int first = i / 4 * (W::rows / 2) + i % 4;
    if (W::split > 1 && vectorised)
      store_staged_rows<W, 4>(staging, to, m, n, at, thread, first);
    else
      store_staged_rows<W, 1>(staging, to, m, n, at, thread, first);
  }
}

}  // namespace warpwise
