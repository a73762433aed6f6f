// Few rows, on Hopper: columns of B take the M dimension of wgmma, rows of A its N dimension, which may be 8.
//
// With few rows the time is that of reading B once. The pipeline is deep enough to cover the latency of DRAM; a wgmma
// computes 64 columns x M rows with M down to 8, so little arithmetic is wasted. Where there are too few tiles to fill
// the GPU, the blocks of a cluster split K: each sends its partial sums of the other blocks' rows through distributed
// shared memory and adds those it receives. Several clusters may split K again through global memory, where the last
// one to arrive reduces. Both orders of addition are fixed.

#include "k_tile_pipeline.cuh"
#include "dsmem_reduce.cuh"
#include <warpwise/sm90/gemm.cuh>

// a: (m, k), b: (k, n), tensor maps with the boxes of Pipeline; c: (m, n), row-major; c_map: c with boxes of kRows x
// 64, used if `mapped`. partials: sums of each of `outer` splits of K; semaphores: zeros; both used if outer > 1.
// Cluster: SPLIT splits of K, times two blocks of a pair if an operand is SHARED. Grid: outer * cdiv(m, M) * cdiv(n,
// 64 GROUPS) clusters. The splits of a tile interleave their k-tiles, so that at the same time they read the same
// lines of A from L2 and adjacent ones of B from DRAM. Dynamic shared memory: 1 KiB for alignment + STAGES stages +
// the receive buffer, which is separate if SEPARATE_BUFFER.
template <class T, int GROUPS, int M, bool B_K_MAJOR, int TILE_K, int STAGES, int SPLIT, bool SEPARATE_BUFFER,
          Shared SHARED>
__device__ inline void skinny(const sm90::TensorMap& a, const sm90::TensorMap& b, const sm90::TensorMap& c_map, T* c,
                              float* partials, int* semaphores, bool mapped, int m, int n, int k, int tiles_m,
                              int outer) {
  using Pipe = Pipeline<T, GROUPS, M, B_K_MAJOR, TILE_K, STAGES, SHARED>;
  constexpr int kOwners = M / 8 < SPLIT ? M / 8 : SPLIT;  // blocks that reduce and store kRows rows each
  constexpr int kRows = M / kOwners, kOwnSums = kRows / 2, kVectors = kOwnSums / 4, kThreads = Pipe::kThreads;
  constexpr unsigned kSentBytes = kThreads * kOwnSums * 4,
                     kReceiveBytes = SEPARATE_BUFFER ? 0 : (SPLIT - 1) * kSentBytes;  // bytes
  static_assert(kRows % 8 == 0, "a block owns whole 8 x 8 matrices");
  static_assert(kReceiveBytes + GROUPS * kRows * 128 <= STAGES * Pipe::kBytes,
                "the epilogue reuses the memory of the stages");
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[2 * STAGES + 1];
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    sm90::prefetch_tensormap(&b);
    sm90::prefetch_tensormap(&a);
    if (mapped) sm90::prefetch_tensormap(&c_map);
  }
  Pipe pipe(raw, barriers);
  const unsigned received = warpwise::shared_address(barriers + 2 * STAGES);
  const unsigned receive_buffer = pipe.stages + (SEPARATE_BUFFER ? STAGES * Pipe::kBytes : 0);

  constexpr int kPair = Pipe::kPairs ? 2 : 1, kCluster = SPLIT * kPair;
  constexpr bool kSyncAtStart =
      Pipe::kPairs || (SPLIT > 1 && SEPARATE_BUFFER);  // other blocks access this block's barriers
  const int cluster_rank = kCluster > 1 ? static_cast<int>(sm90::cluster_ctarank()) : 0, rank = cluster_rank / kPair;
  pipe.half = cluster_rank % kPair;
  pipe.first_rank = rank * kPair;
  const int cluster = blockIdx.x / kCluster, tile_pair = cluster / outer, split = cluster % outer;
  const int tile = tile_pair * kPair + pipe.half;
  const int first_row =
      (tile_pair % tiles_m * (SHARED == Shared::b ? 2 : 1) + (SHARED == Shared::b ? pipe.half : 0)) * M;
  const int first_column =
      (tile_pair / tiles_m * (SHARED == Shared::a ? 2 : 1) + (SHARED == Shared::a ? pipe.half : 0)) * GROUPS * 64;
  const int k_tiles = warpwise::cdiv(k, TILE_K), stride = outer * SPLIT, first = split * SPLIT + rank;

  if (SPLIT > 1 && threadIdx.x == kThreads) {
    sm90::mbarrier_init(received, 1);
    sm90::mbarrier_arrive_expect_tx(received, (SPLIT - 1) * kSentBytes);
  }
  pipe.init();
  if (kSyncAtStart) sm90::cluster_arrive_relaxed();
  if (Pipe::is_producer()) {
    if (Pipe::kPairs) sm90::cluster_wait();
    if (threadIdx.x == kThreads)
      for (int k_tile = first; k_tile < k_tiles; k_tile += stride)
        pipe.load(a, b, k_tile * TILE_K, first_row, first_column);
    __syncwarp();
    if (SPLIT > 1 && !SEPARATE_BUFFER) sm90::cluster_arrive_relaxed();
    return;
  }
  float d[M / 2];
  pipe.multiply(d, (k_tiles - first + stride - 1) / stride);
  if (SPLIT > 1) {
    if (!SEPARATE_BUFFER) {
      if (kSyncAtStart) sm90::cluster_wait();
      sm90::cluster_arrive_relaxed();
    }
    sm90::cluster_wait();  // all blocks have started; without a separate buffer, all have also read their stages
#pragma unroll
    for (int peer = 0; peer < kOwners; ++peer) {
      if (peer == rank) continue;
      const unsigned to =
          sm90::mapa(receive_buffer + (rank - (rank > peer)) * kSentBytes + threadIdx.x * 16, peer * kPair + pipe.half);
      const unsigned remote_barrier = sm90::mapa(received, peer * kPair + pipe.half);
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
        sm90::st_async_v4(to + i * kThreads * 16, remote_barrier, d + peer * kOwnSums + 4 * i);
    }
    if (rank >= kOwners) return;
  }
  float sums[kOwnSums];
#pragma unroll
  for (int peer = 0; peer < kOwners; ++peer) {
#pragma unroll
    for (int i = 0; i < kOwnSums; ++i) sums[i] = peer == 0 || peer == rank ? d[peer * kOwnSums + i] : sums[i];
  }
  if (SPLIT > 1) {
    sm90::mbarrier_wait_cluster(received, 0);
#pragma unroll 1
    for (int peer = 0; peer < SPLIT - 1; ++peer) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i)
        add_float4(sums + 4 * i, receive_buffer + peer * kSentBytes + (i * kThreads + threadIdx.x) * 16);
    }
  }
  if (outer > 1) {
    float4* const tile_partials = reinterpret_cast<float4*>(partials) +
                                  static_cast<long long>(tile * kOwners + rank) * outer * kVectors * kThreads +
                                  threadIdx.x;
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      __stcg(tile_partials + (split * kVectors + i) * kThreads,
             make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]));
    sm90::named_barrier_sync(1, kThreads);
    if (threadIdx.x == 0) is_last = arrive_is_last(semaphores + tile * kOwners + rank, outer);
    sm90::named_barrier_sync(1, kThreads);
    if (!is_last) return;
#pragma unroll
    for (int i = 0; i < kOwnSums; ++i) sums[i] = 0.0f;
#pragma unroll 1
    for (int s = 0; s < outer; ++s) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const float4 values = __ldcg(tile_partials + (s * kVectors + i) * kThreads);
        sums[4 * i] += values.x, sums[4 * i + 1] += values.y, sums[4 * i + 2] += values.z, sums[4 * i + 3] += values.w;
      }
    }
  }

  // Rounded and transposed, the 64 columns x kRows rows of a warpgroup are stored as a box.
  const int group = threadIdx.x / kWarpgroupThreads, thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
  const unsigned box = pipe.stages + kReceiveBytes + group * kRows * 128;
  const int row = first_row + rank * kRows, column = first_column + group * 64;
  if (SPLIT == 1 || SEPARATE_BUFFER) sm90::named_barrier_sync(1, kThreads);  // all stages have been read
#pragma unroll
  for (int j = 0; j < kRows / 8; ++j) {
    const int unit = thread / 32 * 2 + lane / 8 % 2;  // of 16 bytes; swizzled by row
    store_transposed(box + (j * 8 + lane % 8) * 128 + ((unit ^ lane % 8) << 4),
                     sm90::rounded(sums[4 * j], sums[4 * j + 1], T()),
                     sm90::rounded(sums[4 * j + 2], sums[4 * j + 3], T()));
  }
  if (mapped) sm90::fence_proxy_async();
  sm90::named_barrier_sync(3 + group, kWarpgroupThreads);
  if (mapped) {
    if (thread == 0) {
      sm90::tma_store_2d(&c_map, box, column, row);
      sm90::tma_store_wait_read<0>();
    }
    return;
  }
  for (int i = thread; i < kRows * 64; i += kWarpgroupThreads) {
    const int y = i / 64, x = i % 64;
    if (row + y < m && column + x < n)
      c[static_cast<long long>(row + y) * n + column + x] =
          reinterpret_cast<const T*>(raw + (box - warpwise::shared_address(raw)))[y * 64 + (x ^ (y % 8 * 8))];
  }
}

template <class T, int GROUPS, int M, bool B_K_MAJOR, int TILE_K, int STAGES, int SPLIT, bool SEPARATE_BUFFER,
          Shared SHARED>
__global__ void __launch_bounds__(GROUPS* kWarpgroupThreads + 32) __cluster_dims__(
    SPLIT*(SHARED == Shared::nothing ? 1 : 2), 1, 1)
    matmul_skinny(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                  const __grid_constant__ sm90::TensorMap c_map, T* c, float* partials, int* semaphores, bool mapped,
                  int m, int n, int k, int tiles_m, int outer) {
  skinny<T, GROUPS, M, B_K_MAJOR, TILE_K, STAGES, SPLIT, SEPARATE_BUFFER, SHARED>(a, b, c_map, c, partials, semaphores,
                                                                                  mapped, m, n, k, tiles_m, outer);
}

// The same without clusters: a launch with clusters of one block starts later.
template <class T, int GROUPS, int M, bool B_K_MAJOR, int TILE_K, int STAGES, int SPLIT, bool SEPARATE_BUFFER,
          Shared SHARED>
__global__ void __launch_bounds__(GROUPS* kWarpgroupThreads + 32) matmul_skinny_no_cluster(
    const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
    const __grid_constant__ sm90::TensorMap c_map, T* c, float* partials, int* semaphores, bool mapped, int m, int n,
    int k, int tiles_m, int outer) {
  static_assert(SPLIT == 1 && SHARED == Shared::nothing, "no cluster: no split of K or shared operand within it");
  skinny<T, GROUPS, M, B_K_MAJOR, TILE_K, STAGES, SPLIT, SEPARATE_BUFFER, SHARED>(a, b, c_map, c, partials, semaphores,
                                                                                  mapped, m, n, k, tiles_m, outer);
}
