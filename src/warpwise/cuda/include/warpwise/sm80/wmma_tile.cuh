// Tiles in shared memory for wmma: slabs as wide as a fragment, so that each fragment is 32-byte aligned, with a row
// pitch that avoids bank conflicts.
#pragma once

#include <warpwise/core/vector.cuh>

namespace warpwise {

// ROWS x COLUMNS in slabs of WIDTH columns; rows of a slab are PITCH elements apart.
template <class T, int ROWS, int COLUMNS, int WIDTH, int PITCH>
struct WmmaTile {
  static constexpr int kPitch = PITCH, kUnit = 16 / sizeof(T);  // elements
  static_assert(COLUMNS % WIDTH == 0 && WIDTH % kUnit == 0, "a slab is a multiple of 16 bytes wide");
  static_assert(PITCH * sizeof(T) % 16 == 0, "wmma's leading dimension is a multiple of 16 bytes");
  T at[COLUMNS / WIDTH][ROWS * PITCH];

  // All THREADS fill it from `from`, row-major with row stride `stride`, of which `rows` x `columns` exist; the rest is
  // zero. ALIGNED: rows are 16-byte aligned and multiples of 16 bytes. All loads are issued before the first store.
  template <int THREADS, bool ALIGNED>
  __device__ void fill(const T* from, int stride, int rows, int columns) {
    constexpr int kUnits = COLUMNS / kUnit, kRounds = ROWS * kUnits / THREADS;
    static_assert(kRounds * THREADS == ROWS * kUnits, "units divide evenly among threads");
    Vector<T, kUnit> units[kRounds];
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int i = round * THREADS + threadIdx.x, row = i / kUnits, column = i % kUnits * kUnit;
      const int valid = row < rows ? columns - column : 0;
      const T* const source = from + static_cast<long long>(row) * stride + column;
      if (ALIGNED && valid > 0) {
        units[round] = *reinterpret_cast<const Vector<T, kUnit>*>(source);
      } else {
#pragma unroll
        for (int e = 0; e < kUnit; ++e) units[round].at[e] = !ALIGNED && e < valid ? source[e] : T(0.0f);
      }
    }
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int i = round * THREADS + threadIdx.x, row = i / kUnits, column = i % kUnits * kUnit;
      *reinterpret_cast<Vector<T, kUnit>*>(at[column / WIDTH] + row * PITCH + column % WIDTH) = units[round];
    }
  }
};

}  // namespace warpwise
