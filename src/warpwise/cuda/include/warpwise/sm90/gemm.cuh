// The warp-specialised persistent GEMM of Hopper: the body of every kernel that multiplies by wgmma. sm_90a only.
//
// Warpgroup 0 is the producer: it loads k-tiles into a ring of pipeline stages by TMA. One or two consumer warpgroups
// multiply them, each computing a part of the block's tile of C. The blocks of a cluster compute adjacent tiles; each
// loads a fraction of the operands that they share, by multicast. Blocks are persistent. A kernel combines:
//
//     types and sizes     GemmConfig
//     operands in memory  TmaOperand, or another with `load`
//     tile scheduler      PersistentTiles, VariableNTiles, VariableMTiles: tile_scheduler.cuh, gemm_variable.cuh
//     main loop           WgmmaLoop, RingLoop; other operations: fp8 sums with promotion, a TF32 operand from registers
//     epilogue and store  OverlappedStore of a TmaStore: gemm_store.cuh; FusedEpilogue: gemm_epilogue.cuh; ...
#pragma once

#include <warpwise/core/pack.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tile_scheduler.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace warpwise {
namespace sm90 {

constexpr int kWarpgroupThreads = 128;
constexpr unsigned kRowBytes = 128;             // of a box in shared memory: the span of the swizzle
constexpr unsigned kBoxBytes = 64 * kRowBytes;  // a box of C, or of an operand of 2-byte elements

// T: the operands' type as in `wgmma`. BM x BN: a block's tile of C, divided among GM x GN warpgroups. STAGES: pipeline
// stages. CM x CN: tiles of a cluster. A is K-major (row-major) or MN-major (transposed); B is K-major (transposed) or
// MN-major (row-major). BOX_A, BOX_B: rows of A and columns of B in a box. WIDTH: columns that a warpgroup computes.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR,
          int BOX_A = 64, int BOX_B = 64, int WIDTH = BN / GN>
struct GemmConfig {
  using Element = T;
  static constexpr int bm = BM, bn = BN, gm = GM, gn = GN, stages = STAGES, cm = CM, cn = CN;
  static constexpr bool a_mn_major = A_MN_MAJOR, b_mn_major = B_MN_MAJOR;
  static constexpr int groups = GM * GN, threads = (1 + groups) * kWarpgroupThreads, cluster = CM * CN;
  static constexpr int tile_k = kRowBytes / sizeof(T);
  static constexpr int wgmmas = BM / GM / 64, width = WIDTH;  // of a warpgroup: `wgmmas` of 64 x width
  static constexpr int columns = GN * WIDTH;                  // of C that a block computes, at most BN
  static constexpr int boxes_n = (width + 63) / 64, subtiles = wgmmas * boxes_n;  // 64 x 64 of C, 2-byte elements
  static constexpr unsigned bytes_a = BM * kRowBytes, bytes_b = BN * kRowBytes;   // of a k-tile
  static constexpr int box_a = BOX_A, box_b = BOX_B;
  static constexpr int loads_a = BM / BOX_A / CN, loads_b = BN / BOX_B / CM;  // boxes of a k-tile that a block loads
  // Dynamic shared memory in bytes: alignment of the swizzle, stages, barriers, and staging boxes for the epilogue, two
  // for each warpgroup if they fit into the SM's 227 KiB.
  static constexpr unsigned ring = 1024 + STAGES * (bytes_a + bytes_b + 16), max_shared = 232448;
  static constexpr int boxes = ring + groups * 2 * kBoxBytes <= max_shared ? 2 : 1;
  static constexpr unsigned shared = ring + groups * boxes * kBoxBytes;
  static_assert(groups == 1 || groups == 2, "64 x 256 accumulators of a warpgroup take 128 registers a thread");
  static_assert(BM % (64 * GM) == 0 && BN % (64 * GN) == 0, "a warpgroup multiplies and stores 64 x 64 at a time");
  static_assert(loads_a * CN * BOX_A == BM && loads_b * CM * BOX_B == BN, "a block loads whole boxes for its cluster");
  static_assert(shared <= max_shared, "an SM has 227 KiB for a block");

  // The consumer warpgroup's position in the tile, in warpgroups: a constant, thus uniform, if there is only one.
  static __device__ int group() { return groups == 1 ? 0 : threadIdx.x / kWarpgroupThreads - 1; }
  static __device__ int group_m() { return GM == 1 ? 0 : GN == 1 ? group() : group() % GM; }
  static __device__ int group_n() { return GN == 1 ? 0 : GM == 1 ? group() : group() / GM; }
};

// A matrix in global memory, or with a RANK of 3 the matrices of a batch, read by TMA.
template <int RANK>
struct TmaOperand {
  static constexpr int most_unrolled = RANK == 3 ? 2 : 4;  // loads of a k-tile: more do not fit into 40 registers
  const TensorMap* map;

  // Loads the box at (x, y) of matrix z, multicast to `blocks` if MULTICAST.
  template <bool MULTICAST>
  __device__ void load(unsigned to, unsigned full_barrier, int x, int y, int z, unsigned short blocks) const {
    if constexpr (RANK == 3)
      tma_load_3d(to, map, full_barrier, x, y, z);
    else if constexpr (MULTICAST)
      tma_load_2d_multicast(to, map, full_barrier, x, y, blocks);
    else
      tma_load_2d(to, map, full_barrier, x, y);
  }
};
using Matrix = TmaOperand<2>;

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
template <class P, class Storage>
struct Producer {
  const Storage& storage;
  int cluster_m, cluster_n;                   // the block's position in its cluster
  unsigned short blocks_a = 0, blocks_b = 0;  // masks of the blocks in the same row and in the same column
  PipelineState state{0, 1};

  __device__ Producer(const Storage& storage, int cluster_m, int cluster_n)
      : storage(storage), cluster_m(cluster_m), cluster_n(cluster_n) {
    for (int i = 0; i < P::cn; ++i) blocks_a |= 1 << (cluster_m + i * P::cm);
    for (int i = 0; i < P::cm; ++i) blocks_b |= 1 << (i + cluster_n * P::cm);
  }

  // Loads the k-tile whose first element is `k`, of the tile at `at` of the cluster's first block.
  template <class Config, class A, class B>
  __device__ void load(const A& a, const B& b, const TileCoord& at, int k) {
    constexpr int kUnrolled = P::loads_a + P::loads_b > A::most_unrolled ? 1 : 4;
    const unsigned full_barrier = storage.pipeline.producer_acquire(state, P::bytes_a + P::bytes_b);
    const unsigned to_a = storage.stages_a + state.index * P::bytes_a,
                   to_b = storage.stages_b + state.index * P::bytes_b;
#pragma unroll kUnrolled
    for (int i = 0; i < P::loads_a; ++i) {
      const int box = cluster_n * P::loads_a + i, row = at.row + cluster_m * P::bm + box * P::box_a;
      a.template load<(P::cn > 1)>(to_a + box * P::box_a * kRowBytes, full_barrier, Config::a_mn_major ? row : k,
                                   Config::a_mn_major ? k : row, at.a, blocks_a);
    }
#pragma unroll kUnrolled
    for (int i = 0; i < P::loads_b; ++i) {
      const int box = cluster_m * P::loads_b + i, column = at.column + cluster_n * P::columns + box * P::box_b;
      b.template load<(P::cm > 1)>(to_b + box * P::box_b * kRowBytes, full_barrier, Config::b_mn_major ? column : k,
                                   Config::b_mn_major ? k : column, at.b, blocks_b);
    }
    state.next(P::stages);
  }
};

// The matrix descriptors of an operand in shared memory, whose boxes along M or N are contiguous.
template <bool MN_MAJOR>
struct OperandDescriptors : OperandDescriptor {
  __device__ explicit OperandDescriptors(unsigned boxes) : OperandDescriptor(boxes, kBoxBytes, 1024) {}
  // At `offset` bytes, a constant multiple of 16, from the first stage, and K step `step` (32 bytes) of a k-tile.
  __device__ unsigned long long at(unsigned offset, int step) const {
    return OperandDescriptor::at(offset, step * (MN_MAJOR ? 16 * kRowBytes : 32));
  }
};

// The wgmma of a k-tile. P: a GemmConfig; a, b: the warpgroup's operands; adds: D += A B instead of D = A B.
template <class P, class Sums>
__device__ inline void multiply_k_tile(Sums& d, const OperandDescriptors<P::a_mn_major>& a,
                                       const OperandDescriptors<P::b_mn_major>& b, int stage, bool adds) {
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned long long b_descriptor = b.at(stage * P::bytes_b, i);
#pragma unroll
    for (int p = 0; p < P::wgmmas; ++p)
      wgmma<typename P::Element, P::width, P::a_mn_major, P::b_mn_major>(
          d[p], a.at(stage * P::bytes_a + p * 64 * kRowBytes, i), b_descriptor, adds || i);
  }
}

// The main loop of operands in shared memory. `P` is a GemmConfig.
template <class P>
struct WgmmaLoop {
  using Sum = typename ElementOf<typename P::Element>::Sum;
  using Sums = Sum[P::wgmmas][P::width / 2];

  // Multiplies the k-tiles of a tile: D = A B. between(slot) runs while the wgmma of k-tile `slot` is pending, for
  // slot < SLOTS, also if there are fewer k-tiles; there is at least one, unless MAY_BE_EMPTY.
  template <int SLOTS, bool MAY_BE_EMPTY, class Storage, class Between>
  static __device__ void run(Sums& d, int k_tiles, const Storage& storage, WgmmaConsumer<>& consumer,
                             const Between& between) {
    const OperandDescriptors<P::a_mn_major> a(storage.stages_a + P::group_m() * P::wgmmas * 64 * kRowBytes);
    const OperandDescriptors<P::b_mn_major> b(storage.stages_b + P::group_n() * P::width * kRowBytes);
    const auto k_tile = [&](int s) {
      consumer.k_tile(s, [&](int stage) { multiply_k_tile<P>(d, a, b, stage, s > 0); });
    };
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot) {
      if ((slot == 0 && !MAY_BE_EMPTY) || slot < k_tiles) k_tile(slot);
      between(slot);
    }
    for (int s = SLOTS; s < k_tiles; ++s) k_tile(s);
    consumer.finish(!MAY_BE_EMPTY || k_tiles > 0);
  }
};

// The releases of a consumer thread at stages whose index is a constant: the addresses of the barriers differ by
// constants. CLUSTER: blocks of a cluster.
template <int CLUSTER>
struct RingRelease {
  bool releases;
  unsigned empty;  // the first barrier, in this block or by `mapa`

  __device__ RingRelease(const Pipeline& pipeline, const ClusterRelease& release)
      : releases(release.releases),
        empty(CLUSTER == 1 ? pipeline.empty : mapa(pipeline.empty, releases ? release.thread : 0)) {}
  __device__ void operator()(int stage) const {
    if (!releases) return;
    if constexpr (CLUSTER == 1)
      mbarrier_arrive(empty + 8 * stage);
    else
      mbarrier_arrive_mapped(empty + 8 * stage);
  }
};

// WgmmaLoop for tiles whose k-tiles are a multiple of the stages, so that each tile begins at stage 0. The loop is
// unrolled over the ring: stages are constants, and the descriptors remain in uniform registers. A k-tile takes about
// 15 instructions of a warp instead of 48.
template <class P>
struct RingLoop {
  using Sums = typename WgmmaLoop<P>::Sums;

  template <int SLOTS, bool MAY_BE_EMPTY, class Storage, class Between>
  static __device__ void run(Sums& d, int k_tiles, const Storage& storage, WgmmaConsumer<>& consumer,
                             const Between& between) {
    static_assert(!MAY_BE_EMPTY && SLOTS <= P::stages, "the first round of the ring has all slots");
    const OperandDescriptors<P::a_mn_major> a(storage.stages_a + P::group_m() * P::wgmmas * 64 * kRowBytes);
    const OperandDescriptors<P::b_mn_major> b(storage.stages_b + P::group_n() * P::width * kRowBytes);
    const RingRelease<P::cluster> release(storage.pipeline, consumer.release);
    const auto k_tile = [&](int stage, bool is_first) {
      storage.pipeline.consumer_wait({stage, consumer.state.phase});
      multiply_k_tile<P>(d, a, b, stage, !is_first);
      wgmma_commit_group();
      wgmma_wait_group<1>();
      if (!is_first) release((stage + P::stages - 1) % P::stages);
      if (stage == P::stages - 1) consumer.state.phase ^= 1;
    };
#pragma unroll
    for (int stage = 0; stage < P::stages; ++stage) {
      k_tile(stage, stage == 0);
      if (stage < SLOTS) between(stage);
    }
#pragma unroll 1
    for (int s = P::stages; s < k_tiles; s += P::stages) {
#pragma unroll
      for (int stage = 0; stage < P::stages; ++stage) k_tile(stage, false);
    }
    wgmma_wait_group<0>();
    release(P::stages - 1);
  }
};

// C = epilogue(A B). Scheduler: for_each(visit) calls visit(work) for each tile of this block's cluster. If it
// `alternates`, every second tile takes its k-tiles in reverse order, so that it begins with lines that are still in
// L2. A work tile has the type Config, a GemmConfig with the stages of P, k_tiles(), which is not 0 unless
// may_be_empty, first_k() and at(), the first element of the cluster's tile; if it is `transposed`, it is a tile of
// C^T = B^T A^T. Epilogue: see OverlappedStore. The maps' boxes are as in GemmConfig. The kernel needs P::threads
// threads, __launch_bounds__(P::threads, 1), clusters of P::cluster blocks, and a grid of any number of clusters.
template <class P, template <class> class MainLoop = WgmmaLoop, class Storage, class A, class B, class Scheduler,
          class Epilogue>
__device__ inline void gemm(const Storage& storage, const A& a, const B& b, const Scheduler& scheduler,
                            Epilogue&& epilogue) {
  const int rank = static_cast<int>(cluster_ctarank()), cluster_m = rank % P::cm, cluster_n = rank / P::cm;
  if (threadIdx.x == 0) {
    storage.init();
    epilogue.init();
    fence_mbarrier_init();
  }
  if constexpr (P::cluster > 1)
    cluster_sync_relaxed();
  else
    __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    if constexpr (P::groups > 1) warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      constexpr int kUnrolled = Scheduler::unrolled && P::loads_a + P::loads_b <= A::most_unrolled ? 4 : 1;
      Producer<P, Storage> producer(storage, cluster_m, cluster_n);
      bool backwards = false;
      scheduler.for_each([&](auto work) {
        using Config = typename decltype(work)::Config;
        const TileCoord at = work.at();
        const int k_tiles = work.k_tiles();
        int k = work.first_k(), k_step = P::tile_k;
        if (Scheduler::alternates && backwards) k += (k_tiles - 1) * P::tile_k, k_step = -P::tile_k;
        backwards = !backwards;
#pragma unroll kUnrolled
        for (int s = 0; s < k_tiles; ++s, k += k_step) {
          if constexpr (decltype(work)::transposed)
            producer.template load<Config>(b, a, at, k);
          else
            producer.template load<Config>(a, b, at, k);
        }
      });
    }
  } else {
    if constexpr (P::groups > 1) warpgroup_reg_alloc<232>();
    const int thread = threadIdx.x % kWarpgroupThreads;
    const bool releases = thread < P::cluster && (thread % P::cm == cluster_m || thread / P::cm == cluster_n);
    WgmmaConsumer<> consumer(storage.pipeline, ClusterRelease{releases, thread});
    scheduler.for_each([&](auto work) {
      using Config = typename decltype(work)::Config;
      typename MainLoop<Config>::Sums d;
      const int k_tiles = work.k_tiles();
      const auto between = [&](int slot) {
        if (slot == 0) {
          const TileCoord at = work.at();
          epilogue.begin(work, at.row + (cluster_m * P::gm + Config::group_m()) * P::wgmmas * 64,
                         at.column + (cluster_n * P::gn + Config::group_n()) * P::width, at.c);
        }
        epilogue.step(slot);
      };
      MainLoop<Config>::template run<Epilogue::slots, decltype(work)::may_be_empty>(d, k_tiles, storage, consumer,
                                                                                    between);
      epilogue.finish(d, work, k_tiles, consumer);
    });
    epilogue.drain();
    if (thread == 0) tma_store_wait_read<0>();  // the end of the kernel waits for the global writes
  }
  if constexpr (P::cluster > 1)
    cluster_sync_relaxed();  // a block must not exit while others may arrive at its barriers
}

}  // namespace sm90
}  // namespace warpwise
