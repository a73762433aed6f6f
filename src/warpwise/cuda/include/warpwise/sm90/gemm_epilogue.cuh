// GEMM (gemm.cuh) with an epilogue: scale, bias, activation and the addition of another matrix. sm_90a only.
//
// As in OverlappedStore, a finished tile is stored during the main loop of the next one. The matrix to add is loaded by
// TMA, also during the main loop, into the registers that later hold the finished tile.
#pragma once

#include <warpwise/core/activation.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/gemm_store.cuh>

namespace warpwise {
namespace sm90 {

// h = alpha * scale[row] * sum + gamma * bias[column], y = activate(h) + beta * added.
struct EpilogueParams {
  const void* bias;   // (n), 4-byte aligned, or null
  const void* scale;  // (m), or null
  float alpha, gamma, beta;
};

struct EpilogueMaps {  // y, added, before (h): (m, n), in boxes of 64 x 64
  const TensorMap *y, *added, *before;
};

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
  int thread = threadIdx.x % kWarpgroupThreads;

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
  __device__ float2 bias(int column_group) const {  // of the two columns, of eight, that this thread has
    unsigned value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(at + column_group * 16 + thread % 4 * 4));
    return unpack(value, T());
  }
};

// activate() of two values. gelu_tanh uses one reciprocal for both: 1 / p = q / (p q), where p and q are 2^-60 (1 +
// e^(-2 u)) <= 2^63, so that p q is a normal number. The bound applies to the exponent, not to the value, so a NaN does
// not propagate to the other value. Below -10, where the bound has an effect, the result is x 2^-123.
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

// The epilogue above. KEEP: h is stored too, at the end of the tile. A kernel needs `shared` bytes of dynamic shared
// memory.
template <class P, int ACTIVATION, bool ADDED, bool KEEP>
struct FusedEpilogue : OverlappedStore<P, BoxStore> {
  using Base = OverlappedStore<P, BoxStore>;
  using Base::at, Base::has_pending, Base::pending, Base::staging, Base::thread;
  // During the first k-tiles the previous tile is stored; then each box to add arrives, two k-tiles after its load
  // starts.
  static constexpr int slots = ADDED ? 2 * P::subtiles + 2 : P::subtiles > 1 ? P::subtiles : 2;
  static constexpr unsigned shared = P::shared + P::groups * (EpilogueVectors<P>::bytes + P::boxes * 8);
  static_assert(P::wgmmas == 1, "a warpgroup computes 64 rows");
  static_assert(shared <= P::max_shared, "an SM has 227 KiB for a block");
  using T = typename P::Element;
  const EpilogueMaps maps;
  const EpilogueParams params;
  const int m, n;
  const unsigned added_barriers, own_added_full;  // mbarriers: of the block, of this warpgroup
  EpilogueVectors<P> vector;
  unsigned added_phase = 0;  // `pending` has the matrix to add before it has the finished tile

  __device__ FusedEpilogue(const GemmStorage<P>& storage, const EpilogueMaps& maps, const EpilogueParams& params, int m,
                           int n)
      : Base(storage, {maps.y}),
        maps(maps),
        params(params),
        m(m),
        n(n),
        added_barriers(storage.end()),
        own_added_full(storage.end() + 8 * P::group() * P::boxes),
        vector{storage.end() + 8 * P::groups * P::boxes + P::group() * EpilogueVectors<P>::bytes} {}
  __device__ void init() const {
    for (int i = 0; i < P::groups * P::boxes; ++i) mbarrier_init(added_barriers + 8 * i, 1);
  }
  template <class Work>
  __device__ void begin(const Work& work, int row, int column, int matrix) {
    Base::begin(work, row, column, matrix);
    vector.fetch(params, at.row, at.column, m, n);
  }
  __device__ void step(int slot) {
    if (slot == 1) vector.store_to_shared();
    if (slot < P::subtiles) Base::step(slot);
    if (ADDED && slot == P::subtiles) {
      if (thread == 0) tma_store_wait_read<0>();
#pragma unroll
      for (int subtile = 0; subtile < P::boxes && subtile < P::subtiles; ++subtile) load_added(subtile);
    }
    if (ADDED && slot >= P::subtiles + 2) {
      const int subtile = slot - P::subtiles - 2, box_index = subtile % P::boxes;
      mbarrier_wait(own_added_full + 8 * box_index, (added_phase >> box_index) & 1);
      added_phase ^= 1 << box_index;
      shared_to_registers(staging + box_index * kBoxBytes, pending[subtile]);
      fence_proxy_async();  // the next load must not overwrite the box before it is read
      this->sync();
      if (subtile + P::boxes < P::subtiles) load_added(subtile + P::boxes);
    }
    if (!ADDED && slot == slots - 1) this->sync();  // bias and scale are in shared memory
  }
  __device__ void load_added(int subtile) const {  // of the matrix to add
    if (thread > 0) return;
    const int box_index = subtile % P::boxes;
    mbarrier_arrive_expect_tx(own_added_full + 8 * box_index, kBoxBytes);
    tma_load_2d(staging + box_index * kBoxBytes, maps.added, own_added_full + 8 * box_index, at.column + subtile * 64,
                at.row);
  }
  template <class Sums, class Work>
  __device__ void finish(Sums& d, const Work& work, int, WgmmaConsumer<>&) {
    warpgroup_fence_operand(d[0]);
    this->pending_at = at;
    has_pending = !work.is_last();  // the last tile is stored at once
    const float scale[2] = {vector.row_scale(0), vector.row_scale(1)};
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile) {
      unsigned h_pairs[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) {  // two columns of the i / 2-th eight, row half i % 2
        const float2 bias = vector.bias(subtile * 8 + i / 2);
        const float* const pair = &d[0][subtile * 32 + 2 * i];
        const float h[2] = {scale[i % 2] * pair[0] + params.gamma * bias.x,
                            scale[i % 2] * pair[1] + params.gamma * bias.y};
        if (KEEP) h_pairs[i] = pack(h[0], h[1], T());
        float y[2] = {h[0], h[1]};
        activate2<ACTIVATION, T>(y[0], y[1]);
        if (ADDED) {
          const float2 added = unpack(pending[subtile][i], T());
          y[0] += params.beta * added.x;
          y[1] += params.beta * added.y;
        }
        pending[subtile][i] = pack(y[0], y[1], T());
      }
      if (KEEP) this->store(h_pairs, BoxStore{maps.before}, at, 0, subtile * 64);
      if (!has_pending) this->store_pending(subtile);
    }
  }
  __device__ void drain() const {}
};

}  // namespace sm90
}  // namespace warpwise
