// How a block's sums leave the registers of the eight warps that multiply: its pieces of C, and parts of tiles.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/sm90/warpgroup.cuh>

namespace warpwise {

constexpr int kWarps = 8, kMultiplying = kWarps * 32;  // threads that multiply, and meet at named barrier 1

// Eight warps and a tile of BM x BN: a warp's tile is 64 x 64, or 32 x 128 of fewer rows, a thread's 8 x 16. Warps that
// a small tile leaves idle share out each slice's depth, and add their sums at the end.
template <int BM, int BN>
struct Warps {
  static constexpr int rows = BM < 64 ? BM : 64, columns = 4096 / rows;
  static constexpr int across = columns / 16, down = 32 / across;  // lanes
  static constexpr int tiles_n = BN / columns, tiles = BM / rows * tiles_n, split = kWarps / tiles;
  static constexpr int pitch = columns + 16;  // of staged sums: a quad's eight lanes meet all banks
  static_assert(split * tiles == kWarps && BN % columns == 0 && BM % rows == 0, "all warps multiply");
};

constexpr int kStaging = kWarps * 8 * 80;  // floats: `down` rows of each warp, down * pitch at most

// C's first `whole` tiles are a piece each; then each other tile is `count` pieces, whose sums go to `sums`: (tiles -
// whole, count, BM, BN).
struct Parts {
  float* sums;
  int whole, count;
};

// Slices [first, first + slices) of a tile; part: -1 where these are all.
struct Piece {
  int tile, part = -1, first = 0, slices;
  __device__ Piece(int number, int all, const Parts& parts) : tile(number), slices(all) {
    if (number < parts.whole) return;
    const int least = all / parts.count, more = all % parts.count;
    tile = parts.whole + (number - parts.whole) / parts.count;
    part = (number - parts.whole) % parts.count;
    first = part * least + min(part, more);
    slices = least + (part < more);
  }
};

// Adds `zero`, which the compiler does not know: a quad's registers are neighbours, and sums kept in such would meet in
// their banks when they are multiplied.
__device__ inline Float4 quad_of(const float* sums, float zero) {
  return {sums[0] + zero, sums[1] + zero, sums[2] + zero, sums[3] + zero};
}

// Writes staged rows of a tile, every fourth of half a warp's tile from `first` on, to `to`: (m, n), row-major, from
// row and column `at` on: V neighbours a thread; rows of C lie on as many elements.
template <int BM, int BN, int V>
__device__ __forceinline__ void leave_rows(const float* staging, float* to, int m, int n, int2 at, int thread,
                                           int first) {
  using W = Warps<BM, BN>;
  constexpr int kLanes = BN / V < 32 ? BN / V : 32;  // on a row
#pragma unroll 1
  for (int i = thread / kLanes; i < BM / W::rows * W::down; i += kMultiplying / kLanes) {
    const int row = at.x + i / W::down * W::rows + first + i % W::down * 4, left = row < m ? n - at.y : 0;
    const float* const staged = staging + (i / W::down * W::tiles_n * W::down + i % W::down) * W::pitch;
    float* const line = to + static_cast<long long>(row) * n + at.y;
#pragma unroll
    for (int turn = 0; turn < BN; turn += kLanes * V) {
      const int x = thread % kLanes * V + turn;
      if (x >= left) continue;
      Vector<float, V> sum = {};
#pragma unroll
      for (int share = 0; share < W::split; ++share) {
        const auto more = *reinterpret_cast<const Vector<float, V>*>(
            staged + (share * W::tiles + x / W::columns) * W::down * W::pitch + x % W::columns);
#pragma unroll
        for (int e = 0; e < V; ++e) sum.at[e] += more.at[e];
      }
      *reinterpret_cast<Vector<float, V>*>(line + x) = sum;
    }
  }
}

// Writes a tile's sums to `to`: (m, n), row-major, from row and column `at` on. `thread`: of those that multiply.
template <int BM, int BN>
__device__ __forceinline__ void leave(const float (&sums)[8][16], float* staging, float* to, int m, int n, int2 at,
                                      int thread, float zero) {
  using W = Warps<BM, BN>;
  const bool quads = n % 4 == 0;
  if (W::split == 1 && quads) {
    const int row = at.x + thread / 32 / W::tiles_n * W::rows + thread % 32 / W::across * 4;
    const int column = at.y + thread / 32 % W::tiles_n * W::columns + thread % W::across * 4;
    float* line = to + static_cast<long long>(row) * n + column;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int left = row + i / 4 * (W::rows / 2) + i % 4 < m ? n - column : 0;
#pragma unroll
      for (int q = 0; q < 4; ++q)
        store4<true>(line + q * (W::columns / 4), quad_of(&sums[i][4 * q], zero).at, left - q * (W::columns / 4));
      line += static_cast<long long>(i == 3 ? W::rows / 2 - 3 : 1) * n;
      asm volatile("" ::: "memory");  // registers of one line at a time
    }
    return;
  }
  float* const mine = staging + thread / W::across * W::pitch + thread % W::across * 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sm90::named_barrier_sync(1, kMultiplying);
#pragma unroll
    for (int q = 0; q < 4; ++q)
      *reinterpret_cast<Float4*>(mine + q * (W::columns / 4)) = quad_of(&sums[i][4 * q], zero);
    sm90::named_barrier_sync(1, kMultiplying);
    const int first = i / 4 * (W::rows / 2) + i % 4;
    if (W::split > 1 && quads)
      leave_rows<BM, BN, 4>(staging, to, m, n, at, thread, first);
    else
      leave_rows<BM, BN, 1>(staging, to, m, n, at, thread, first);
  }
}

}  // namespace warpwise
