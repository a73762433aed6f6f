// A row distributed over THREADS threads: in each step every thread holds the elements of one vector of BYTES.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>

namespace warpwise {

// ALIGNED: every row is aligned to BYTES and a multiple of them; the elements of a thread are adjacent and one
// instruction moves them. Otherwise they are THREADS apart, so that scalar accesses coalesce.
template <class T, int THREADS, bool ALIGNED, int BYTES = 16>
struct RowTile {
  using Vector = Pack<T, BYTES>;
  static constexpr int kElements = Vector::size;
  static constexpr int kColumnsPerStep = THREADS * kElements;

  static __device__ int column(int step, int element) {
    return ALIGNED ? step * kColumnsPerStep + static_cast<int>(threadIdx.x) * kElements + element
                   : step * kColumnsPerStep + element * THREADS + static_cast<int>(threadIdx.x);
  }

  // This thread's elements of `step`; those past the row's end are `fill`.
  static __device__ Vector load(const T* row, int columns, int step, T fill) {
    Vector loaded;
    if (ALIGNED && column(step, 0) < columns) {
      loaded = *reinterpret_cast<const Vector*>(row + column(step, 0));
    } else {
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        loaded.at[e] = !ALIGNED && column(step, e) < columns ? row[column(step, e)] : fill;
      }
    }
    return loaded;
  }

  static __device__ void store(T* row, int columns, int step, const Vector& values) {
    if (ALIGNED) {
      if (column(step, 0) < columns) *reinterpret_cast<Vector*>(row + column(step, 0)) = values;
    } else {
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        if (column(step, e) < columns) row[column(step, e)] = values.at[e];
      }
    }
  }
};

}  // namespace warpwise
