// 16-byte loads of short rows of any alignment: the rows of a block are one contiguous range, copied to shared memory.
//
// k06 shifts x for the alignment of each row, which takes longer than the products of a short row. Here lanes keep
// their elements of x in registers and read those of each row from shared memory, where an access of 2 bytes is as fast
// as one of 4.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/sm80/mma.cuh>

constexpr int kThreads = 256, kRows = 4;  // rows of a team of LANES lanes

// a: (m, k), contiguous and aligned to 16 bytes; x: (k,), k <= LANES * VALUES; y: (m,). Block: (LANES, kThreads /
// LANES); row r of a team is the one of the r-th part of the block's rows. Grid: cdiv(m, rows of a block). Dynamic
// shared memory: the rows of a block.
template <class T, int LANES, int VALUES>
__global__ void __launch_bounds__(kThreads) matvec_packed_rows(const T* a, const T* x, T* y, long long m, int k) {
  constexpr int kSize = warpwise::Pack<T>::size, kTeams = kThreads / LANES;
  static_assert(kTeams * kRows % kSize == 0, "the rows of a block begin at a multiple of 16 bytes");
  extern __shared__ __align__(16) unsigned char shared[];
  T* const tile = reinterpret_cast<T*>(shared);
  const long long first = static_cast<long long>(blockIdx.x) * (kTeams * kRows), left = m - first;
  const int count = left < kTeams * kRows ? static_cast<int>(left) : kTeams * kRows, elements = count * k;
  const int thread = threadIdx.y * LANES + threadIdx.x, rest = elements / kSize * kSize + thread;
  const T* const from = a + first * k;
  warpwise::wait_for_previous_kernel();
  for (int i = thread * kSize; i + kSize <= elements; i += kThreads * kSize)
    warpwise::mma::cp_async<16>(warpwise::shared_address(tile + i), from + i, true);
  __pipeline_commit();
  if (rest < elements) tile[rest] = from[rest];
  float x_values[VALUES], totals[kRows] = {};
#pragma unroll
  for (int v = 0; v < VALUES; ++v) {
    const int column = threadIdx.x + v * LANES;
    x_values[v] = column < k ? warpwise::to_float(x[column]) : 0.0f;
  }
  __pipeline_wait_prior(0);
  __syncthreads();

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = threadIdx.y + r * kTeams;
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
      const int column = threadIdx.x + v * LANES;
      if (row < count && column < k) totals[r] += warpwise::to_float(tile[row * k + column]) * x_values[v];
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = threadIdx.y + r * kTeams;
    totals[r] = warpwise::warp_reduce<warpwise::Sum, LANES>(totals[r]);
    if (threadIdx.x == 0 && row < count) y[first + row] = warpwise::from_float<T>(totals[r]);
  }
}
