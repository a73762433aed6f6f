// A product by Hopper's warpgroups (`warpgroups.cuh`) whose sums are finished before they leave: scaled, a bias added,
// activated, another matrix added. sm_90a only.
//
// The finished tile leaves under the products of the next one, as `multiply` has it. What is added comes by the copy
// engine, under products too, and waits in the registers that the finished tile will leave from.
//
// Include cuda_bf16.h or cuda_fp16.h first.
#pragma once

#include <warpwise/activation.cuh>
#include <warpwise/warpgroups.cuh>

namespace warpwise {
namespace hopper {

// h = alpha * scale[row] * sum + gamma * bias[column], y = activated(h) + beta * added.
struct Finish {
  const void* bias;   // (n), on 4 bytes, or null
  const void* scale;  // (m), or null
  float alpha, gamma, beta;
};

struct FinishMaps {  // a, b as `multiply` has them; y, added, before (h): (m, n); all with boxes of 64 x 64
  const TensorMap *a, *b, *y, *added, *before;
};

#ifdef __CUDA_BF16_TYPES_EXIST__
__device__ inline float2 unpacked(unsigned pair, __nv_bfloat16) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}
#endif
#ifdef __CUDA_FP16_TYPES_EXIST__
__device__ inline float2 unpacked(unsigned pair, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}
#endif

// The reverse of `write_box`: 64 x 64 from a box of shared memory to a warpgroup's registers.
__device__ inline void read_box(unsigned box, unsigned (&pairs)[16]) {
  const int thread = threadIdx.x % kGroupThreads, lane = thread % 32, own_row = thread / 32 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int unit = j * 2 + lane / 16;
    unsigned r[4];
    load_matrices(box + own_row * 128 + ((unit ^ (own_row & 7)) << 4), r);
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[4 * j + i] = r[i];
  }
}

// What a warpgroup's tile needs at its end: a bias for its columns and a factor for its rows, read from global memory
// and put into shared memory under the products.
template <class P>
struct Vectors {
  using T = typename P::Element;
  static constexpr unsigned bytes = P::width * 2 + 64 * 4;
  static_assert(P::width / 2 <= kGroupThreads, "a thread brings a pair");
  unsigned at, pair = 0;  // shared memory
  float factor = 0.0f;
  int thread;

  __device__ void fetch(const Finish& then, int row, int column, int m, int n) {
    pair = 0;
    if (then.bias && thread < P::width / 2 && column + 2 * thread < n)  // n is even
      pair = static_cast<const unsigned*>(then.bias)[column / 2 + thread];
    factor = then.alpha;
    if (then.scale && thread < 64 && row + thread < m)
      factor *= to_float(static_cast<const T*>(then.scale)[row + thread]);
  }
  __device__ void put() const {
    if (thread < P::width / 2) asm volatile("st.shared.b32 [%0], %1;" ::"r"(at + 4 * thread), "r"(pair) : "memory");
    if (thread < 64)
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(at + P::width * 2 + 4 * thread), "f"(factor) : "memory");
  }
  __device__ float row_factor(int half) const {
    float value;
    const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * half;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(at + P::width * 2 + 4 * row));
    return value;
  }
  __device__ float2 bias(int eighth) const {  // of this thread's two columns among eight
    unsigned value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(at + eighth * 16 + thread % 4 * 4));
    return unpacked(value, T());
  }
};

// activated(), of two values. gelu_tanh takes one reciprocal for both, as 1 / p = q / (p q); p and q are
// 2^-60 (1 + e^(-2 u)), of 2^63 at most, so that p q is a normal number. The power and not the value is bounded, which
// keeps NaN to itself; where the bound shows, below -10, the result is x 2^-123.
__device__ inline float scaled_divisor(float x) {
  return power_of_two(fminf(fmaf(-x, 2.3022082f + 0.10294324f * x * x, -60.0f), 63.0f)) + 0x1p-60f;
}
template <int ACTIVATION, class T>
__device__ inline void activate_two(float& left, float& right) {
  if constexpr (ACTIVATION == kGeluTanh) {
    const float p = scaled_divisor(left), q = scaled_divisor(right), both = 0x1p-60f * reciprocal(p * q);
    left *= both * q;
    right *= both * p;
  } else {
    left = activated<ACTIVATION, T>(left);
    right = activated<ACTIVATION, T>(right);
  }
}

template <class P>
constexpr unsigned finish_shared = P::shared + P::groups * (Vectors<P>::bytes + P::boxes * 8);

// As `multiply`: the kernel has P::threads threads, one block an SM, clusters of P::cluster blocks, finish_shared<P>
// bytes of dynamic shared memory; a grid of any number of clusters. KEEP: h leaves too, at once.
template <class P, int ACTIVATION, bool ADDED, bool KEEP>
__device__ inline void finished_product(const FinishMaps& maps, const Finish& then, int m, int n, int k,
                                        TileOrder order) {
  using T = typename P::Element;
  static_assert(P::products == 1, "a warpgroup has 64 rows");
  static_assert(finish_shared<P> <= P::room, "an SM has 227 KiB for a block");
  extern __shared__ unsigned char raw[];
  const unsigned base = (shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned slices_a = base, slices_b = slices_a + P::stages * P::bytes_a;
  const unsigned leaving = slices_b + P::stages * P::bytes_b;
  const unsigned full = leaving + P::groups * P::boxes * kBox, empty = full + 8 * P::stages;  // barriers: arrived, read
  const unsigned arrived = empty + 8 * P::stages, vectors = arrived + 8 * P::groups * P::boxes;
  const int rank = static_cast<int>(cluster_rank()), place_m = rank % P::cm, place_n = rank / P::cm;
  const int slices = (k + kSlice - 1) / kSlice;
  const int first = blockIdx.x / P::cluster, step = gridDim.x / P::cluster;

  if (threadIdx.x == 0) {
    for (int s = 0; s < P::stages; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, P::groups * (P::cm + P::cn - 1));  // by all readers of what this block loads
    }
    for (int i = 0; i < P::groups * P::boxes; ++i) barrier_init(arrived + 8 * i, 1);
    barrier_init_fence();
  }
  cluster_sync();

  if (threadIdx.x < kGroupThreads) {
    if constexpr (P::groups > 1) give_registers<40>();
    if (threadIdx.x == 0) {
      Feeder<P> feeder(maps.a, maps.b, slices_a, slices_b, full, empty, place_m, place_n);
      for (int number = first; number < order.tiles(); number += step) {
        const int row = (order.row(number) * P::cm + place_m) * P::bm;
        const int column = (order.column(number) * P::cn + place_n) * P::bn;
        for (int s = 0; s < slices; ++s) feeder.load(row, column, s);
      }
    }
  } else {
    if constexpr (P::groups > 1) take_registers<232>();
    const int group = threadIdx.x / kGroupThreads - 1, group_m = group % P::gm, group_n = group / P::gm;
    const int thread = threadIdx.x % kGroupThreads;
    const unsigned own_a = slices_a + group_m * kBox, own_b = slices_b + group_n * (P::width / 64) * kBox;
    const unsigned own_boxes = leaving + group * P::boxes * kBox, own_arrived = arrived + 8 * group * P::boxes;
    const bool releases = thread < P::cluster && (thread % P::cm == place_m || thread / P::cm == place_n);
    Vectors<P> vector{vectors + group * Vectors<P>::bytes};
    vector.thread = thread;
    Place<P::stages> at;
    unsigned before = 0;  // the barrier of the slice whose products may still run
    float d[P::width / 2];
    unsigned kept[P::parts][16];  // what is added; then the last tile, finished, and where it belongs
    int kept_row = 0, kept_column = 0, box = 0;
    unsigned added_phase = 0;
    bool keeps = false;

    const auto slice = [&](int s) {
      barrier_wait(full + 8 * at.stage, at.phase);
      products_begin();
#pragma unroll
      for (int i = 0; i < kSlice / 16; ++i)
        product<T, P::width, P::a_across, P::b_across>(d, operand<P::a_across>(own_a + at.stage * P::bytes_a, i),
                                                       operand<P::b_across>(own_b + at.stage * P::bytes_b, i), s || i);
      products_commit();
      products_wait<1>();
      if (s > 0 && releases) barrier_arrive(before, thread);
      before = empty + 8 * at.stage;
      at.next();
    };
    const auto leave = [&](const unsigned (&pairs)[16], const TensorMap* map, int row, int column) {
      if (thread == 0) stores_have_read<P::boxes - 1>();
      named_barrier(1 + group, kGroupThreads);
      write_box(own_boxes + box * kBox, pairs, group, map, row, column);
      if (P::boxes == 2) box ^= 1;
    };

    for (int number = first; number < order.tiles(); number += step) {
      slice(0);
      int row = ((order.row(number) * P::cm + place_m) * P::gm + group_m) * 64;
      int column = ((order.column(number) * P::cn + place_n) * P::gn + group_n) * P::width;
      asm volatile("" : "+r"(row), "+r"(column));  // known here, under the products, and not when the tile ends
      vector.fetch(then, row, column, m, n);
      const auto request = [&](int part) {  // of what is added
        const int slot = part % P::boxes;
        if (thread == 0) {
          barrier_expect(own_arrived + 8 * slot, kBox);
          load_box(own_boxes + slot * kBox, maps.added, own_arrived + 8 * slot, column + part * 64, row);
        }
      };
      // Between the first slices the last tile leaves; then, two slices after it was asked for, each part arrives.
      constexpr int kChores = ADDED ? 2 * P::parts + 2 : P::parts > 1 ? P::parts : 2;
#pragma unroll
      for (int chore = 0; chore < kChores; ++chore) {
        if (chore > 0 && chore < slices) slice(chore);
        if (chore == 1) vector.put();
        if (chore < P::parts && keeps) leave(kept[chore], maps.y, kept_row, kept_column + chore * 64);
        if (ADDED && chore == P::parts) {
          if (thread == 0) stores_have_read<0>();
#pragma unroll
          for (int part = 0; part < P::boxes && part < P::parts; ++part) request(part);
        }
        if (ADDED && chore >= P::parts + 2) {
          const int part = chore - P::parts - 2, slot = part % P::boxes;
          barrier_wait(own_arrived + 8 * slot, (added_phase >> slot) & 1);
          added_phase ^= 1 << slot;
          read_box(own_boxes + slot * kBox, kept[part]);
          async_proxy_fence();  // what is still being read must not be overwritten by what comes next
          named_barrier(1 + group, kGroupThreads);
          if (part + P::boxes < P::parts) request(part + P::boxes);
        }
      }
      if (!ADDED) named_barrier(1 + group, kGroupThreads);  // bias and factors are there
      for (int s = kChores; s < slices; ++s) slice(s);
      products_wait<0>();
      settled(d);
      if (releases) barrier_arrive(before, thread);

      kept_row = row;
      kept_column = column;
      keeps = number + step < order.tiles();  // the last tile leaves as it is finished
      const float factor[2] = {vector.row_factor(0), vector.row_factor(1)};
#pragma unroll
      for (int part = 0; part < P::parts; ++part) {
        unsigned held[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) {  // two columns: i / 2 of eight times eight, in rows i % 2 of two
          const float2 bias = vector.bias(part * 8 + i / 2);
          const float* const pair = &d[part * 32 + 2 * i];
          const float h[2] = {factor[i % 2] * pair[0] + then.gamma * bias.x,
                              factor[i % 2] * pair[1] + then.gamma * bias.y};
          if (KEEP) held[i] = rounded(h[0], h[1], T());
          float y[2] = {h[0], h[1]};
          activate_two<ACTIVATION, T>(y[0], y[1]);
          if (ADDED) {
            const float2 other = unpacked(kept[part][i], T());
            y[0] += then.beta * other.x;
            y[1] += then.beta * other.y;
          }
          kept[part][i] = rounded(y[0], y[1], T());
        }
        if (KEEP) leave(held, maps.before, row, column + part * 64);
        if (!keeps) leave(kept[part], maps.y, row, column + part * 64);
      }
    }
    if (thread == 0) stores_have_read<0>();  // the kernel's end waits for the rest
  }
  cluster_sync();  // nobody leaves while another block may still arrive at its barriers
}

}  // namespace hopper
}  // namespace warpwise
