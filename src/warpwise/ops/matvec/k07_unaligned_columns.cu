// 16-byte loads of columns that do not begin at multiples of 16 bytes.
//
// If the column pitch is not a multiple of 16 bytes, every 2nd, 4th or 8th column has the same alignment. A block has
// several lines of threads. A line reads every 4th column, or every 8th, 16th or 32nd, so all of its columns have one
// alignment, and a thread loads the same rows of each column. Two lines can have different alignments, and their packs
// then begin up to 7 rows apart. The lines write their sums to shared memory, and the block adds them row by row.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>

// a: (m, k), columns column_stride elements apart; x: (k,); y: (parts, m), where R is T if parts is 1, else float.
// Block: (WIDTH, THREADS / WIDTH); columns THREADS / WIDTH apart have the same alignment. A thread has VALUES columns
// at once. Grid: (cdiv(m, rows of a block), parts); a block has (WIDTH - 1) * Pack::size rows, a part `share` columns.
template <class T, class R, int WIDTH, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) matvec_unaligned_columns(const T* a, const T* x, R* y,
                                                                                    long long m, long long k,
                                                                                    long long column_stride,
                                                                                    long long share) {
  using Pack = warpwise::Pack<T>;
  using Sums = warpwise::Pack<float>;
  constexpr int kSize = Pack::size, kHeight = THREADS / WIDTH, kRows = (WIDTH - 1) * kSize, kPitch = WIDTH * kSize;
  __shared__ __align__(16) float scratch[kHeight * kPitch];
  __shared__ int shifts[kHeight];
  const int line = threadIdx.y;
  const long long first = static_cast<long long>(blockIdx.x) * kRows, part = blockIdx.y;
  const long long last = (part + 1) * share < k ? (part + 1) * share : k, total = (k - 1) * column_stride + m;
  const long long begin = part * share + line, step = kHeight * column_stride;
  const auto address = reinterpret_cast<unsigned long long>(a + begin * column_stride + first);
  const int shift = static_cast<int>(address % sizeof(Pack) / sizeof(T));
  const long long start = first - shift + threadIdx.x * kSize;  // of a thread's packs, in the column; may be negative
  float totals[kSize] = {};
  warpwise::wait_for_previous_kernel();
  long long column = begin, at = begin * column_stride + start;
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  while (column < last) {
    warpwise::Pack<unsigned> a_values[VALUES] = {};  // words: as single elements, halves would take a register each
    T x_values[VALUES];  // a conversion under the condition of its load would wait for it before the next loads
#pragma unroll
    for (int v = 0; v < VALUES; ++v, column += kHeight, at += step) {
      x_values[v] = warpwise::from_float<T>(0.0f);
      if (column >= last || at < 0 || at + kSize > total) continue;
      a_values[v] = *reinterpret_cast<const warpwise::Pack<unsigned>*>(a + at);
      x_values[v] = x[column];
    }
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
#pragma unroll
      for (int e = 0; e < kSize; ++e) {
        totals[e] +=
            warpwise::to_float(reinterpret_cast<const Pack*>(&a_values[v])->at[e]) * warpwise::to_float(x_values[v]);
      }
    }
  }
  // Packs that begin before the matrix, or end after it, element by element.
  const auto add = [&](long long of_column) {
    const float x_value = warpwise::to_float(x[of_column]);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      const long long element = of_column * column_stride + start + e;
      if (element >= 0 && element < total) totals[e] += warpwise::to_float(a[element]) * x_value;
    }
  };
  for (column = begin; column < last && column * column_stride + start < 0; column += kHeight) add(column);
  const long long steps = begin < last ? (last - 1 - begin) / kHeight : -1;
  for (column = begin + steps * kHeight; column >= begin; column -= kHeight) {
    at = column * column_stride + start;
    if (at < 0 || at + kSize <= total) break;
    add(column);
  }

#pragma unroll
  for (int e = 0; e < kSize; e += Sums::size) {
    Sums four;
#pragma unroll
    for (int s = 0; s < Sums::size; ++s) four.at[s] = totals[e + s];
    *warpwise::packs(scratch + line * kPitch + threadIdx.x * kSize + e) = four;
  }
  if (threadIdx.x == 0) shifts[line] = shift;
  __syncthreads();
  for (int row = line * WIDTH + threadIdx.x; row < kRows && first + row < m; row += THREADS) {
    float sum = 0.0f;
#pragma unroll 8
    for (int other = 0; other < kHeight; ++other) sum += scratch[other * kPitch + row + shifts[other]];
    y[part * m + first + row] = warpwise::from_float<R>(sum);
  }
}
