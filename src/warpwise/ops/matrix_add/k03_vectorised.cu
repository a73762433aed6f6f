// 16-byte accesses along each row: fewer instructions, more bytes in flight; unaligned rows use scalar accesses.
#include <warpwise/core/pack.cuh>

// a, b: (rows, cols) with row strides in elements; out: (rows, cols), contiguous. ONE_ROW: rows is 1, as the launcher
// passes contiguous matrices. Grid: y strides over rows; x has at least cols / Pack::size + cols % Pack::size threads.
// A thread computes one pack of a row; the threads after the last pack compute the last elements at the same time, or
// all of an unaligned row.
template <typename T, bool ONE_ROW>
__global__ void matrix_add(const T* a, const T* b, T* out, long long rows, long long cols, long long a_stride,
                           long long b_stride) {
  using C = warpwise::Compute<T>;
  using Pack = warpwise::Pack<T>;
  const long long i = warpwise::global_thread();
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long row = ONE_ROW ? 0 : blockIdx.y; row < rows; row += gridDim.y) {
    const T* a_row = a + row * a_stride;
    const T* b_row = b + row * b_stride;
    T* out_row = out + row * cols;
    const long long packs = warpwise::aligned(a_row, b_row, out_row) ? cols / Pack::size : 0;
    if (i < packs) {
      const Pack x = warpwise::packs(a_row)[i];
      const Pack y = warpwise::packs(b_row)[i];
      Pack sum;
#pragma unroll
      for (int k = 0; k < Pack::size; ++k) {
        sum.at[k] = static_cast<T>(static_cast<C>(x.at[k]) + static_cast<C>(y.at[k]));
      }
      warpwise::packs(out_row)[i] = sum;
    } else {
#pragma unroll 1
      for (long long at = packs * Pack::size + i - packs; at < cols; at += warpwise::global_threads() - packs) {
        out_row[at] = static_cast<T>(static_cast<C>(a_row[at]) + static_cast<C>(b_row[at]));
      }
    }
    if (ONE_ROW) return;
  }
}
