// 16-byte accesses along each row: fewer instructions, more bytes in flight; unaligned rows use scalar accesses.
#include <warpwise/core/elementwise.cuh>

// a, b: (rows, cols) with row strides in elements; out: (rows, cols), contiguous. ONE_ROW: rows is 1, as the launcher
// passes contiguous matrices, and grid and block are as of warpwise::elementwise. Otherwise y of the grid strides over
// rows, and x has at least cols / Pack::size + cols % Pack::size threads. A thread computes one pack of a row; the
// threads after the last pack compute the last elements, or all of an unaligned row.
template <typename T, bool ONE_ROW>
__global__ void __launch_bounds__(warpwise::kElementwiseBlock) matrix_add(const T* a, const T* b, T* out,
                                                                          long long rows, long long cols,
                                                                          long long a_stride, long long b_stride) {
  using C = warpwise::Compute<T>;
  using Pack = warpwise::Pack<T>;
  const auto sum = [](T x, T y) { return static_cast<T>(static_cast<C>(x) + static_cast<C>(y)); };
  if constexpr (ONE_ROW) {
    warpwise::elementwise(cols, sum, out, a, b);
    return;
  }
  const long long i = warpwise::global_thread();
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long row = blockIdx.y; row < rows; row += gridDim.y) {
    const T* a_row = a + row * a_stride;
    const T* b_row = b + row * b_stride;
    T* out_row = out + row * cols;
    const long long packs = warpwise::aligned(a_row, b_row, out_row) ? cols / Pack::size : 0;
    if (i < packs) {
      const Pack x = warpwise::packs(a_row)[i];
      const Pack y = warpwise::packs(b_row)[i];
      Pack results;
#pragma unroll
      for (int k = 0; k < Pack::size; ++k) results.at[k] = sum(x.at[k], y.at[k]);
      warpwise::packs(out_row)[i] = results;
    } else {
#pragma unroll 1
      for (long long at = packs * Pack::size + i - packs; at < cols; at += warpwise::global_threads() - packs) {
        out_row[at] = sum(a_row[at], b_row[at]);
      }
    }
  }
}
