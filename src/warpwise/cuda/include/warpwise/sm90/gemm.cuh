// Warp-specialised persistent GEMM for Hopper: the body of a kernel that has tensor maps of A, B and C. sm_90a only.
//
// Warpgroup 0 is the producer: it loads k-tiles into a circular buffer of pipeline stages by TMA. One or two consumer
// warpgroups multiply them, each computing some of the block's tile of C. The blocks of a cluster compute
// neighbouring tiles, and each loads a fraction of the operands that they share, by multicast. A block is persistent.
// At the end of a tile the sums are rounded, which frees the accumulators, and the tile is stored box by box during the
// main loop of the next tile.
//
// Include cuda_bf16.h or cuda_fp16.h first.
#pragma once

#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tile_scheduler.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/unaligned_store.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace warpwise {
namespace sm90 {

constexpr int kWarpgroupThreads = 128;
constexpr int kTileK = 64;                   // 128 bytes of K, the span of the swizzle
constexpr unsigned kBoxBytes = 64 * 64 * 2;  // a TMA box of 64 x 64 elements

// T: a 2-byte type. BM x BN: a block's tile of C, divided among GM x GN warpgroups. STAGES: pipeline stages. CM x CN:
// tiles of a cluster. A is K-major (row-major) or MN-major (transposed); B is K-major (transposed) or MN-major
// (row-major).
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR>
struct GemmConfig {
  using Element = T;
  static constexpr int bm = BM, bn = BN, gm = GM, gn = GN, stages = STAGES, cm = CM, cn = CN;
  static constexpr bool a_mn_major = A_MN_MAJOR, b_mn_major = B_MN_MAJOR;
  static constexpr int groups = GM * GN, threads = (1 + groups) * kWarpgroupThreads, cluster = CM * CN;
  static constexpr int wgmmas = BM / GM / 64, width = BN / GN;  // of a warpgroup: `wgmmas` of 64 x width
  static constexpr int subtiles = wgmmas * width / 64;          // boxes of C that it stores in the epilogue
  static constexpr unsigned bytes_a = BM / 64 * kBoxBytes, bytes_b = BN / 64 * kBoxBytes;  // of a k-tile
  static constexpr int loads_a = BM / 64 / CN, loads_b = BN / 64 / CM;  // boxes of a k-tile that a block loads
  // Dynamic shared memory in bytes: alignment of the swizzle, stages, barriers, and staging boxes for the epilogue, two
  // for each warpgroup if they fit into the SM's 227 KiB.
  static constexpr unsigned ring = 1024 + STAGES * (bytes_a + bytes_b + 16), max_shared = 232448;
  static constexpr int boxes = ring + groups * 2 * kBoxBytes <= max_shared ? 2 : 1;
  static constexpr unsigned shared = ring + groups * boxes * kBoxBytes;
  static_assert(sizeof(T) == 2, "64 columns span the 128-byte swizzle");
  static_assert(groups == 1 || groups == 2, "64 x 256 accumulators of a warpgroup take 128 registers a thread");
  static_assert(BM % (64 * GM) == 0 && BN % (64 * GN) == 0, "a warpgroup multiplies and stores 64 x 64 at a time");
  static_assert(loads_a * CN * 64 == BM && loads_b * CM * 64 == BN, "a block loads whole boxes for its cluster");
  static_assert(shared <= max_shared, "an SM has 227 KiB for a block");
};

// Identity epilogue. An epilogue is applied to two adjacent sums, at (row, column) and (row, column + 1) of C, before
// they are rounded.
struct IdentityEpilogue {
  __device__ void operator()(float& left, float& right, int row, int column) const {}
};

#ifdef __CUDA_BF16_TYPES_EXIST__
__device__ inline unsigned rounded(float left, float right, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(left, right);
  return *reinterpret_cast<const unsigned*>(&pair);
}
#endif
#ifdef __CUDA_FP16_TYPES_EXIST__
__device__ inline unsigned rounded(float left, float right, __half) {
  const __half2 pair = __floats2half2_rn(left, right);
  return *reinterpret_cast<const unsigned*>(&pair);
}
#endif

// Loads the box of an operand at `mn` (M or N) and `k` (K), multicast to `blocks` if SHARED.
template <bool MN_MAJOR, bool SHARED>
__device__ inline void tma_load_operand(unsigned to, const TensorMap* map, unsigned full_barrier, int mn, int k,
                                        unsigned short blocks) {
  const int x = MN_MAJOR ? mn : k, y = MN_MAJOR ? k : mn;
  if constexpr (SHARED)
    tma_load_2d_multicast(to, map, full_barrier, x, y, blocks);
  else
    tma_load_2d(to, map, full_barrier, x, y);
}

// The shared memory of a block: pipeline stages, BOXES staging boxes of C per consumer warpgroup, barriers.
template <class P, int BOXES = P::boxes>
struct GemmStorage {
  unsigned stages_a, stages_b, staging;
  Pipeline pipeline;

  __device__ explicit GemmStorage(const unsigned char* raw)
      : stages_a((shared_address(raw) + 1023) & ~1023u),  // a swizzled unit is 1 KiB
        stages_b(stages_a + P::stages * P::bytes_a),
        staging(stages_b + P::stages * P::bytes_b),
        pipeline(staging + P::groups * BOXES * kBoxBytes, P::stages) {}

  // Called by one thread. A stage is released by all consumers of what this block loads.
  __device__ void init() const { pipeline.init(1, P::groups * (P::cm + P::cn - 1)); }
  __device__ unsigned end() const { return pipeline.empty_barrier(P::stages); }
};

// The producer thread: loads k-tiles into the stages of the ring as they become free.
template <class P>
struct Producer {
  const TensorMap *a, *b;
  const GemmStorage<P>& storage;
  int cluster_m, cluster_n;                   // the block's position in its cluster
  unsigned short blocks_a = 0, blocks_b = 0;  // masks of the blocks in the same row and in the same column
  PipelineState state{0, 1};

  __device__ Producer(const TensorMap* a, const TensorMap* b, const GemmStorage<P>& storage, int cluster_m,
                      int cluster_n)
      : a(a), b(b), storage(storage), cluster_m(cluster_m), cluster_n(cluster_n) {
    for (int i = 0; i < P::cn; ++i) blocks_a |= 1 << (cluster_m + i * P::cm);
    for (int i = 0; i < P::cm; ++i) blocks_b |= 1 << (i + cluster_n * P::cm);
  }

  // Loads k-tile `s` of the tile whose first element is (row, column).
  __device__ void load(int row, int column, int s) {
    constexpr int kUnrolled = P::loads_a + P::loads_b > 4 ? 1 : 4;  // more does not fit into 40 registers
    const unsigned full_barrier = storage.pipeline.producer_acquire(state, P::bytes_a + P::bytes_b);
#pragma unroll kUnrolled
    for (int i = 0; i < P::loads_a; ++i) {
      const int box = cluster_n * P::loads_a + i;
      tma_load_operand<P::a_mn_major, (P::cn > 1)>(storage.stages_a + state.index * P::bytes_a + box * kBoxBytes, a,
                                                   full_barrier, row + box * 64, s * kTileK, blocks_a);
    }
#pragma unroll kUnrolled
    for (int i = 0; i < P::loads_b; ++i) {
      const int box = cluster_m * P::loads_b + i;
      tma_load_operand<P::b_mn_major, (P::cm > 1)>(storage.stages_b + state.index * P::bytes_b + box * kBoxBytes, b,
                                                   full_barrier, column + box * 64, s * kTileK, blocks_b);
    }
    state.next(P::stages);
  }
};

// Descriptor of an operand at K step `step` (16 elements) of a k-tile; its boxes of 64 along M or N are contiguous.
template <bool MN_MAJOR>
__device__ inline unsigned long long operand_descriptor(unsigned boxes, int step) {
  return matrix_descriptor(boxes + step * (MN_MAJOR ? 16 * 128 : 16 * 2), kBoxBytes, 1024);
}

// Issues the wgmma of a warpgroup's k-tile: D = A B, or D += A B if `adds`. own_a, own_b: its boxes in stage 0.
template <class P>
__device__ inline void wgmma_k_tile(float (&d)[P::wgmmas][P::width / 2], unsigned own_a, unsigned own_b, int stage,
                                    bool adds) {
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < kTileK / 16; ++i) {
    const unsigned long long b_descriptor = operand_descriptor<P::b_mn_major>(own_b + stage * P::bytes_b, i);
#pragma unroll
    for (int p = 0; p < P::wgmmas; ++p)
      wgmma<typename P::Element, P::width, P::a_mn_major, P::b_mn_major>(
          d[p], operand_descriptor<P::a_mn_major>(own_a + stage * P::bytes_a + p * kBoxBytes, i), b_descriptor,
          adds || i);
  }
}

// Stores 64 x 64 of C from a warpgroup's registers to a box in shared memory; each warp stores its 16 rows.
__device__ inline void registers_to_shared(unsigned box, const unsigned (&pairs)[16], int thread) {
  const int lane = thread % 32, own_row = thread / 32 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < 4; ++j) {          // 16 columns: four 8 x 8 matrices
    const int unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by row
    const unsigned r[4] = {pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2], pairs[4 * j + 3]};
    stmatrix_x4(box + own_row * 128 + ((unit ^ (own_row & 7)) << 4), r);
  }
}

// Stores such a box to C by TMA. The box must be free.
__device__ inline void store_tile(unsigned box, const unsigned (&pairs)[16], int group, const TensorMap* c, int row,
                                  int column) {
  const int thread = threadIdx.x % kWarpgroupThreads;
  registers_to_shared(box, pairs, thread);
  fence_proxy_async();
  named_barrier_sync(1 + group, kWarpgroupThreads);
  if (thread == 0) tma_store_2d(c, box, column, row);
}

// The same by ordinary stores: each warp synchronises only with itself.
template <class T>
__device__ inline void store_tile(unsigned box, const unsigned (&pairs)[16], int group, const DenseRows<T>* c, int row,
                                  int column) {
  const int thread = threadIdx.x % kWarpgroupThreads, own_row = thread / 32 * 16;
  __syncwarp();
  registers_to_shared(box, pairs, thread);
  __syncwarp();
  store_rows(box + own_row * 128, *c, row + own_row, column);
}

// C (m, n) = epilogue(A (m, k) B (k, n)), accumulated in float32. The maps have boxes of 64 x 64; C is a TensorMap or
// DenseRows. The kernel needs P::threads threads, __launch_bounds__(P::threads, 1), clusters of P::cluster blocks,
// P::shared bytes of dynamic shared memory and a grid of any number of clusters.
template <class P, class C, class Epilogue>
__device__ inline void gemm(const TensorMap& a, const TensorMap& b, const C& c, int k, TileScheduler order,
                            const Epilogue& epilogue) {
  extern __shared__ unsigned char raw[];
  const GemmStorage<P> storage(raw);
  const int rank = static_cast<int>(cluster_ctarank()), cluster_m = rank % P::cm, cluster_n = rank / P::cm;
  const int k_tiles = (k + kTileK - 1) / kTileK;
  const int first = blockIdx.x / P::cluster, step = gridDim.x / P::cluster;

  if (threadIdx.x == 0) {
    storage.init();
    fence_mbarrier_init();
  }
  if constexpr (P::cluster > 1)
    cluster_sync_relaxed();
  else
    __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    if constexpr (P::groups > 1) warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      Producer<P> producer(&a, &b, storage, cluster_m, cluster_n);
      for (int tile = first; tile < order.tiles(); tile += step) {
        const int row = (order.row(tile) * P::cm + cluster_m) * P::bm;
        const int column = (order.column(tile) * P::cn + cluster_n) * P::bn;
        for (int s = 0; s < k_tiles; ++s) producer.load(row, column, s);
      }
    }
  } else {
    if constexpr (P::groups > 1) warpgroup_reg_alloc<232>();
    const int group = threadIdx.x / kWarpgroupThreads - 1, group_m = group % P::gm, group_n = group / P::gm;
    const int thread = threadIdx.x % kWarpgroupThreads;
    const unsigned own_a = storage.stages_a + group_m * P::wgmmas * kBoxBytes,
                   own_b = storage.stages_b + group_n * (P::width / 64) * kBoxBytes;
    const bool releases = thread < P::cluster && (thread % P::cm == cluster_m || thread / P::cm == cluster_n);
    WgmmaConsumer consumer(storage.pipeline, ClusterRelease{releases, thread});
    float d[P::wgmmas][P::width / 2];
    unsigned pending[P::subtiles][16];  // the previous tile, rounded, and its position in C
    int pending_row = 0, pending_column = 0, box = 0;
    bool has_pending = false;

    const auto k_tile = [&](int s) {
      consumer.k_tile(s, [&](int stage) { wgmma_k_tile<P>(d, own_a, own_b, stage, s); });
    };
    const auto store_subtile = [&](int subtile) {
      if constexpr (kIsTensorMap<C>) {
        if (thread == 0) tma_store_wait_read<P::boxes - 1>();
        named_barrier_sync(1 + group, kWarpgroupThreads);
      }
      store_tile(storage.staging + (group * P::boxes + box) * kBoxBytes, pending[subtile], group, &c,
                 pending_row + subtile / (P::width / 64) * 64, pending_column + subtile % (P::width / 64) * 64);
      if (P::boxes == 2) box ^= 1;
    };

    for (int tile = first; tile < order.tiles(); tile += step) {
      k_tile(0);
      int row = ((order.row(tile) * P::cm + cluster_m) * P::gm + group_m) * P::wgmmas * 64;
      int column = ((order.column(tile) * P::cn + cluster_n) * P::gn + group_n) * P::width;
      asm volatile("" : "+r"(row), "+r"(column));  // computed here, while wgmma runs
      if (has_pending) store_subtile(0);
#pragma unroll
      for (int subtile = 1; subtile < P::subtiles; ++subtile) {
        if (subtile < k_tiles) k_tile(subtile);
        if (has_pending) store_subtile(subtile);
      }
      for (int s = P::subtiles; s < k_tiles; ++s) k_tile(s);
      consumer.finish();

      pending_row = row;
      pending_column = column;
      has_pending = true;
#pragma unroll
      for (int subtile = 0; subtile < P::subtiles; ++subtile) {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          float* const pair = &d[subtile / (P::width / 64)][subtile % (P::width / 64) * 32 + 2 * i];
          epilogue(pair[0], pair[1],
                   pending_row + subtile / (P::width / 64) * 64 + thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8,
                   pending_column + subtile % (P::width / 64) * 64 + i / 2 * 8 + thread % 4 * 2);
          pending[subtile][i] = rounded(pair[0], pair[1], typename P::Element());
        }
      }
    }
    if (has_pending) {
#pragma unroll
      for (int subtile = 0; subtile < P::subtiles; ++subtile) store_subtile(subtile);
    }
    if (thread == 0) tma_store_wait_read<0>();  // the end of the kernel waits for the global writes
  }
  if constexpr (P::cluster > 1)
    cluster_sync_relaxed();  // a block must not exit while others may arrive at its barriers
}

}  // namespace sm90
}  // namespace warpwise
