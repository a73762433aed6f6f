// fp8 wgmma with float32 sums: one consumer warpgroup multiplies while the other one adds.
//
// wgmma accumulates fp8 products with 13 bits after the binary point, so a long sum must not stay in its accumulators:
// they are added to sums in other registers. The 128 x 256 sums take half of the register file, which leaves a quarter
// for accumulators. A warpgroup therefore multiplies one half of its 64 x 256 tile, waits, and adds, 64 additions per
// thread, which overlap with the wgmma of the other warpgroup.
//
// Between two series of wgmma, a warpgroup waits, adds, and waits at the barrier of the next k-tile. This takes about
// 300 clocks, while the half tile of the other warpgroup takes only 256 clocks with one k-tile, and 512 clocks with
// two. Two k-tiles, 256 products, are therefore accumulated in wgmma; the truncation error of a partial sum grows by
// 2^0.7.

#include <cuda_fp8.h>

#include <warpwise/sm90/gemm_variable.cuh>

#include "policies.cuh"

// A tile of 128 x COLUMNS, k-tiles of 128; the two blocks of a cluster compute vertically adjacent tiles and share B.
// WIDTH: columns that are multiplied.
template <class A, class B, int COLUMNS, int STAGES, int WIDTH = COLUMNS>
using Fp8Config =
    sm90::GemmConfig<sm90::Pair<A, B>, 128, COLUMNS, 2, 1, STAGES, 2, 1, false, false, 128, COLUMNS / 2, WIDTH>;

// A matrix that is loaded with an L2 cache policy.
struct HintedMatrix {
  static constexpr int most_unrolled = 2;
  const sm90::TensorMap* map;
  sm90::CachePolicy policy;

  template <bool MULTICAST>
  __device__ void load(unsigned to, unsigned full_barrier, int x, int y, int, unsigned short blocks) const {
    if constexpr (MULTICAST)
      sm90::tma_load_2d_multicast(to, map, full_barrier, x, y, blocks, policy);
    else
      sm90::tma_load_2d(to, map, full_barrier, x, y, policy);
  }
};

// The main loop: wgmma sums two k-tiles of 64 x at most 128 elements of C, which are then added to the float32 sums.
template <class P>
struct PromotionLoop {
  using Sums = float[1][P::width / 2];
  using Descriptors = sm90::OperandDescriptors<false>;

  static __device__ Descriptors own_a(unsigned stages_a) {
    return Descriptors(stages_a + P::group_m() * 64 * sm90::kRowBytes);
  }

  // Columns 128 * HALF and following of the k-tiles in stages `first` and, if `both`, `second`. wait(of_second) waits
  // for a k-tile, release(stage) releases it.
  template <int HALF, class Wait, class Release>
  static __device__ void half(Sums& d, float (&sums)[64], const Descriptors& a, const Descriptors& b, int first,
                              int second, bool both, const Wait& wait, const Release& release) {
    constexpr bool kIsLast = (HALF + 1) * 128 >= P::width;
    constexpr int kWidth = kIsLast ? P::width - HALF * 128 : 128;
    const auto multiply = [&](int stage, bool adds) {
      sm90::wgmma_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sm90::wgmma<typename P::Element, kWidth>(sums, a.at(stage * P::bytes_a, i),
                                                 b.at(stage * P::bytes_b + HALF * 128 * sm90::kRowBytes, i),
                                                 adds || i > 0);
      sm90::wgmma_commit_group();
    };
    if (HALF == 0) wait(false);
    multiply(first, false);
    if (both) {
      if (HALF == 0) wait(true);
      multiply(second, true);
      if (kIsLast) {
        sm90::wgmma_wait_group<1>();
        release(first);
      }
    }
    sm90::wgmma_wait_group<0>();
    sm90::warpgroup_fence_operand(sums);
    if (kIsLast) release(both ? second : first);
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) d[0][HALF * 64 + i] += sums[i];
    sm90::warpgroup_fence_operand(sums);  // all halves have the same accumulators
  }
  template <class Wait, class Release>
  static __device__ void pair(Sums& d, float (&sums)[64], const Descriptors& a, const Descriptors& b, int first,
                              int second, bool both, const Wait& wait, const Release& release) {
    half<0>(d, sums, a, b, first, second, both, wait, release);
    if constexpr (P::width > 128) half<1>(d, sums, a, b, first, second, both, wait, release);
  }

  template <int SLOTS, bool MAY_BE_EMPTY, class Storage, class Between>
  static __device__ void run(Sums& d, int k_tiles, const Storage& storage, sm90::WgmmaConsumer<>& consumer,
                             const Between& between) {
    const Descriptors a = own_a(storage.stages_a), b(storage.stages_b);
    const auto release = [&](int stage) { consumer.release(storage.pipeline.empty_barrier(stage)); };
    between(0);
#pragma unroll
    for (int i = 0; i < P::width / 2; ++i) d[0][i] = 0.0f;
    float sums[64];
    for (int s = 0; s < k_tiles; s += 2) {
      const bool both = s + 1 < k_tiles;
      const sm90::PipelineState first = consumer.state;
      consumer.state.next(P::stages);
      const sm90::PipelineState second = consumer.state;
      const auto wait = [&](bool of_second) { storage.pipeline.consumer_wait(of_second ? second : first); };
      pair(d, sums, a, b, first.index, second.index, both, wait, release);
      if (both) consumer.state.next(P::stages);
    }
  }
};

// The same for tiles whose k-tiles are a multiple of the stages, unrolled as sm90::RingLoop.
template <class P>
struct PromotionRingLoop : PromotionLoop<P> {
  using typename PromotionLoop<P>::Sums;
  using typename PromotionLoop<P>::Descriptors;

  template <int SLOTS, bool MAY_BE_EMPTY, class Storage, class Between>
  static __device__ void run(Sums& d, int k_tiles, const Storage& storage, sm90::WgmmaConsumer<>& consumer,
                             const Between& between) {
    static_assert(P::stages % 2 == 0, "pairs of k-tiles");
    const Descriptors a = PromotionLoop<P>::own_a(storage.stages_a), b(storage.stages_b);
    const sm90::RingRelease<P::cluster> release(storage.pipeline, consumer.release);
    between(0);
#pragma unroll
    for (int i = 0; i < P::width / 2; ++i) d[0][i] = 0.0f;
    float sums[64];
#pragma unroll 1
    for (int s = 0; s < k_tiles; s += P::stages) {
#pragma unroll
      for (int stage = 0; stage < P::stages; stage += 2) {
        const auto wait = [&](bool of_second) {
          storage.pipeline.consumer_wait({stage + of_second, consumer.state.phase});
        };
        PromotionLoop<P>::pair(d, sums, a, b, stage, stage + 1, true, wait, release);
      }
      consumer.state.phase ^= 1;
    }
  }
};

// Scales and rounds a tile to bfloat16, and stores it at its end.
template <class P, class Store, bool ROWWISE>
struct ScaledStore : sm90::Epilogue<P, Store> {
  using Base = sm90::Epilogue<P, Store>;
  using Base::at, Base::thread;
  const float *const scale_a, *const scale_b;  // one each, or (m,) and (n,) if ROWWISE
  const int m, n;
  float scale = 1.0f;  // the product of both scales, if not ROWWISE; loaded once

  __device__ ScaledStore(const sm90::GemmStorage<P>& storage, const Store& to, const float* scale_a,
                         const float* scale_b, int m, int n)
      : Base(storage, to), scale_a(scale_a), scale_b(scale_b), m(m), n(n) {
    if (ROWWISE || threadIdx.x < sm90::kWarpgroupThreads) return;
    scale = *scale_a * *scale_b;
    asm volatile("" : "+f"(scale));  // computed here
  }

  template <class Work>
  __device__ void begin(const Work& work, int row, int column, int matrix) {
    Base::begin(work, row, column, matrix);
    if (ROWWISE) prefetch_scales(scale_a, scale_b, ROWWISE, row, column, 64, P::width, m, n, thread);
  }
  // The scales of this thread's columns of a box, clamped at the edge.
  __device__ void load_column_scales(float2 (&scales)[8], int box_column) const {
#pragma unroll
    for (int pair = 0; pair < 8; ++pair) {
      const int column = at.column + box_column + pair * 8 + thread % 4 * 2;
      if (!ROWWISE)
        scales[pair] = make_float2(1.0f, 1.0f);
      else if (Store::by_tma)  // n is even
        scales[pair] = *reinterpret_cast<const float2*>(scale_b + min(column, n - 2));
      else
        scales[pair] = make_float2(scale_b[min(column, n - 1)], scale_b[min(column + 1, n - 1)]);
    }
  }
  template <class Sums, class Work>
  __device__ void finish(Sums& d, const Work&, int, sm90::WgmmaConsumer<>&) {
    constexpr int kLastBox = Work::Config::width - 64;                  // may overlap the box before
    const int first_row = at.row + thread / 32 * 16 + thread % 32 / 4;  // of the two rows of this thread
    const float row_scales[2] = {ROWWISE ? scale_a[min(first_row, m - 1)] : scale,
                                 ROWWISE ? scale_a[min(first_row + 8, m - 1)] : scale};
    float2 column_scales[2][8];  // loaded one subtile ahead
    load_column_scales(column_scales[0], 0);
    constexpr int kBoxes = P::boxes;  // written between two barriers, and sent together
    static_assert(P::subtiles % kBoxes == 0, "whole rounds");
#pragma unroll
    for (int first = 0; first < P::subtiles; first += kBoxes) {
      unsigned pairs[kBoxes][16];
#pragma unroll
      for (int subtile = first; subtile < first + kBoxes; ++subtile) {
        const int column = min(subtile * 64, kLastBox);
        if (subtile + 1 < P::subtiles)
          load_column_scales(column_scales[(subtile + 1) % 2], min(subtile * 64 + 64, kLastBox));
#pragma unroll
        for (int i = 0; i < 16; ++i) {  // two columns of the i / 2-th eight, row half i % 2
          const float* const pair = &d[0][column / 2 + 2 * i];
          const float2 scale2 = column_scales[subtile % 2][i / 2];
          pairs[subtile - first][i] = warpwise::pack(pair[0] * (row_scales[i % 2] * scale2.x),
                                                     pair[1] * (row_scales[i % 2] * scale2.y), __nv_bfloat16());
        }
      }
      if (Store::by_tma && thread == 0) sm90::tma_store_wait_read<0>();
      this->sync();
#pragma unroll
      for (int i = 0; i < kBoxes; ++i) this->to.write(this->staging + i * sm90::kBoxBytes, pairs[i], at);
      if (Store::by_tma) sm90::fence_proxy_async();
      this->sync();
#pragma unroll
      for (int i = 0; i < kBoxes; ++i)
        if (!Store::by_tma || thread == 0)
          this->to.send(this->staging + i * sm90::kBoxBytes, at, 0, min((first + i) * 64, kLastBox));
    }
  }
};

// C by tiles of `Tiles`, by PromotionRingLoop if WHOLE_RINGS.
template <class P, bool WHOLE_RINGS, class Storage, class Tiles, class Epilogue>
__device__ inline void multiply(const Storage& storage, const HintedMatrix& a, const HintedMatrix& b,
                                const Tiles& tiles, Epilogue epilogue) {
  if constexpr (WHOLE_RINGS)
    sm90::gemm<P, PromotionRingLoop>(storage, a, b, tiles, static_cast<Epilogue&&>(epilogue));
  else
    sm90::gemm<P, PromotionLoop>(storage, a, b, tiles, static_cast<Epilogue&&>(epilogue));
}

// a: (m, k), b: (n, k) and c: (m, n) are tensor maps with boxes of 128 x 128, COLUMNS / 2 x 128 and 64 x 64. Without
// BY_TMA the threads write to `rows` instead of c. scale_a, scale_b: see ScaledStore. pairs, columns, group: see
// TileScheduler. evict_first: the L2 policy of both operands. wide: see VariableNTiles. VARIABLE: tiles of
// VariableNTiles, 256 rows of C each. WHOLE_RINGS: k is a multiple of the 128 * STAGES of all stages, and not 0. Launch
// configuration: as for sm90::gemm with Fp8Config.
template <class A, class B, bool ROWWISE, bool BY_TMA, int COLUMNS, int STAGES, bool VARIABLE, bool WHOLE_RINGS>
__global__ void __launch_bounds__(384, 1) __cluster_dims__(2, 1, 1)
    scaled_matmul_two_k_tile_promotion(const __grid_constant__ sm90::TensorMap a,
                                       const __grid_constant__ sm90::TensorMap b,
                                       const __grid_constant__ sm90::TensorMap c, __nv_bfloat16* rows,
                                       const float* __restrict__ scale_a, const float* __restrict__ scale_b, int m,
                                       int n, int k, int pairs, int columns, int group, bool evict_first, int wide) {
  using P = Fp8Config<A, B, COLUMNS, STAGES>;
  using Narrow = Fp8Config<A, B, COLUMNS, STAGES, COLUMNS - 8>;
  extern __shared__ unsigned char raw[];
  if (threadIdx.x == 0) {
    sm90::prefetch_tensormap(&a);
    sm90::prefetch_tensormap(&b);
  }
  const sm90::GemmStorage<P> storage(raw);
  const int tiles_k = (k + P::tile_k - 1) / P::tile_k;
  const sm90::CachePolicy policy = l2_policy(evict_first);
  const HintedMatrix left{&a, policy}, right{&b, policy};
  auto store = sm90::store_to<BY_TMA, __nv_bfloat16>(c, {rows, m, n});
  const ScaledStore<P, decltype(store), ROWWISE> epilogue(storage, store, scale_a, scale_b, m, n);
  const sm90::TileScheduler order{pairs, columns, group};
  if constexpr (VARIABLE)
    multiply<P, WHOLE_RINGS>(storage, left, right, sm90::VariableNTiles<P, Narrow>{order, wide, tiles_k}, epilogue);
  else
    multiply<P, WHOLE_RINGS>(storage, left, right, sm90::PersistentTiles<P>{{order, tiles_k}}, epilogue);
}
