// Hopper, few rows: the columns of B take the 64 rows of the matrix units, the few rows of A their variable side.
//
// With few rows the time is that of reading B once. A ring of slices deep enough to cover DRAM's latency feeds products
// of 64 columns x M rows, M down to 8, so that little is multiplied in vain. Blocks of a cluster divide K where tiles
// alone would not fill the GPU: they add their sums through each other's shared memory, in a fixed order.

#include <warpwise/parts.cuh>

#include "slices.cuh"

// a: (m, k), b: (k, n), in boxes as Slices says; c: (outer, m, n), row-major, sums over each of `outer` parts of K.
// Cluster: SPLIT parts of K x SHARE neighbouring tiles, which load the rows of A once for each other.
// Tiles begin at `starts` different slices of their part: all at one, they would ask L2 for the same lines of A at
// once. Grid: outer * cdiv(m, M) * cdiv(n, 64 GROUPS SHARE) clusters. Dynamic shared memory: 1 KiB to align + STAGES
// slices.
template <class T, class R, int GROUPS, int M, bool BY_COLUMNS, int DEPTH, int STAGES, int SPLIT, int SHARE>
__global__ void __launch_bounds__(GROUPS* kGroupThreads + 32) __cluster_dims__(SPLIT* SHARE, 1, 1)
    matmul_skinny(const __grid_constant__ hopper::TensorMap a, const __grid_constant__ hopper::TensorMap b, R* c, int m,
                  int n, int k, int tiles_m, int outer, int starts) {
  using Ring = Slices<T, GROUPS, M, BY_COLUMNS, DEPTH, STAGES, SHARE>;
  static_assert(M * Ring::kStaged * 4 <= STAGES * Ring::kBytes, "the finished tile takes the ring's place");
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[2 * STAGES];
  Ring ring(raw, barriers);

  const int rank = static_cast<int>(hopper::cluster_rank()), share = rank % SHARE, split = rank / SHARE;
  const int cluster = blockIdx.x / (SPLIT * SHARE), part = cluster % outer * SPLIT + split;
  const int tile = cluster / outer, first_row = tile % tiles_m * M;
  const int first_column = (tile / tiles_m * SHARE + share) * GROUPS * 64;
  const long long slices = warpwise::cdiv(k, DEPTH), parts = static_cast<long long>(outer) * SPLIT;
  const int first = static_cast<int>(slices * part / parts), last = static_cast<int>(slices * (part + 1) / parts);

  ring.init();
  if (Ring::feeds()) {
    if (threadIdx.x == Ring::kThreads)
      for (int s = 0, now = first + tile / tiles_m % starts * (last - first) / starts; s < last - first; ++s) {
        ring.load(a, b, now * DEPTH, first_row, first_column, share, split * SHARE);
        if (++now == last) now = first;
      }
    __syncwarp();
  } else {
    float d[M / 2];
    ring.multiply(d, last - first, split * SHARE);
    hopper::named_barrier(1, Ring::kThreads);  // nobody reads the ring any more
    Ring::template stage_rows<M>(reinterpret_cast<float*>(raw + (ring.ring - hopper::shared_address(raw))), d, 0);
  }
  if (SPLIT > 1)
    hopper::cluster_sync();
  else
    __syncthreads();

  // Each of the SPLIT blocks adds and writes every SPLIT-th row of the tile, four columns a thread.
  constexpr int kQuads = GROUPS * 16, kRows = Ring::kThreads / kQuads;
  const int rows = min(M, m - first_row), quad = threadIdx.x % kQuads * 4, left = n - first_column - quad;
  const bool fours = in_fours(c, n);
  R* const to = c + (static_cast<long long>(cluster % outer) * m + first_row) * n + first_column + quad;
  if (!Ring::feeds() && left > 0) {
    for (int row = threadIdx.x / kQuads * SPLIT + split; row < rows; row += kRows * SPLIT) {
      const unsigned from = ring.ring + (row * Ring::kStaged + quad) * 4;
      float sum[4] = {};
#pragma unroll
      for (int other = 0; other < SPLIT; ++other) {
        float more[4];
        hopper::load_of_block(more, from, other * SHARE + share);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[e] += more[e];
      }
      store_quad(to + static_cast<long long>(row) * n, sum, left, fours);
    }
  }
  if (SPLIT * SHARE > 1) hopper::cluster_sync();  // nobody leaves while another may read its sums or arrive here
}
