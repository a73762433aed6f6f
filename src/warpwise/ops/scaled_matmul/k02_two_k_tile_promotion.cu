// fp8 wgmma with float32 sums: one consumer warpgroup multiplies while the other one adds.
//
// wgmma accumulates fp8 products with 13 bits after the binary point, so a long sum must not stay in its accumulators:
// they are added to sums in other registers. The 128 x 256 sums take half of the register file, which leaves a quarter
// for accumulators. A warpgroup therefore multiplies one half of its 64 x 256 tile, waits, and adds, 64 additions per
// thread, which overlap with the wgmma of the other warpgroup.
//
// Between the last wgmma of a warpgroup and its next one are the wait, the additions and the barrier of the next
// k-tile. They take about 300 clocks, while the half tile of the other warpgroup takes only 256 with one k-tile, and
// 512 with two. Two k-tiles, 256 products, are therefore accumulated in wgmma; the truncation error of a partial sum
// grows by 2^0.7.

#include <cuda_fp8.h>

#include <warpwise/sm90/gemm_store.cuh>

#include "policies.cuh"

// A tile of 128 x COLUMNS, k-tiles of 128; the two blocks of a cluster compute vertically adjacent tiles and share B.
template <class A, class B, int COLUMNS, int STAGES>
using Fp8Config = sm90::GemmConfig<sm90::Pair<A, B>, 128, COLUMNS, 2, 1, STAGES, 2, 1, false, false, 128, COLUMNS / 2>;

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

// The main loop: wgmma sums two k-tiles of 64 x 128 elements of C, which are then added to the float32 sums.
template <class P>
struct PromotionLoop {
  using Sums = float[1][P::width / 2];

  template <int SLOTS, bool MAY_BE_EMPTY, class Storage, class Between>
  static __device__ void run(Sums& d, int k_tiles, const Storage& storage, sm90::WgmmaConsumer<>& consumer,
                             const Between& between) {
    const sm90::Pipeline& pipeline = storage.pipeline;
    const sm90::OperandDescriptors<false> a(storage.stages_a + P::group_m() * 64 * sm90::kRowBytes),
        b(storage.stages_b);
    const auto multiply = [&](float (&sums)[64], int stage, int half, bool adds) {
      sm90::wgmma_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sm90::wgmma<typename P::Element, 128>(sums, a.at(stage * P::bytes_a, i),
                                              b.at(stage * P::bytes_b + half * 128 * sm90::kRowBytes, i),
                                              adds || i > 0);
      sm90::wgmma_commit_group();
    };
    between(0);
#pragma unroll
    for (int i = 0; i < P::width / 2; ++i) d[0][i] = 0.0f;
    for (int s = 0; s < k_tiles; s += 2) {
      const bool both = s + 1 < k_tiles;
      const sm90::PipelineState first = consumer.state;
      consumer.state.next(P::stages);
      const sm90::PipelineState second = consumer.state;
      pipeline.consumer_wait(first);
#pragma unroll
      for (int half = 0; half < P::width / 128; ++half) {
        const bool is_last = half == P::width / 128 - 1;
        float sums[64];
        multiply(sums, first.index, half, false);
        if (both) {
          if (half == 0) pipeline.consumer_wait(second);
          multiply(sums, second.index, half, true);
          if (is_last) {
            sm90::wgmma_wait_group<1>();
            consumer.release(pipeline.empty_barrier(first.index));
          }
        }
        sm90::wgmma_wait_group<0>();
        sm90::warpgroup_fence_operand(sums);
        if (is_last) consumer.release(pipeline.empty_barrier((both ? second : first).index));
#pragma unroll
        for (int i = 0; i < 64; ++i) d[0][half * 64 + i] += sums[i];
      }
      if (both) consumer.state.next(P::stages);
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

  __device__ ScaledStore(const sm90::GemmStorage<P>& storage, const Store& to, const float* scale_a,
                         const float* scale_b, int m, int n)
      : Base(storage, to), scale_a(scale_a), scale_b(scale_b), m(m), n(n) {}

  template <class Work>
  __device__ void begin(const Work& work, int row, int column, int matrix) {
    Base::begin(work, row, column, matrix);
    prefetch_scales(scale_a, scale_b, ROWWISE, row, column, 64, P::width, m, n, thread);
  }
  // The scales of this thread's columns of a subtile, clamped at the edge.
  __device__ void load_column_scales(float2 (&scales)[8], int subtile) const {
#pragma unroll
    for (int pair = 0; pair < 8; ++pair) {
      const int column = at.column + subtile * 64 + pair * 8 + thread % 4 * 2;
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
    const int first_row = at.row + thread / 32 * 16 + thread % 32 / 4;  // of the two rows of this thread
    const float scale = ROWWISE ? 1.0f : *scale_a * *scale_b;
    const float row_scales[2] = {ROWWISE ? scale_a[min(first_row, m - 1)] : scale,
                                 ROWWISE ? scale_a[min(first_row + 8, m - 1)] : scale};
    float2 column_scales[2][8];  // loaded one subtile ahead
    load_column_scales(column_scales[0], 0);
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile) {
      if (subtile + 1 < P::subtiles) load_column_scales(column_scales[(subtile + 1) % 2], subtile + 1);
      unsigned pairs[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) {  // two columns of the i / 2-th eight, row half i % 2
        const float* const pair = &d[0][subtile * 32 + 2 * i];
        const float2 scale2 = column_scales[subtile % 2][i / 2];
        pairs[i] = warpwise::pack(pair[0] * (row_scales[i % 2] * scale2.x), pair[1] * (row_scales[i % 2] * scale2.y),
                                  __nv_bfloat16());
      }
      this->store(pairs, this->to, at, 0, subtile * 64);
    }
  }
};

// a: (m, k), tensor map with boxes of 128 x 128; b: (n, k), of COLUMNS / 2 x 128; c: (m, n), of 64 x 64, or if not
// BY_TMA `rows`. Scales: of ScaledStore. pairs, columns, group: of TileScheduler; hints: policies.cuh. Launch
// configuration: as for sm90::gemm with Fp8Config.
template <class A, class B, bool ROWWISE, bool BY_TMA, int COLUMNS, int STAGES>
__global__ void __launch_bounds__(384, 1) __cluster_dims__(2, 1, 1)
    scaled_matmul_two_k_tile_promotion(const __grid_constant__ sm90::TensorMap a,
                                       const __grid_constant__ sm90::TensorMap b,
                                       const __grid_constant__ sm90::TensorMap c, __nv_bfloat16* rows,
                                       const float* __restrict__ scale_a, const float* __restrict__ scale_b, int m,
                                       int n, int k, int pairs, int columns, int group, int hints) {
  using P = Fp8Config<A, B, COLUMNS, STAGES>;
  extern __shared__ unsigned char raw[];
  if (threadIdx.x == 0) {
    sm90::prefetch_tensormap(&a);
    sm90::prefetch_tensormap(&b);
  }
  const sm90::GemmStorage<P> storage(raw);
  auto store = sm90::store_to<BY_TMA, __nv_bfloat16>(c, {rows, m, n});
  sm90::gemm<P, PromotionLoop>(storage, HintedMatrix{&a, policy_for(hints / 4)},
                               HintedMatrix{&b, policy_for(hints % 4)},
                               sm90::PersistentTiles<P>{{{pairs, columns, group}, (k + P::tile_k - 1) / P::tile_k}},
                               ScaledStore<P, decltype(store), ROWWISE>(storage, store, scale_a, scale_b, m, n));
}
