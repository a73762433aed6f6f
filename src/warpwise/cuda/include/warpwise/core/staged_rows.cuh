// Short rows whose size in bytes is not a multiple of 16. The rows of a warp are contiguous in memory: the warp copies
// them through shared memory by 16-byte accesses. Direct accesses to a row would have 2 or 4 bytes and idle lanes.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/reduce.cuh>

namespace warpwise {

// The rows of one warp of an array (rows, columns), contiguous. LANES adjacent lanes have a row; a lane has its
// elements lane % LANES + e * LANES, e < VALUES. Block: (32, WARPS). Grid: cdiv(rows, WARPS * kRows).
template <class T, int LANES, int VALUES, int WARPS = kWarpsOfTeams>
struct StagedRows {
  static constexpr int kRows = kWarp / LANES, kSize = Pack<T>::size, kPacks = VALUES / kSize;
  static_assert(kRows % kSize == 0 && VALUES % kSize == 0, "the rows of a warp are whole packs, of any length");
  T* tile;
  long long first;  // element
  int columns, count, row, lane;
  unsigned turn;

  __device__ StagedRows(long long rows, int columns) : columns(columns) {
    __shared__ __align__(16) T tiles[WARPS][kWarp * VALUES];
    tile = tiles[threadIdx.y];
    const long long begin = (static_cast<long long>(blockIdx.x) * WARPS + threadIdx.y) * kRows, left = rows - begin;
    first = begin * columns;
    count = left <= 0 ? 0 : (left < kRows ? static_cast<int>(left) : kRows) * columns;
    row = threadIdx.x / LANES * columns;
    lane = threadIdx.x % LANES;
    // If the largest power of two that divides a row's bytes is 128 / n, every n-th row begins in the same bank. The
    // lanes of these rows therefore begin at different elements.
    constexpr int kOfWord = 4 / sizeof(T) / LANES > 1 ? 4 / sizeof(T) / LANES : 1;  // elements of a lane in a word
    turn = (threadIdx.x / LANES) * (columns & -columns) * static_cast<int>(sizeof(T)) / 128 * kOfWord;
  }

  // The place of this lane's element e in its row. The order of a lane's elements is rotated by `turn`.
  __device__ int at(int e) const { return lane + static_cast<int>((e + turn) % VALUES) * LANES; }
  __device__ bool inside(int e) const { return at(e) < columns && row < count; }

  // The packs of the rows that this thread moves, and an element after the last pack. x: aligned to 16 bytes.
  struct Part {
    Pack<unsigned> packs[kPacks];
    T rest;
  };
  __device__ int packed() const { return count / kSize; }
  __device__ int rest() const { return packed() * kSize + static_cast<int>(threadIdx.x); }

  __device__ Part fetch(const T* x) const {
    const auto* const from = reinterpret_cast<const Pack<unsigned>*>(x + first);
    Part part;
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (place(p) < packed()) part.packs[p] = from[place(p)];
    if (rest() < count) part.rest = x[first + rest()];
    return part;
  }

  // This lane's elements; those past the end of its row, or after the last row, are `fill`.
  __device__ void spread(const Part& part, float fill, float (&values)[VALUES]) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (place(p) < packed()) reinterpret_cast<Pack<unsigned>*>(tile)[place(p)] = part.packs[p];
    if (rest() < count) tile[rest()] = part.rest;
    __syncwarp();
#pragma unroll
    for (int e = 0; e < VALUES; ++e) values[e] = inside(e) ? to_float(tile[row + at(e)]) : fill;
    __syncwarp();
  }

  __device__ void store(T* y, const float (&values)[VALUES]) const {
#pragma unroll
    for (int e = 0; e < VALUES; ++e)
      if (inside(e)) tile[row + at(e)] = from_float<T>(values[e]);
    __syncwarp();
    auto* const to = reinterpret_cast<Pack<unsigned>*>(y + first);
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (place(p) < packed()) to[place(p)] = reinterpret_cast<const Pack<unsigned>*>(tile)[place(p)];
    if (rest() < count) y[first + rest()] = tile[rest()];
  }

  static __device__ int place(int p) { return p * kWarp + static_cast<int>(threadIdx.x); }
};

}  // namespace warpwise
