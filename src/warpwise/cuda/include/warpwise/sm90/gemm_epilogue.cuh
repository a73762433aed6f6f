// GEMM (gemm.cuh) with an epilogue: scale, bias, activation and the addition of another matrix. sm_90a only.
//
// As in `gemm`, a finished tile is stored during the main loop of the next one. The matrix to add is loaded by TMA,
// also during the main loop, into the registers that later hold the finished tile.
//
// Include cuda_bf16.h or cuda_fp16.h first.
#pragma once

#include <warpwise/core/activation.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/gemm.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace warpwise {
namespace sm90 {

// h = alpha * scale[row] * sum + gamma * bias[column], y = activate(h) + beta * added.
struct EpilogueParams {
  const void* bias;   // (n), 4-byte aligned, or null
  const void* scale;  // (m), or null
  float alpha, gamma, beta;
};

struct EpilogueMaps {  // a, b as in `gemm`; y, added, before (h): (m, n). All boxes are 64 x 64
  const TensorMap *a, *b, *y, *added, *before;
};

#ifdef __CUDA_BF16_TYPES_EXIST__
__device__ inline float2 unpack(unsigned pair, __nv_bfloat16) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}
#endif
#ifdef __CUDA_FP16_TYPES_EXIST__
__device__ inline float2 unpack(unsigned pair, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}
#endif

// Loads 64 x 64 from a box in shared memory to a warpgroup's registers; the inverse of `registers_to_shared`.
__device__ inline void shared_to_registers(unsigned box, unsigned (&pairs)[16]) {
  const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32, own_row = thread / 32 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int unit = j * 2 + lane / 16;
    unsigned r[4];
    ldmatrix_x4(r, box + own_row * 128 + ((unit ^ (own_row & 7)) << 4));
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[4 * j + i] = r[i];
  }
}

// The bias of the tile's columns and the scale of its rows, loaded from global memory and written to shared memory
// while wgmma runs.
template <class P>
struct EpilogueVectors {
  using T = typename P::Element;
  static constexpr unsigned bytes = P::width * 2 + 64 * 4;
  static_assert(P::width / 2 <= kWarpgroupThreads, "a thread loads a pair");
  unsigned at, pair = 0;  // shared memory
  float scale = 0.0f;
  int thread;

  __device__ void fetch(const EpilogueParams& params, int row, int column, int m, int n) {
    pair = 0;
    if (params.bias && thread < P::width / 2 && column + 2 * thread < n)  // n is even
      pair = static_cast<const unsigned*>(params.bias)[column / 2 + thread];
    scale = params.alpha;
    if (params.scale && thread < 64 && row + thread < m)
      scale *= to_float(static_cast<const T*>(params.scale)[row + thread]);
  }
  __device__ void store_to_shared() const {
    if (thread < P::width / 2) asm volatile("st.shared.b32 [%0], %1;" ::"r"(at + 4 * thread), "r"(pair) : "memory");
    if (thread < 64)
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(at + P::width * 2 + 4 * thread), "f"(scale) : "memory");
  }
  __device__ float row_scale(int half) const {
    float value;
    const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * half;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(at + P::width * 2 + 4 * row));
    return value;
  }
  __device__ float2 bias(int column_group) const {  // of this thread's two of the eight columns
    unsigned value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(at + column_group * 16 + thread % 4 * 4));
    return unpack(value, T());
  }
};

// activate() of two values. gelu_tanh uses one reciprocal for both: 1 / p = q / (p q), where p and q are
// 2^-60 (1 + e^(-2 u)) <= 2^63, so that p q is a normal number. The exponent is bounded, not the value, so that NaN
// does not spread to the other value; where the bound applies, below -10, the result is x 2^-123.
__device__ inline float scaled_divisor(float x) {
  return power_of_two(fminf(fmaf(-x, 2.3022082f + 0.10294324f * x * x, -60.0f), 63.0f)) + 0x1p-60f;
}
template <int ACTIVATION, class T>
__device__ inline void activate2(float& left, float& right) {
  if constexpr (ACTIVATION == kGeluTanh) {
    const float p = scaled_divisor(left), q = scaled_divisor(right), both = 0x1p-60f * reciprocal(p * q);
    left *= both * q;
    right *= both * p;
  } else {
    left = activate<ACTIVATION, T>(left);
    right = activate<ACTIVATION, T>(right);
  }
}

template <class P>
constexpr unsigned gemm_epilogue_shared = P::shared + P::groups * (EpilogueVectors<P>::bytes + P::boxes * 8);

// Launch configuration as for `gemm`, with gemm_epilogue_shared<P> bytes of dynamic shared memory. KEEP: h is stored
// too, at the end of the tile.
template <class P, int ACTIVATION, bool ADDED, bool KEEP>
__device__ inline void gemm_epilogue(const EpilogueMaps& maps, const EpilogueParams& params, int m, int n, int k,
                                     TileScheduler order) {
  using T = typename P::Element;
  static_assert(P::wgmmas == 1, "a warpgroup computes 64 rows");
  static_assert(gemm_epilogue_shared<P> <= P::max_shared, "an SM has 227 KiB for a block");
  extern __shared__ unsigned char raw[];
  const GemmStorage<P> storage(raw);
  const unsigned added_full = storage.end(), vectors = added_full + 8 * P::groups * P::boxes;
  const int rank = static_cast<int>(cluster_ctarank()), cluster_m = rank % P::cm, cluster_n = rank / P::cm;
  const int k_tiles = (k + kTileK - 1) / kTileK;
  const int first = blockIdx.x / P::cluster, step = gridDim.x / P::cluster;

  if (threadIdx.x == 0) {
    storage.init();
    for (int i = 0; i < P::groups * P::boxes; ++i) mbarrier_init(added_full + 8 * i, 1);
    fence_mbarrier_init();
  }
  cluster_sync();

  if (threadIdx.x < kWarpgroupThreads) {
    if constexpr (P::groups > 1) warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      Producer<P> producer(maps.a, maps.b, storage, cluster_m, cluster_n);
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
    const unsigned own_a = storage.stages_a + group_m * kBoxBytes,
                   own_b = storage.stages_b + group_n * (P::width / 64) * kBoxBytes;
    const unsigned own_boxes = storage.staging + group * P::boxes * kBoxBytes,
                   own_added_full = added_full + 8 * group * P::boxes;
    const bool releases = thread < P::cluster && (thread % P::cm == cluster_m || thread / P::cm == cluster_n);
    EpilogueVectors<P> vector{vectors + group * EpilogueVectors<P>::bytes};
    vector.thread = thread;
    WgmmaConsumer consumer(storage.pipeline, ClusterRelease{releases, thread});
    float d[P::width / 2];
    unsigned pending[P::subtiles][16];  // the matrix to add; then the finished tile, and its position
    int pending_row = 0, pending_column = 0, box = 0;
    unsigned added_phase = 0;
    bool has_pending = false;

    const auto k_tile = [&](int s) {
      consumer.k_tile(s, [&](int stage) {
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < kTileK / 16; ++i)
          wgmma<T, P::width, P::a_mn_major, P::b_mn_major>(
              d, operand_descriptor<P::a_mn_major>(own_a + stage * P::bytes_a, i),
              operand_descriptor<P::b_mn_major>(own_b + stage * P::bytes_b, i), s || i);
      });
    };
    const auto store = [&](const unsigned (&pairs)[16], const TensorMap* map, int row, int column) {
      if (thread == 0) tma_store_wait_read<P::boxes - 1>();
      named_barrier_sync(1 + group, kWarpgroupThreads);
      store_tile(own_boxes + box * kBoxBytes, pairs, group, map, row, column);
      if (P::boxes == 2) box ^= 1;
    };

    for (int tile = first; tile < order.tiles(); tile += step) {
      k_tile(0);
      int row = ((order.row(tile) * P::cm + cluster_m) * P::gm + group_m) * 64;
      int column = ((order.column(tile) * P::cn + cluster_n) * P::gn + group_n) * P::width;
      asm volatile("" : "+r"(row), "+r"(column));  // computed here, while wgmma runs
      vector.fetch(params, row, column, m, n);
      const auto load_added = [&](int subtile) {  // of the matrix to add
        const int box_index = subtile % P::boxes;
        if (thread == 0) {
          mbarrier_arrive_expect_tx(own_added_full + 8 * box_index, kBoxBytes);
          tma_load_2d(own_boxes + box_index * kBoxBytes, maps.added, own_added_full + 8 * box_index,
                      column + subtile * 64, row);
        }
      };
      // Between the first k-tiles the previous tile is stored; then each box to add arrives, two k-tiles after its
      // request.
      constexpr int kInterleavedSteps = ADDED ? 2 * P::subtiles + 2 : P::subtiles > 1 ? P::subtiles : 2;
#pragma unroll
      for (int slot = 0; slot < kInterleavedSteps; ++slot) {
        if (slot > 0 && slot < k_tiles) k_tile(slot);
        if (slot == 1) vector.store_to_shared();
        if (slot < P::subtiles && has_pending) store(pending[slot], maps.y, pending_row, pending_column + slot * 64);
        if (ADDED && slot == P::subtiles) {
          if (thread == 0) tma_store_wait_read<0>();
#pragma unroll
          for (int subtile = 0; subtile < P::boxes && subtile < P::subtiles; ++subtile) load_added(subtile);
        }
        if (ADDED && slot >= P::subtiles + 2) {
          const int subtile = slot - P::subtiles - 2, box_index = subtile % P::boxes;
          mbarrier_wait(own_added_full + 8 * box_index, (added_phase >> box_index) & 1);
          added_phase ^= 1 << box_index;
          shared_to_registers(own_boxes + box_index * kBoxBytes, pending[subtile]);
          fence_proxy_async();  // the next load must not overwrite the box before it is read
          named_barrier_sync(1 + group, kWarpgroupThreads);
          if (subtile + P::boxes < P::subtiles) load_added(subtile + P::boxes);
        }
      }
      if (!ADDED) named_barrier_sync(1 + group, kWarpgroupThreads);  // bias and scale are in shared memory
      for (int s = kInterleavedSteps; s < k_tiles; ++s) k_tile(s);
      wgmma_wait_group<0>();
      warpgroup_fence_operand(d);
      consumer.release(consumer.previous_empty);

      pending_row = row;
      pending_column = column;
      has_pending = tile + step < order.tiles();  // the last tile is stored at once
      const float scale[2] = {vector.row_scale(0), vector.row_scale(1)};
#pragma unroll
      for (int subtile = 0; subtile < P::subtiles; ++subtile) {
        unsigned h_pairs[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) {  // two columns of the i / 2-th eight, row half i % 2
          const float2 bias = vector.bias(subtile * 8 + i / 2);
          const float* const pair = &d[subtile * 32 + 2 * i];
          const float h[2] = {scale[i % 2] * pair[0] + params.gamma * bias.x,
                              scale[i % 2] * pair[1] + params.gamma * bias.y};
          if (KEEP) h_pairs[i] = rounded(h[0], h[1], T());
          float y[2] = {h[0], h[1]};
          activate2<ACTIVATION, T>(y[0], y[1]);
          if (ADDED) {
            const float2 added = unpack(pending[subtile][i], T());
            y[0] += params.beta * added.x;
            y[1] += params.beta * added.y;
          }
          pending[subtile][i] = rounded(y[0], y[1], T());
        }
        if (KEEP) store(h_pairs, maps.before, row, column + subtile * 64);
        if (!has_pending) store(pending[subtile], maps.y, row, column + subtile * 64);
      }
    }
    if (thread == 0) tma_store_wait_read<0>();  // the end of the kernel waits for the global writes
  }
  cluster_sync();  // a block must not exit while others may arrive at its barriers
}

}  // namespace sm90
}  // namespace warpwise
