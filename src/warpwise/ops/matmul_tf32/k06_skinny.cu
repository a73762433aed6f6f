// Few rows or few tiles: columns of B take the M dimension of wgmma, rows of A its N dimension, which may be 8.
//
// With few rows the time is that of reading B once. The pipeline is deep enough to cover the latency of DRAM; a wgmma
// computes 64 columns x M rows with M down to 8, so little arithmetic is wasted. Where there are too few tiles to fill
// the GPU, K is split: the blocks of a cluster add their sums through distributed shared memory in a fixed order. B
// passes through registers if it is MN-major, or if its lines are not 16-byte aligned.

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/warpgroup.cuh>

#include "k_tile_pipeline.cuh"

using sm90::TensorMap;

template <BLayout LAYOUT, int GROUPS, int M>
constexpr int threads_of = GROUPS * kWarpgroupThreads + Pipeline<LAYOUT, GROUPS, M, 1>::kProducerThreads;

// Body of the kernels below. b: one tensor map, or four, whose line i begins start + i * step words after a multiple
// of 16 bytes.
template <BLayout LAYOUT, int GROUPS, int M, int STAGES, int SPLIT, int MAPS>
__device__ inline void multiply(const TensorMap& a, const TensorMap* const (&b)[MAPS], float* c, int m, int n, int k,
                                int tiles_m, int outer, int start = 0, int step = 0) {
  using Pipe = Pipeline<LAYOUT, GROUPS, M, STAGES>;
  constexpr int kStagingPitch = GROUPS * 64 + 4;  // floats per staged row
  static_assert(M * kStagingPitch * 4 <= STAGES * Pipe::kBytes, "the epilogue reuses the memory of the stages");
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[2 * STAGES];
  Pipe pipe(raw, barriers);

  const int cluster_rank = SPLIT > 1 ? static_cast<int>(sm90::cluster_ctarank()) : 0;
  const int cluster = blockIdx.x / SPLIT, split = cluster % outer * SPLIT + cluster_rank, tile = cluster / outer;
  const int first_row = tile % tiles_m * M, first_column = tile / tiles_m * GROUPS * 64;
  const int splits = outer * SPLIT;  // a split computes every splits-th k-tile, in pairs; zeros past K
  const int k_tiles = warpwise::cdiv(k, 2 * kTileK * splits) * 2;

  pipe.init();
  if (Pipe::is_producer()) {
    if (Pipe::kReallocates) sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == Pipe::kThreads)
      for (int s = 0; s < k_tiles; ++s) pipe.load(a, b, (s * splits + split) * kTileK, first_row, first_column);
    __syncwarp();
    if (SPLIT > 1) sm90::cluster_sync();
  } else {
    if (Pipe::kReallocates) sm90::warpgroup_reg_alloc<232>();
    float d[M / 2];
    pipe.multiply(d, k_tiles, start, step);
    sm90::named_barrier_sync(1, Pipe::kThreads);  // all stages have been read
    float* const staging = reinterpret_cast<float*>(raw + (pipe.stages - warpwise::shared_address(raw)));
#pragma unroll
    for (int i = 0; i < M / 2; ++i) {
      const int row = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
      staging[row * kStagingPitch + threadIdx.x / kWarpgroupThreads * 64 + Pipe::column_of(i / 2 % 2)] = d[i];
    }
    if (SPLIT > 1)
      sm90::cluster_sync();
    else
      sm90::named_barrier_sync(1, Pipe::kThreads);

    // Each of the SPLIT blocks reduces and stores every SPLIT-th row of the tile, four columns per thread, with
    // loads of kInFlight rows from the other blocks in flight.
    constexpr int kVectors = GROUPS * 16, kRows = Pipe::kThreads / kVectors * SPLIT;
    constexpr int kRowsPerThread = (M + kRows - 1) / kRows, kInFlight = kRowsPerThread < 8 ? kRowsPerThread : 8;
    const int rows = min(M, m - first_row), column = threadIdx.x % kVectors * 4, left = n - first_column - column;
    const bool vectorised = n % 4 == 0 && reinterpret_cast<unsigned long long>(c) % 16 == 0;
    float* const to = c + (static_cast<long long>(cluster % outer) * m + first_row) * n + first_column + column;
#pragma unroll 1
    for (int begin = threadIdx.x / kVectors * SPLIT + cluster_rank; begin < rows && left > 0;
         begin += kInFlight * kRows) {
      float sum[kInFlight][4] = {};
#pragma unroll
      for (int peer = 0; peer < SPLIT; ++peer) {
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
          float values[4];
          sm90::ld_shared_cluster_v4(values, pipe.stages + (min(begin + i * kRows, M - 1) * kStagingPitch + column) * 4,
                                     peer);
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i][e] += values[e];
        }
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int row = begin + i * kRows;
        float* const row_ptr = to + static_cast<long long>(row) * n;
        if (row >= rows) continue;
        if (vectorised)
          warpwise::store4<true>(row_ptr, sum[i], left);
        else
          warpwise::store4<false>(row_ptr, sum[i], left);
      }
    }
    __syncwarp();
  }
  if (SPLIT > 1) sm90::cluster_sync();  // a block must not exit while others may read its sums
}

// a: (m, k), boxes of M x 32; b: (k, n), boxes as in Pipeline; c: (outer, m, n), row-major, the sums of each of
// `outer` splits of K. Cluster: SPLIT splits of K. Grid: outer * cdiv(m, M) * cdiv(n, 64 GROUPS) clusters. The splits
// of a tile interleave their k-tiles, so that at the same time they read the same lines of A from L2 and adjacent ones
// of B from DRAM. Dynamic shared memory: 1 KiB for alignment + STAGES stages.
template <bool B_K_MAJOR, int GROUPS, int M, int STAGES, int SPLIT>
__global__ void __launch_bounds__(threads_of<B_K_MAJOR ? BLayout::kColumns : BLayout::kRows, GROUPS, M>, 1)
__cluster_dims__(SPLIT, 1, 1) matmul_skinny(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                            float* c, int m, int n, int k, int tiles_m, int outer) {
  const TensorMap* const maps[1] = {&b};
  multiply<B_K_MAJOR ? BLayout::kColumns : BLayout::kRows, GROUPS, M, STAGES, SPLIT>(a, maps, c, m, n, k, tiles_m,
                                                                                     outer);
}

// The same for a b with lines (rows, or columns if B_K_MAJOR) of any alignment: map i has lines 4 j + i, from the
// aligned 16 bytes that hold the first element of line i. Line i begins (start + i * step) % 4 words after a multiple
// of 16 bytes. For rows, the columns of a are in the order of `permute_k`.
template <bool B_K_MAJOR, int GROUPS, int M, int STAGES, int SPLIT>
__global__ void __launch_bounds__(threads_of<BLayout::kShiftedRows, GROUPS, M>, 1) __cluster_dims__(SPLIT, 1, 1)
    matmul_skinny_shifted(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b0,
                          const __grid_constant__ TensorMap b1, const __grid_constant__ TensorMap b2,
                          const __grid_constant__ TensorMap b3, int start, int step, float* c, int m, int n, int k,
                          int tiles_m, int outer) {
  const TensorMap* const maps[4] = {&b0, &b1, &b2, &b3};
  multiply<B_K_MAJOR ? BLayout::kShiftedColumns : BLayout::kShiftedRows, GROUPS, M, STAGES, SPLIT>(
      a, maps, c, m, n, k, tiles_m, outer, start, step);
}
