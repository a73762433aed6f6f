// 16 bytes an access along each row: fewer instructions, more bytes in flight; unaligned rows go one by one.
#include <warpwise/core/pack.cuh>

// a, b: (rows, cols) with row strides in elements; out: (rows, cols), contiguous.
// Grid: x covers the packs of a row, y strides over rows. Without gaps the launcher hands the matrix over as one row.
template <typename T>
__global__ void matrix_add(const T* a, const T* b, T* out, long long rows, long long cols, long long a_stride,
                           long long b_stride) {
  using C = warpwise::Compute<T>;
  using Pack = warpwise::Pack<T>;
  const long long thread = warpwise::global_thread();
  const long long threads = warpwise::global_threads();
  for (long long row = blockIdx.y; row < rows; row += gridDim.y) {
    const T* a_row = a + row * a_stride;
    const T* b_row = b + row * b_stride;
    T* out_row = out + row * cols;
    const long long packs = warpwise::aligned(a_row, b_row, out_row) ? cols / Pack::size : 0;
    for (long long i = thread; i < packs; i += threads) {
      const Pack x = warpwise::packs(a_row)[i];
      const Pack y = warpwise::packs(b_row)[i];
      Pack sum;
#pragma unroll
      for (int k = 0; k < Pack::size; ++k) {
        sum.at[k] = static_cast<T>(static_cast<C>(x.at[k]) + static_cast<C>(y.at[k]));
      }
      warpwise::packs(out_row)[i] = sum;
    }
    for (long long i = packs * Pack::size + thread; i < cols; i += threads) {
      out_row[i] = static_cast<T>(static_cast<C>(a_row[i]) + static_cast<C>(b_row[i]));
    }
  }
}
