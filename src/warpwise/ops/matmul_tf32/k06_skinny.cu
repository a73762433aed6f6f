// Few rows or few tiles: the columns of B take the 64 rows of the matrix units, the rows of A their variable side.
//
// With few rows the time is that of reading B once. A ring of slices deep enough to cover DRAM's latency feeds products
// of 64 columns x M rows, M down to 8, so that little is multiplied in vain. Where tiles alone would not fill the GPU
// K is divided: the blocks of a cluster add their sums through each other's shared memory, in a fixed order. B's words
// pass through registers where it lies across K, or where its lines begin anywhere.

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/warpgroup.cuh>

#include "feed.cuh"

using sm90::TensorMap;

template <From FROM, int GROUPS, int M>
constexpr int threads_of = GROUPS * kWarpgroupThreads + Slices<FROM, GROUPS, M, 1>::kFeeders;

// What the launchers below pass on. b: a map, or four, whose lines begin start + i * step words into 16 bytes.
template <From FROM, int GROUPS, int M, int STAGES, int SPLIT, int MAPS>
__device__ inline void multiply(const TensorMap& a, const TensorMap* const (&b)[MAPS], float* c, int m, int n, int k,
                                int tiles_m, int outer, int start = 0, int step = 0) {
  using Ring = Slices<FROM, GROUPS, M, STAGES>;
  constexpr int kStaged = GROUPS * 64 + 4;  // floats of a staged row
  static_assert(M * kStaged * 4 <= STAGES * Ring::kBytes, "the finished tile takes the ring's place");
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[2 * STAGES];
  Ring ring(raw, barriers);

  const int split = SPLIT > 1 ? static_cast<int>(sm90::cluster_ctarank()) : 0;
  const int cluster = blockIdx.x / SPLIT, part = cluster % outer * SPLIT + split, tile = cluster / outer;
  const int first_row = tile % tiles_m * M, first_column = tile / tiles_m * GROUPS * 64;
  const int parts = outer * SPLIT;  // a part takes every parts-th slice, in pairs; what lies past K is read as zeros
  const int slices = warpwise::cdiv(k, 2 * kDepth * parts) * 2;

  ring.init();
  if (Ring::feeds()) {
    if (Ring::kMoves) sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == Ring::kThreads)
      for (int s = 0; s < slices; ++s) ring.load(a, b, (s * parts + part) * kDepth, first_row, first_column);
    __syncwarp();
    if (SPLIT > 1) sm90::cluster_sync();
  } else {
    if (Ring::kMoves) sm90::warpgroup_reg_alloc<232>();
    float d[M / 2];
    ring.multiply(d, slices, start, step);
    sm90::named_barrier_sync(1, Ring::kThreads);  // nobody reads the ring any more
    float* const staged = reinterpret_cast<float*>(raw + (ring.ring - warpwise::shared_address(raw)));
#pragma unroll
    for (int i = 0; i < M / 2; ++i) {
      const int row = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
      staged[row * kStaged + threadIdx.x / kWarpgroupThreads * 64 + Ring::column_of(i / 2 % 2)] = d[i];
    }
    if (SPLIT > 1)
      sm90::cluster_sync();
    else
      sm90::named_barrier_sync(1, Ring::kThreads);

    // Each of the SPLIT blocks adds and writes every SPLIT-th row of the tile, four columns a thread, kAtOnce rows
    // whose sums are on their way from the other blocks at once.
    constexpr int kQuads = GROUPS * 16, kRows = Ring::kThreads / kQuads * SPLIT;
    constexpr int kTurns = (M + kRows - 1) / kRows, kAtOnce = kTurns < 8 ? kTurns : 8;
    const int rows = min(M, m - first_row), quad = threadIdx.x % kQuads * 4, left = n - first_column - quad;
    const bool fours = n % 4 == 0 && reinterpret_cast<unsigned long long>(c) % 16 == 0;
    float* const to = c + (static_cast<long long>(cluster % outer) * m + first_row) * n + first_column + quad;
#pragma unroll 1
    for (int begin = threadIdx.x / kQuads * SPLIT + split; begin < rows && left > 0; begin += kAtOnce * kRows) {
      float sum[kAtOnce][4] = {};
#pragma unroll
      for (int other = 0; other < SPLIT; ++other) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          float more[4];
          sm90::ld_shared_cluster_v4(more, ring.ring + (min(begin + i * kRows, M - 1) * kStaged + quad) * 4, other);
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i][e] += more[e];
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int row = begin + i * kRows;
        float* const at = to + static_cast<long long>(row) * n;
        if (row >= rows) continue;
        if (fours)
          warpwise::store4<true>(at, sum[i], left);
        else
          warpwise::store4<false>(at, sum[i], left);
      }
    }
    __syncwarp();
  }
  if (SPLIT > 1) sm90::cluster_sync();  // nobody leaves while another may read its sums
}

// a: (m, k), in boxes of M x 32; b: (k, n), in boxes as From says; c: (outer, m, n), row-major, sums over each of
// `outer` parts of K. Cluster: SPLIT parts of K. Grid: outer * cdiv(m, M) * cdiv(n, 64 GROUPS) clusters. Blocks walk
// along K side by side: they ask L2 for the same lines of A at once, and DRAM for neighbouring ones of B.
// Dynamic shared memory: 1 KiB to align + STAGES slices.
template <bool BY_COLUMNS, int GROUPS, int M, int STAGES, int SPLIT>
__global__ void __launch_bounds__(threads_of<BY_COLUMNS ? From::kColumns : From::kRows, GROUPS, M>, 1) __cluster_dims__(
    SPLIT, 1, 1) matmul_skinny(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c,
                               int m, int n, int k, int tiles_m, int outer) {
  const TensorMap* const maps[1] = {&b};
  multiply<BY_COLUMNS ? From::kColumns : From::kRows, GROUPS, M, STAGES, SPLIT>(a, maps, c, m, n, k, tiles_m, outer);
}

// The same with a b whose lines, rows or BY_COLUMNS, begin anywhere: map i has lines 4 j + i, from the 16 bytes that
// hold the first one's first word. Line i begins start + i * step words, modulo 4, into 16 bytes. Of rows, a's columns
// lie in the order that `reordered` gives them.
template <bool BY_COLUMNS, int GROUPS, int M, int STAGES, int SPLIT>
__global__ void __launch_bounds__(threads_of<From::kShiftedRows, GROUPS, M>, 1) __cluster_dims__(SPLIT, 1, 1)
    matmul_skinny_shifted(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b0,
                          const __grid_constant__ TensorMap b1, const __grid_constant__ TensorMap b2,
                          const __grid_constant__ TensorMap b3, int start, int step, float* c, int m, int n, int k,
                          int tiles_m, int outer) {
  const TensorMap* const maps[4] = {&b0, &b1, &b2, &b3};
  multiply<BY_COLUMNS ? From::kShiftedColumns : From::kShiftedRows, GROUPS, M, STAGES, SPLIT>(
      a, maps, c, m, n, k, tiles_m, outer, start, step);
}
