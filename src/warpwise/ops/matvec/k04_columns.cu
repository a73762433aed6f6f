// A matrix whose columns lie in memory one after another: lanes keep neighbouring rows and walk along the columns.
//
// A row's elements are far apart, but a warp's 16-byte loads of one column are 512 bytes on end. Warps of a block, and
// blocks, take different columns of the same rows; sums meet in shared memory, and those of blocks in a second launch.

#include <warpwise/pack.cuh>
#include <warpwise/parts.cuh>

constexpr int kWarps = 8;

// a: (m, k), its columns column_stride elements apart; x: (k,); sums: (parts, m), y itself if parts is 1.
// BYTES a load: 16 where m and column_stride are multiples of it and a lies on it, else an element's size.
// Block: (32, kWarps). Grid: cdiv(m, 32 * BYTES / sizeof(T)) * parts blocks.
template <class T, class R, int BYTES>
__global__ void __launch_bounds__(32 * kWarps) matvec_columns(const T* a, const T* x, R* sums, long long m, long long k,
                                                              long long column_stride, int parts) {
  using Pack = warpwise::Pack<T, BYTES>;
  constexpr int kRows = 32 * Pack::size, kTurns = 8;
  __shared__ float of_warps[kWarps][kRows];
  const int part = blockIdx.x % parts;
  const long long first = static_cast<long long>(blockIdx.x / parts) * kRows;
  const long long row = first + threadIdx.x * Pack::size;
  const bool inside = row < m;  // then so are all rows of its pack
  const T* const from = a + (inside ? row : 0);

  float totals[Pack::size] = {};
  const auto add = [&](const Pack& of_a, float of_x) {
#pragma unroll
    for (int e = 0; e < Pack::size; ++e) totals[e] += warpwise::to_float(of_a.at[e]) * of_x;
  };
  const long long step = static_cast<long long>(parts) * kWarps;
  long long i = static_cast<long long>(part) * kWarps + threadIdx.y;
  for (; i + (kTurns - 1) * step < k; i += kTurns * step) {
    Pack of_a[kTurns];
    float of_x[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      of_a[turn] = *warpwise::packs<BYTES>(from + (i + turn * step) * column_stride);
      of_x[turn] = warpwise::to_float(x[i + turn * step]);
    }
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) add(of_a[turn], of_x[turn]);
  }
  for (; i < k; i += step) add(*warpwise::packs<BYTES>(from + i * column_stride), warpwise::to_float(x[i]));

#pragma unroll
  for (int e = 0; e < Pack::size; ++e) of_warps[threadIdx.y][threadIdx.x * Pack::size + e] = totals[e];
  __syncthreads();
  for (int r = threadIdx.y * 32 + threadIdx.x; r < kRows && first + r < m; r += 32 * kWarps) {
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) total += of_warps[warp][r];
    sums[part * m + first + r] = warpwise::from_float<R>(total);
  }
}
