// Hopper, few rows: the columns of B take the 64 rows of the matrix units, the few rows of A their variable side.
//
// With few rows the time is that of reading B once. A ring of slices deep enough to cover DRAM's latency feeds products
// of 64 columns x M rows, M down to 8, so that little is multiplied in vain. Two blocks of a cluster halve K where
// tiles alone would not fill the GPU: they add their sums through each other's shared memory, in a fixed order.

#include <warpwise/parts.cuh>

#include "slices.cuh"

// a: (m, k), b: (k, n), in boxes as Slices says; c: (outer, m, n), row-major, sums over each of `outer` parts of K.
// Cluster: SPLIT parts of K. Grid: outer * cdiv(m, M) * cdiv(n, 64 GROUPS) clusters. Blocks walk along K side by side:
// they ask L2 for the same lines of A at once, and DRAM for neighbouring ones of B.
// Dynamic shared memory: 1 KiB to align + STAGES slices.
template <class T, class R, int GROUPS, int M, bool BY_COLUMNS, int DEPTH, int STAGES, int SPLIT>
__global__ void __launch_bounds__(GROUPS* kGroupThreads + 32) __cluster_dims__(SPLIT, 1, 1)
    matmul_skinny(const __grid_constant__ hopper::TensorMap a, const __grid_constant__ hopper::TensorMap b, R* c, int m,
                  int n, int k, int tiles_m, int outer) {
  using Ring = Slices<T, GROUPS, M, BY_COLUMNS, DEPTH, STAGES>;
  static_assert(M * Ring::kStaged * 4 <= STAGES * Ring::kBytes, "the finished tile takes the ring's place");
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[2 * STAGES];
  Ring ring(raw, barriers);

  const int split = SPLIT > 1 ? static_cast<int>(hopper::cluster_rank()) : 0;
  const int cluster = blockIdx.x / SPLIT, part = cluster % outer * SPLIT + split, tile = cluster / outer;
  const int first_row = tile % tiles_m * M, first_column = tile / tiles_m * GROUPS * 64;
  const int slices = warpwise::cdiv(k, DEPTH), parts = outer * SPLIT;  // a part takes every parts-th slice

  ring.init();
  if (Ring::feeds()) {
    if (threadIdx.x == Ring::kThreads)
      for (int slice = part; slice < slices; slice += parts) ring.load(a, b, slice * DEPTH, first_row, first_column);
    __syncwarp();
  } else {
    float d[M / 2];
    ring.multiply(d, (slices - part + parts - 1) / parts);
    hopper::named_barrier(1, Ring::kThreads);  // nobody reads the ring any more
    Ring::template stage_rows<M>(reinterpret_cast<float*>(raw + (ring.ring - hopper::shared_address(raw))), d, 0);
  }
  if (SPLIT > 1)
    hopper::cluster_sync();
  else
    __syncthreads();

  // Each of the SPLIT blocks adds and writes every SPLIT-th row of the tile, four columns a thread, kAtOnce rows whose
  // sums are on their way from the other block at once.
  constexpr int kQuads = GROUPS * 16, kRows = Ring::kThreads / kQuads * SPLIT;
  constexpr int kTurns = (M + kRows - 1) / kRows, kAtOnce = kTurns < 8 ? kTurns : 8;
  const int rows = min(M, m - first_row), quad = threadIdx.x % kQuads * 4, left = n - first_column - quad;
  const bool fours = in_fours(c, n);
  R* const to = c + (static_cast<long long>(cluster % outer) * m + first_row) * n + first_column + quad;
  if (!Ring::feeds() && left > 0) {
    const int own = threadIdx.x / kQuads * SPLIT + split;
#pragma unroll 1
    for (int begin = own; begin < rows; begin += kAtOnce * kRows) {
      float sum[kAtOnce][4] = {};
#pragma unroll
      for (int other = 0; other < SPLIT; ++other) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          float more[4];
          const int row = min(begin + i * kRows, M - 1);
          hopper::load_of_block(more, ring.ring + (row * Ring::kStaged + quad) * 4, other);
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i][e] += more[e];
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int row = begin + i * kRows;
        if (row < rows) store_quad(to + static_cast<long long>(row) * n, sum[i], left, fours);
      }
    }
  }
  if (SPLIT > 1) hopper::cluster_sync();  // nobody leaves while another may read its sums
}
