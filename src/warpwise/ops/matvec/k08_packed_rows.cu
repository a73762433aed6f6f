// 16-byte loads of short rows of any alignment: the rows of a block are one contiguous range, copied to shared memory.
//
// k06 shifts x for the alignment of each row, which costs more than the row if it is short. Here lanes keep their
// elements of x in registers, and read those of each row from shared memory, where elements of 2 bytes cost no more.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/sm80/mma.cuh>

constexpr int kThreads = 256, kTogether = 4;  // rows of LANES lanes at once

// a: (m, k), contiguous and aligned to 16 bytes; x: (k,), k <= LANES * VALUES; y: (m,). A block has `rows` rows, whole
// packs of 16 bytes in all. Block: (LANES, kThreads / LANES). Grid: cdiv(m, rows). Dynamic shared memory: rows * k
// elements.
template <class T, int LANES, int VALUES>
__global__ void __launch_bounds__(kThreads) matvec_packed_rows(const T* a, const T* x, T* y, long long m, int k,
                                                               int rows) {
  constexpr int kSize = warpwise::Pack<T>::size, kTeams = kThreads / LANES;
  extern __shared__ __align__(16) unsigned char shared[];
  T* const tile = reinterpret_cast<T*>(shared);
  const long long first = static_cast<long long>(blockIdx.x) * rows;
  const int count = m - first < rows ? static_cast<int>(m - first) : rows, elements = count * k;
  const int thread = threadIdx.y * LANES + threadIdx.x;
  const T* const from = a + first * k;
  warpwise::wait_for_previous_kernel();
  for (int i = thread * kSize; i + kSize <= elements; i += kThreads * kSize)
    warpwise::mma::cp_async<16>(warpwise::shared_address(tile + i), from + i, true);
  __pipeline_commit();
  const int rest = elements / kSize * kSize + thread;
  if (rest < elements) tile[rest] = from[rest];
  float x_values[VALUES];
#pragma unroll
  for (int v = 0; v < VALUES; ++v) {
    const int column = threadIdx.x + v * LANES;
    x_values[v] = column < k ? warpwise::to_float(x[column]) : 0.0f;
  }
  __pipeline_wait_prior(0);
  __syncthreads();

#pragma unroll 1
  for (int row = threadIdx.y; row - static_cast<int>(threadIdx.y) < count; row += kTogether * kTeams) {
    float totals[kTogether] = {};
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const T* const of_row = tile + (row + r * kTeams) * k;
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
        const int column = threadIdx.x + v * LANES;
        if (row + r * kTeams < count && column < k) totals[r] += warpwise::to_float(of_row[column]) * x_values[v];
      }
    }
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      totals[r] = warpwise::warp_reduce<warpwise::Sum, LANES>(totals[r]);
      if (threadIdx.x == 0 && row + r * kTeams < count) y[first + row + r * kTeams] = warpwise::from_float<T>(totals[r]);
    }
  }
}
