// Hopper, few rows: the columns of B take the 64 rows of the matrix units, the few rows of A their variable side.
//
// With few rows the time is that of reading B once. A ring of slices deep enough to cover DRAM's latency feeds products
// of 64 columns x M rows, M down to 8, so that little is multiplied in vain. Blocks of a cluster divide K where tiles
// alone would not fill the GPU: each sends the others their rows of its sums, register by register, and adds what it
// is sent to its own. Clusters divide K once more by way of global memory, where the last to come adds. Both orders are
// fixed.

#include "slices.cuh"
#include "sums_of_cluster.cuh"
#include <warpwise/sm90/gemm.cuh>

// a: (m, k), b: (k, n), in boxes as Slices says; c: (m, n), row-major, by `map_of_c` in boxes of kRows x 64 where it
// can be mapped; parts: sums of each of `outer` parts of K, and tickets: zeros, both where outer > 1.
// Cluster: SPLIT parts of K. Grid: outer * cdiv(m, M) * cdiv(n, 64 GROUPS) clusters. Blocks walk along K side by side:
// they ask L2 for the same lines of A at once, and DRAM for neighbouring ones of B.
// Dynamic shared memory: 1 KiB to align + STAGES slices + APART, room for what others send.
template <class T, int GROUPS, int M, bool BY_COLUMNS, int DEPTH, int STAGES, int SPLIT, bool APART, Shared SHARED>
__device__ inline void skinny(const sm90::TensorMap& a, const sm90::TensorMap& b, const sm90::TensorMap& map_of_c, T* c,
                              float* parts, int* tickets, bool mapped, int m, int n, int k, int tiles_m, int outer) {
  using Ring = Slices<T, GROUPS, M, BY_COLUMNS, DEPTH, STAGES, SHARED>;
  constexpr int kFinish = M / 8 < SPLIT ? M / 8 : SPLIT;  // blocks that finish kRows of the tile's rows each
  constexpr int kRows = M / kFinish, kOwn = kRows / 2, kQuads = kOwn / 4, kThreads = Ring::kThreads;
  constexpr unsigned kSent = kThreads * kOwn * 4, kLeaving = APART ? 0 : (SPLIT - 1) * kSent;  // bytes
  static_assert(kRows % 8 == 0, "a share is whole matrices of 8 x 8");
  static_assert(kLeaving + GROUPS * kRows * 128 <= STAGES * Ring::kBytes, "what leaves takes the ring's place");
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[2 * STAGES + 1];
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    sm90::prefetch_tensormap(&b);
    sm90::prefetch_tensormap(&a);
    if (mapped) sm90::prefetch_tensormap(&map_of_c);
  }
  Ring ring(raw, barriers);
  const unsigned received = warpwise::shared_address(barriers + 2 * STAGES);
  const unsigned inbox = ring.ring + (APART ? STAGES * Ring::kBytes : 0);

  constexpr int kPair = Ring::kPairs ? 2 : 1, kCluster = SPLIT * kPair;
  constexpr bool kMeet = Ring::kPairs || (SPLIT > 1 && APART);  // at the start: barriers are to be found by others
  const int place = kCluster > 1 ? static_cast<int>(sm90::cluster_ctarank()) : 0, rank = place / kPair;
  ring.half = place % kPair;
  ring.first = rank * kPair;
  const int cluster = blockIdx.x / kCluster, number = cluster / outer, part = cluster % outer;
  const int tile = number * kPair + ring.half;
  const int first_row = (number % tiles_m * (SHARED == Shared::b ? 2 : 1) + (SHARED == Shared::b ? ring.half : 0)) * M;
  const int first_column =
      (number / tiles_m * (SHARED == Shared::a ? 2 : 1) + (SHARED == Shared::a ? ring.half : 0)) * GROUPS * 64;
  const int slices = warpwise::cdiv(k, DEPTH), every = outer * SPLIT, first = part * SPLIT + rank;

  if (SPLIT > 1 && threadIdx.x == kThreads) {
    sm90::mbarrier_init(received, 1);
    sm90::mbarrier_arrive_expect_tx(received, (SPLIT - 1) * kSent);
  }
  ring.init();
  if (kMeet) sm90::cluster_arrive_relaxed();
  if (Ring::feeds()) {
    if (Ring::kPairs) sm90::cluster_wait();
    if (threadIdx.x == kThreads)
      for (int slice = first; slice < slices; slice += every) ring.load(a, b, slice * DEPTH, first_row, first_column);
    __syncwarp();
    if (SPLIT > 1 && !APART) sm90::cluster_arrive_relaxed();
    return;
  }
  float d[M / 2];
  ring.multiply(d, (slices - first + every - 1) / every);
  if (SPLIT > 1) {
    if (!APART) {
      if (kMeet) sm90::cluster_wait();
      sm90::cluster_arrive_relaxed();
    }
    sm90::cluster_wait();  // all have begun; unless there is room apart, all have read their rings
#pragma unroll
    for (int other = 0; other < kFinish; ++other) {
      if (other == rank) continue;
      const unsigned to =
          sm90::mapa(inbox + (rank - (rank > other)) * kSent + threadIdx.x * 16, other * kPair + ring.half);
      const unsigned counts = sm90::mapa(received, other * kPair + ring.half);
#pragma unroll
      for (int i = 0; i < kQuads; ++i) sm90::st_async_v4(to + i * kThreads * 16, counts, d + other * kOwn + 4 * i);
    }
    if (rank >= kFinish) return;
  }
  float sums[kOwn];
#pragma unroll
  for (int other = 0; other < kFinish; ++other) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) sums[i] = other == 0 || other == rank ? d[other * kOwn + i] : sums[i];
  }
  if (SPLIT > 1) {
    sm90::mbarrier_wait_cluster(received, 0);
#pragma unroll 1
    for (int other = 0; other < SPLIT - 1; ++other) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i)
        add_quad(sums + 4 * i, inbox + other * kSent + (i * kThreads + threadIdx.x) * 16);
    }
  }
  if (outer > 1) {
    float4* const own = reinterpret_cast<float4*>(parts) +
                        static_cast<long long>(tile * kFinish + rank) * outer * kQuads * kThreads + threadIdx.x;
#pragma unroll
    for (int i = 0; i < kQuads; ++i)
      __stcg(own + (part * kQuads + i) * kThreads,
             make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]));
    sm90::named_barrier_sync(1, kThreads);
    if (threadIdx.x == 0) is_last = takes_last(tickets + tile * kFinish + rank, outer);
    sm90::named_barrier_sync(1, kThreads);
    if (!is_last) return;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) sums[i] = 0.0f;
#pragma unroll 1
    for (int p = 0; p < outer; ++p) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const float4 more = __ldcg(own + (p * kQuads + i) * kThreads);
        sums[4 * i] += more.x, sums[4 * i + 1] += more.y, sums[4 * i + 2] += more.z, sums[4 * i + 3] += more.w;
      }
    }
  }

  // Rounded and turned, a warpgroup's 64 columns of kRows rows leave as a box.
  const int group = threadIdx.x / kWarpgroupThreads, thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
  const unsigned box = ring.ring + kLeaving + group * kRows * 128;
  const int row = first_row + rank * kRows, column = first_column + group * 64;
  if (SPLIT == 1 || APART) sm90::named_barrier_sync(1, kThreads);  // nobody reads the ring any more
#pragma unroll
  for (int j = 0; j < kRows / 8; ++j) {
    const int unit = thread / 32 * 2 + lane / 8 % 2;  // of 16 bytes; swizzled by the row
    store_turned(box + (j * 8 + lane % 8) * 128 + ((unit ^ lane % 8) << 4),
                 sm90::rounded(sums[4 * j], sums[4 * j + 1], T()),
                 sm90::rounded(sums[4 * j + 2], sums[4 * j + 3], T()));
  }
  if (mapped) sm90::fence_proxy_async();
  sm90::named_barrier_sync(3 + group, kWarpgroupThreads);
  if (mapped) {
    if (thread == 0) {
      sm90::tma_store_2d(&map_of_c, box, column, row);
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

template <class T, int GROUPS, int M, bool BY_COLUMNS, int DEPTH, int STAGES, int SPLIT, bool APART, Shared SHARED>
__global__ void __launch_bounds__(GROUPS* kWarpgroupThreads + 32) __cluster_dims__(
    SPLIT*(SHARED == Shared::nothing ? 1 : 2), 1, 1)
    matmul_skinny(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                  const __grid_constant__ sm90::TensorMap map_of_c, T* c, float* parts, int* tickets, bool mapped,
                  int m, int n, int k, int tiles_m, int outer) {
  skinny<T, GROUPS, M, BY_COLUMNS, DEPTH, STAGES, SPLIT, APART, SHARED>(a, b, map_of_c, c, parts, tickets, mapped, m, n,
                                                                        k, tiles_m, outer);
}

// The same of blocks alone, which begin sooner than clusters of one.
template <class T, int GROUPS, int M, bool BY_COLUMNS, int DEPTH, int STAGES, int SPLIT, bool APART, Shared SHARED>
__global__ void __launch_bounds__(GROUPS* kWarpgroupThreads + 32) matmul_skinny_alone(
    const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
    const __grid_constant__ sm90::TensorMap map_of_c, T* c, float* parts, int* tickets, bool mapped, int m, int n,
    int k, int tiles_m, int outer) {
  static_assert(SPLIT == 1 && SHARED == Shared::nothing, "nobody to send to");
  skinny<T, GROUPS, M, BY_COLUMNS, DEPTH, STAGES, SPLIT, APART, SHARED>(a, b, map_of_c, c, parts, tickets, mapped, m, n,
                                                                        k, tiles_m, outer);
}
