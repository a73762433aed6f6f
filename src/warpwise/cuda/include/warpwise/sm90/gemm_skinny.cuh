// GEMM of few rows or few tiles: columns of B take the M dimension of wgmma, rows of A its N dimension. sm_90a only.
//
// wgmma has M = 64 and N = 8 to 256. A consumer warpgroup computes 64 columns x ROWS rows of C as D = B^T A^T, so
// little arithmetic is wasted with few rows of A. The time is that of reading B once; the ring of stages covers the
// latency of DRAM.
//
// If there are too few tiles to fill the GPU, K is split. Each block of a cluster sends its partial sums of the rows
// that another block owns to this block through distributed shared memory, and adds those that it receives for its own
// rows. Several clusters may split K again through global memory. Both orders of addition are fixed. The splits
// interleave their k-tiles: at the same time they read the same lines of A from L2 and adjacent ones of B from DRAM.
//
// gemm() composes four policies:
//   B       element type, layout and loads of B, and its wgmma: SharedB below, or B in registers (matmul_tf32)
//   Shape   warpgroups, rows and stages of a block, and the operand that two blocks share by multicast
//   SPLIT   blocks of a cluster that split K
//   Output  what is stored: gemm_skinny_epilogue.cuh
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/gemm_skinny_epilogue.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>

namespace warpwise {
namespace skinny {

constexpr int kGroupColumns = 64;     // of C, per warpgroup
constexpr unsigned kLineBytes = 128;  // of K: the span of the swizzle, a line of a box

// The operand that the two blocks of a pair share: each loads half of it by multicast.
enum class Shared { nothing, a, b };
constexpr int blocks_of(Shared shared) { return shared == Shared::nothing ? 1 : 2; }

// GROUPS_N x GROUPS_M consumer warpgroups along the columns of B and the rows of A, ROWS of these each. A stage, a
// k-tile, is BOXES times 128 bytes of K. Producers: a warp, or a warpgroup that releases registers for the consumers.
// A_K_MAJOR: A is row-major, else column-major, of 2-byte elements.
template <int GROUPS_N, int GROUPS_M, int ROWS_, int BOXES_, int MAX_STAGES, int PRODUCER_THREADS = 32,
          Shared SHARED = Shared::nothing, bool A_K_MAJOR = true>
struct Shape {
  static constexpr int kGroups = GROUPS_N * GROUPS_M, kRows = ROWS_, kBoxes = BOXES_;
  static constexpr int kTileRows = GROUPS_M * kRows, kTileColumns = GROUPS_N * kGroupColumns, kMaxStages = MAX_STAGES;
  static constexpr int kThreads = kGroups * kWarpgroupThreads;  // consumers
  static constexpr bool kReallocates = PRODUCER_THREADS == kWarpgroupThreads;
  static constexpr int kConsumerRegisters = kGroups == 4 ? 112 : 232, kProducerRegisters = kGroups == 4 ? 32 : 40;
  __device__ static int group_m(int group) { return GROUPS_M == 1 ? 0 : group / GROUPS_N; }
  __device__ static int group_n(int group) { return GROUPS_M == 1 ? group : group % GROUPS_N; }
  static constexpr unsigned kBytesA = kTileRows * kLineBytes;  // of a box
  static constexpr bool kAKMajor = A_K_MAJOR;
  static constexpr Shared kShared = SHARED;
  static constexpr int kPair = blocks_of(SHARED);
  static_assert(kRows % (!A_K_MAJOR ? 64 : SHARED == Shared::a ? 16 : 8) == 0, "boxes of whole swizzled units");

  // The descriptor of step `step`, 32 bytes of K, of the box of A at `box`.
  __device__ static unsigned long long descriptor_a(unsigned box, int step) {
    return sm90::matrix_descriptor(box + step * (A_K_MAJOR ? 32 : 2048), A_K_MAJOR ? 16 : 8192, 1024);
  }
};

// The tile and the split of a block's cluster. `tile`: its index, or that of a pair's first; `splits`: clusters of a
// tile.
struct Work {
  int tile, first_row, first_column, split, splits;
};

// Clusters in the order of splits, rows of tiles and columns of tiles. Grid: splits * tiles clusters.
template <class S, int SPLIT>
__device__ inline Work work_of_cluster(int tiles_m, int splits) {
  const int cluster = blockIdx.x / (SPLIT * S::kPair), pair = cluster / splits;
  return {pair * S::kPair, pair % tiles_m * S::kTileRows * (S::kShared == Shared::b ? 2 : 1),
          pair / tiles_m * S::kTileColumns * (S::kShared == Shared::a ? 2 : 1), cluster % splits, splits};
}

// B in shared memory, of wgmma's element type T. Boxes: `columns` x 128 bytes of (n, k) if K_MAJOR, else 64 x 64 of (k,
// n), 2-byte elements only. Boxes of a shared B have half of these lines.
template <class T, bool K_MAJOR>
struct SharedB {
  struct Fragments {};
  static constexpr int kTileK = kLineBytes / sizeof(T), kUnroll = 1;  // elements of K in a box; k-tiles per iteration
  static constexpr bool kPromotes = sizeof(T) == 1;                   // fp8: wgmma's accumulators are added in float32

  const sm90::TensorMap* map;

  __device__ static constexpr unsigned stage_bytes(int columns) { return columns * kLineBytes; }  // of a box
  __device__ static unsigned loaded_bytes(int columns) { return columns * kLineBytes; }

  __device__ void prefetch() const { sm90::prefetch_tensormap(map); }

  // load_box(to, map, x, y). half: of the lines, if B is shared.
  template <class LoadBox>
  __device__ void load(const LoadBox& load_box, unsigned to, int k, int column, int columns, int half) const {
    if (K_MAJOR) {
      load_box(to + half * (columns / 2) * kLineBytes, map, k, column + half * (columns / 2));
    } else {
#pragma unroll
      for (int x = 0; x < columns; x += 64) load_box(to + x * kLineBytes + half * 4096, map, column + x, k + half * 32);
    }
  }

  __device__ void begin(int) {}
  __device__ void load_fragments(Fragments&, unsigned) const {}

  // Issues the wgmma of a box of A's layout S: B and A at these addresses, 32 bytes of K each. ADDS: to d.
  template <int N, class S>
  __device__ static void multiply(float (&d)[N / 2], const Fragments&, unsigned b, unsigned a, bool adds) {
#pragma unroll
    for (int step = 0; step < 4; ++step)
      sm90::wgmma<T, N, !K_MAJOR, !S::kAKMajor>(
          d, sm90::matrix_descriptor(b + step * (K_MAJOR ? 32 : 2048), K_MAJOR ? 16 : 8192, 1024),
          S::descriptor_a(a, step), adds || step > 0);
  }

  // The column of C, of the warpgroup's 64, of row l / 4 + 8 half of the warp's 16 rows of D.
  __device__ static int column_of(int half) {
    return threadIdx.x % kWarpgroupThreads / 32 * 16 + half * 8 + threadIdx.x % 32 / 4;
  }
};

// The ring of a block: in each stage BOXES boxes of B, and of A behind it.
template <class S, class B>
struct MainLoop {
  static constexpr int kTileK = S::kBoxes * B::kTileK;

  sm90::Pipeline ring;
  unsigned stages;              // shared address
  unsigned bytes_b, box_bytes;  // of B and of both operands in a box
  int columns;                  // of the tile
  int half, first_rank;         // kPair == 2: the half that this block loads; the pair's first block in the cluster

  __device__ MainLoop(unsigned memory, unsigned barriers, int columns, int count, int half, int first_rank)
      : ring(barriers, count),
        stages((memory + 1023) & ~1023u),  // a swizzled unit is 1 KiB
        bytes_b(B::stage_bytes(columns)),
        box_bytes(bytes_b + S::kBytesA),
        columns(columns),
        half(half),
        first_rank(first_rank) {}

  __device__ unsigned box(int stage, int i) const { return stages + (stage * S::kBoxes + i) * box_bytes; }
  __device__ unsigned end() const { return box(ring.stages, 0); }

  // Initialises the barriers of a stage; called by one thread.
  __device__ void init(int stage) const {
    sm90::mbarrier_init(ring.full_barrier(stage), 1);
    sm90::mbarrier_init(ring.empty_barrier(stage), S::kPair * S::kGroups);
  }

  // One thread loads the k-tile that begins at element `k` of K to a free stage.
  __device__ void load(const sm90::TensorMap& a, const B& b, int stage, int k, int row, int column,
                       sm90::CachePolicy policy) const {
    const unsigned full_barrier = ring.full_barrier(stage);
    const int half_a = S::kShared == Shared::a ? half : 0;
    const auto load_box = [&](bool shared, unsigned to, const sm90::TensorMap* map, int x, int y) {
      if (shared)
        sm90::tma_load_2d_multicast(to, map, full_barrier, x, y, static_cast<unsigned short>(3 << first_rank), policy);
      else
        sm90::tma_load_2d(to, map, full_barrier, x, y, policy);
    };
    const auto load_b = [&](unsigned to, const sm90::TensorMap* map, int x, int y) {
      load_box(S::kShared == Shared::b, to, map, x, y);
    };
    sm90::mbarrier_arrive_expect_tx(full_barrier, S::kBoxes * (B::loaded_bytes(columns) + S::kBytesA));
#pragma unroll
    for (int i = 0; i < S::kBoxes; ++i, k += B::kTileK) {
      b.load(load_b, box(stage, i), k, column, columns, S::kShared == Shared::b ? half : 0);
      const unsigned to = box(stage, i) + bytes_b;
      if constexpr (S::kAKMajor) {
        const int first = half_a * (S::kTileRows / 2);
        load_box(S::kShared == Shared::a, to + first * kLineBytes, &a, k, row + first);
      } else {
#pragma unroll
        for (int x = 0; x < S::kTileRows; x += 64)
          load_box(S::kShared == Shared::a, to + x * kLineBytes + half_a * 4096, &a, row + x, k + half_a * 32);
      }
    }
  }

  // sums = the product over every `stride`-th k-tile from `first` to `end`. Called by all consumer warpgroups; `group`
  // is the index of this one.
  __device__ void multiply(float (&sums)[S::kRows / 2], B& b, int group, int first, int end, int stride) const {
    const int thread = threadIdx.x % kWarpgroupThreads;
    const unsigned a_offset = bytes_b + S::group_m(group) * S::kRows * kLineBytes,
                   b_offset = S::group_n(group) * kGroupColumns * kLineBytes;
#pragma unroll
    for (float& sum : sums) sum = 0.0f;
    if constexpr (B::kPromotes) {
      promote(sums, first, end, stride, a_offset, b_offset);
      return;
    }
    // The last stages are not released to the other block of a pair, which may have exited and does not wait for them.
    int next = first + ring.stages * stride;  // the k-tile that replaces the one released
    const auto release = [&](unsigned empty_barrier) {
      if (S::kPair == 1 && thread == 0) sm90::mbarrier_arrive(empty_barrier);
      if (S::kPair == 2 && next < end && thread < 2) sm90::mbarrier_arrive(empty_barrier, first_rank + thread);
      next += stride;
    };
    sm90::WgmmaConsumer<decltype(release)> consumer(ring, release);
    typename B::Fragments fragments[B::kUnroll];
    b.begin(group);
    for (int k_tile = first; k_tile < end; k_tile += B::kUnroll * stride) {
#pragma unroll
      for (int u = 0; u < B::kUnroll; ++u) {
        consumer.k_tile(k_tile - first + u, [&](int stage) {
          b.load_fragments(fragments[u], box(stage, 0));
          sm90::wgmma_fence();
#pragma unroll
          for (int i = 0; i < S::kBoxes; ++i)
            b.template multiply<S::kRows, S>(sums, fragments[u], box(stage, i) + b_offset, box(stage, i) + a_offset,
                                             true);
        });
      }
    }
    sm90::wgmma_wait_group<0>();
    if (first < end) release(consumer.previous_empty);
  }

  // The same for fp8: wgmma accumulates 256 products, which are added in float32.
  __device__ void promote(float (&sums)[S::kRows / 2], int first, int end, int stride, unsigned a_offset,
                          unsigned b_offset) const {
    constexpr int kMaxN = S::kGroups > 2 ? 64 : 128, kN = S::kRows < kMaxN ? S::kRows : kMaxN;  // rows of a wgmma
    constexpr int kAccumulators = (S::kBoxes + 1) / 2;
    static_assert(S::kBoxes <= 2 || S::kRows == kN, "several accumulators only if one wgmma covers all rows");
    sm90::PipelineState state;
    for (int k_tile = first; k_tile < end; k_tile += stride, state.next(ring.stages)) {
      ring.consumer_wait(state);
#pragma unroll
      for (int from = 0; from < S::kRows; from += kN) {
        float accumulator[kAccumulators][kN / 2];
        sm90::wgmma_fence();
#pragma unroll
        for (int i = 0; i < S::kBoxes; ++i)
          B::template multiply<kN, S>(accumulator[i / 2], {}, box(state.index, i) + b_offset,
                                      box(state.index, i) + a_offset + from * kLineBytes, i % 2 > 0);
        sm90::wgmma_commit_group();
        sm90::wgmma_wait_group<0>();
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i) sm90::warpgroup_fence_operand(accumulator[i]);
        if (from + kN == S::kRows && threadIdx.x % kWarpgroupThreads == 0) ring.consumer_release(state.index);
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i) {
#pragma unroll
          for (int e = 0; e < kN / 2; ++e) sums[from / 2 + e] += accumulator[i][e];
        }
      }
    }
  }
};

// a: (m, k), a tensor map with boxes of kTileRows x 128 bytes, or of (k, m) with boxes of 64 x 64; b: (k, n). partials,
// semaphores: of split_k_reduce, for each tile and owner; used if work.splits > 1, unless each split has a separate C
// (Output::kPlanes). `columns` of a tile, a multiple of 8 up to kTileColumns: a warpgroup that has fewer than 64 also
// multiplies the memory behind them, and does not store the sums. Cluster: SPLIT splits of K, times two blocks of a
// pair if an operand is shared. Dynamic shared memory: 1 KiB for alignment + the stages + Output's staging memory, if
// it has its own, + the receive buffer, if SEPARATE_BUFFER; otherwise they reuse the memory of the stages.
template <class S, int SPLIT, bool SEPARATE_BUFFER, class B, class Output, class Policy>
__device__ inline void gemm(const sm90::TensorMap& a, B b, const Output& output, Work work, int k, int columns,
                            int stages, float* partials, int* semaphores, const Policy& l2_policy) {
  constexpr int kOwners = S::kRows / 8 < SPLIT ? S::kRows / 8 : SPLIT;  // blocks that reduce and store kRows rows each
  constexpr int kRows = S::kRows / kOwners, kWarps = S::kThreads / 32;
  constexpr unsigned kReceiveBytes = (SPLIT - 1) * S::kThreads * (kRows / 2) * 4;
  constexpr unsigned kStaging = Output::kOwnStaging ? Output::kOwnStaging : Output::template staging_bytes<kRows>();
  constexpr bool kSyncAtStart = S::kPair == 2 || (SPLIT > 1 && SEPARATE_BUFFER);  // others access this block's barriers
  static_assert(kRows % 8 == 0, "a block owns whole 8 x 8 matrices");
  static_assert(Output::kOwnStaging || (SEPARATE_BUFFER ? 0 : kReceiveBytes) + S::kGroups * kStaging <=
                                           S::kMaxStages * S::kBoxes * (B::stage_bytes(S::kTileColumns) + S::kBytesA),
                "the epilogue reuses the memory of the stages");
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[2 * S::kMaxStages + 1];
  __shared__ bool is_last;  // of split_k_reduce
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const unsigned received = shared_address(barriers + 2 * S::kMaxStages);  // barrier of cluster_reduce
  const int cluster_rank = SPLIT * S::kPair > 1 ? static_cast<int>(sm90::cluster_ctarank()) : 0;
  const int rank = cluster_rank / S::kPair, half = cluster_rank % S::kPair;
  const MainLoop<S, B> loop(shared_address(raw), shared_address(barriers), columns, stages, half, rank * S::kPair);
  const int tile = work.tile + half, first_row = work.first_row + (S::kShared == Shared::b ? half * S::kTileRows : 0),
            first_column = work.first_column + (S::kShared == Shared::a ? half * columns : 0);
  const int first = work.split * SPLIT + rank, stride = work.splits * SPLIT, unit = B::kUnroll > 1 ? stride : 1;
  const int k_tiles = cdiv(k, loop.kTileK * B::kUnroll * unit) * B::kUnroll * unit;  // those past K are zeros

  // After the barriers are initialised: of the block, and of the cluster if other blocks access them.
  const auto sync_cluster_at_start = [] {
    if (kSyncAtStart) sm90::cluster_arrive_relaxed();
    if (S::kPair == 2) sm90::cluster_wait();
  };
  const auto sync_at_start = [&] {
    __syncwarp();
    sm90::named_barrier_sync(2, S::kThreads + 32);
    sync_cluster_at_start();
  };
  // Before sums are sent: all blocks have started; without a separate buffer, all have also read their stages.
  const auto sync_before_exchange = [] {
    if (SPLIT == 1) return;
    if (SEPARATE_BUFFER) {
      if (S::kPair == 1) sm90::cluster_wait();
    } else if (Output::kReleases) {
      sm90::cluster_sync();
    } else {
      sm90::cluster_sync_relaxed();
    }
  };

  const auto produce = [&] {  // one warp
    const bool elected = sm90::elect_one();
    if (elected) {
      b.prefetch();
      sm90::prefetch_tensormap(&a);
    }
    const sm90::CachePolicy policy = l2_policy();
    sm90::PipelineState state{0, 1};
    int k_tile = first;
    const auto load = [&] {
      loop.load(a, b, state.index, k_tile * loop.kTileK, first_row, first_column, policy);
      state.next(loop.ring.stages);
      k_tile += stride;
    };
    if (elected) {
      loop.init(0);
      sm90::fence_mbarrier_init();
      if (S::kPair == 1 && k_tile < k_tiles) load();
    }
    sync_at_start();
    if (elected) {
#pragma unroll 1
      while (k_tile < k_tiles) {
        loop.ring.producer_acquire(state);
        load();
      }
    }
    __syncwarp();
  };

  const auto consume = [&] {
    const int group = warp / 4;
    const int row = first_row + S::group_m(group) * S::kRows + (kOwners > 1 ? rank * kRows : 0);
    const int column = first_column + S::group_n(group) * kGroupColumns;
    if (sm90::elect_one()) {
#pragma unroll 1
      for (int s = 1 + warp; s < stages; s += kWarps) loop.init(s);
      if (SPLIT > 1 && warp == 0) {
        sm90::mbarrier_init(received, 1);
        sm90::mbarrier_arrive_expect_tx(received, kReceiveBytes);
      }
      sm90::fence_mbarrier_init();
    }
    const auto scales = output.template scales<kRows>(row, column);
    sync_at_start();
    float sums[S::kRows / 2], own[kRows / 2];
    loop.multiply(sums, b, group, first, k_tiles, stride);
    sync_before_exchange();
    if constexpr (SPLIT > 1) {
      const unsigned buffer = SEPARATE_BUFFER ? loop.end() + Output::kOwnStaging * S::kGroups : loop.stages;
      if (!cluster_reduce<SPLIT, S::kPair, S::kThreads>(sums, own, buffer, received, rank, half)) return;
    } else {
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) own[i] = sums[i];
    }
    if (!Output::kPlanes && work.splits > 1) {
      const int owner = tile * kOwners + rank;
      const long long vectors = static_cast<long long>(work.splits) * (kRows / 8) * S::kThreads;
      float4* const tile_partials = reinterpret_cast<float4*>(partials) + owner * vectors;
      if (!split_k_reduce<S::kThreads>(own, tile_partials, semaphores + owner, work.split, work.splits, is_last))
        return;
    }
    if (!Output::kOwnStaging && (SPLIT == 1 || SEPARATE_BUFFER))
      sm90::named_barrier_sync(1, S::kThreads);  // all stages have been read
    const unsigned staging = Output::kOwnStaging ? loop.end() : loop.stages + (SEPARATE_BUFFER ? 0 : kReceiveBytes);
    output.store(own, scales, work.split, row, column, first_column + columns, staging + group * kStaging, 3 + group);
  };

  if (warp < kWarps) {
    if (S::kReallocates) sm90::warpgroup_reg_alloc<S::kConsumerRegisters>();
    consume();
  } else {
    if (S::kReallocates) sm90::warpgroup_reg_dealloc<S::kProducerRegisters>();
    if (warp == kWarps)
      produce();
    else
      sync_cluster_at_start();
    sync_before_exchange();
  }
}

}  // namespace skinny
}  // namespace warpwise
