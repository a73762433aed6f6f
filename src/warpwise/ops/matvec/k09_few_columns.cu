// Matrices of up to 48 columns: a thread computes whole rows, and loads all of their elements before it adds any.
//
// In k04 several lines of threads share the columns of a row, in loops over any number of columns and parts. Where a
// load is one element, their indices take most of the instructions. Here the number of columns is a constant, a column
// has one address, and a thread has PACKS packs of it at constant distances.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/words.cuh>

// a: (m, COLUMNS), columns column_stride elements apart; x: (COLUMNS,); y: (m,). BYTES per load divide m and
// column_stride in bytes, and the addresses of a and y. Block: THREADS. Grid: cdiv(packs of a column, THREADS * PACKS).
template <class T, int COLUMNS, int BYTES, int THREADS, int PACKS>
__global__ void __launch_bounds__(THREADS) matvec_few_columns(const T* a, const T* x, T* y, long long m,
                                                              long long column_stride) {
  using Pack = warpwise::Pack<T, BYTES>;
  constexpr int kStep = THREADS * Pack::size;  // rows
  const long long row = static_cast<long long>(blockIdx.x) * PACKS * kStep + threadIdx.x * Pack::size;
  const long long left = m - row;
  const bool whole = left > (PACKS - 1) * kStep;
  const T* from = a + row;
  warpwise::Words<T, BYTES> loaded[COLUMNS][PACKS] = {};
  T factors[COLUMNS];
  warpwise::wait_for_previous_kernel();
  // Loads of x before the branch: beside those of a, the compiler would place them behind it, after a has arrived.
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) factors[c] = x[c];
  // `all`: all packs of this thread are in the matrix, so no condition separates its loads.
  const auto load = [&](bool all) {
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c, from += column_stride) {
#pragma unroll
      for (int p = 0; p < PACKS; ++p)
        if (all || p * kStep < left) loaded[c][p] = warpwise::words_at<BYTES>(from + p * kStep);
    }
  };
  if (whole) {
    load(true);
  } else {
    load(false);
  }
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    Pack sums;
#pragma unroll
    for (int e = 0; e < Pack::size; ++e) {
      float sum = 0.0f;
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c)
        sum += warpwise::to_float(warpwise::elements<T>(loaded[c][p]).at[e]) * warpwise::to_float(factors[c]);
      sums.at[e] = warpwise::from_float<T>(sum);
    }
    if (p * kStep < left) *warpwise::packs<BYTES>(y + row + p * kStep) = sums;
  }
}
