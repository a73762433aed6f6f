// A row distributed over THREADS threads: in each turn every thread holds the elements of one 16-byte vector.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>

namespace warpwise {

// ALIGNED: every row is 16-byte aligned and a multiple of 16 bytes (columns % Pack<T>::size == 0); the elements of a
// thread are adjacent and one instruction moves them. Otherwise they are THREADS apart, so that scalar accesses
// coalesce.
template <class T, int THREADS, bool ALIGNED>
struct RowTile {
  static constexpr int kElements = Pack<T>::size;
  static constexpr int kColumnsPerTurn = THREADS * kElements;

  static __device__ int column(int turn, int element) {
    return ALIGNED ? turn * kColumnsPerTurn + static_cast<int>(threadIdx.x) * kElements + element
                   : turn * kColumnsPerTurn + element * THREADS + static_cast<int>(threadIdx.x);
  }

  // This thread's elements in `turn`; those past the row's end are `fill`.
  static __device__ Pack<T> load(const T* row, int columns, int turn, T fill) {
    Pack<T> loaded;
    if (ALIGNED && column(turn, 0) < columns) {
      loaded = *reinterpret_cast<const Pack<T>*>(row + column(turn, 0));
    } else {
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        loaded.at[e] = !ALIGNED && column(turn, e) < columns ? row[column(turn, e)] : fill;
      }
    }
    return loaded;
  }

  static __device__ void store(T* row, int columns, int turn, const Pack<T>& values) {
    if (ALIGNED) {
      if (column(turn, 0) < columns) *reinterpret_cast<Pack<T>*>(row + column(turn, 0)) = values;
    } else {
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        if (column(turn, e) < columns) row[column(turn, e)] = values.at[e];
      }
    }
  }
};

}  // namespace warpwise
