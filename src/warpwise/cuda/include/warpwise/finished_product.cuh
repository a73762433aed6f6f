// A matrix product on Hopper whose results are finished in registers before they leave: scaled, a bias added,
// activated, another matrix added.
//
// One warpgroup feeds boxes of 64 x 64 through the copy engine, two multiply 64 x 256 each, two blocks of a cluster
// share B. A finished tile waits, rounded, in 64 registers a thread and leaves box by box between the first slices of
// the next tile, so that nobody waits for room in shared memory. The second multiplying warpgroup stays LAG slices
// behind the first: while one finishes its tile, the matrix units have the other's slices left.
#pragma once

#include <warpwise/activation.cuh>
#include <warpwise/hopper.cuh>

namespace warpwise {
namespace finished {

constexpr int kCluster = 2, kRows = 128, kColumns = 256, kDepth = 64;
constexpr int kThreads = 384, kGroupThreads = 128;  // warpgroup 0 feeds, 1 and 2 take 64 rows each
constexpr int kParts = kColumns / 64;               // boxes of a warpgroup's tile
constexpr unsigned kBox = 64 * 64 * 2, kBytesA = 2 * kBox, kBytesB = 4 * kBox;

// What follows the product: h = alpha * scale[row] * sum + gamma * bias[column], y = activated(h) + beta * added.
struct Epilogue {
  const void* bias;   // (n) of T, on 4 bytes, or null
  const void* scale;  // (m) of T, or null
  float alpha, gamma, beta;
};

struct Maps {
  const hopper::TensorMap *a, *b, *y, *added, *before;
};

template <int STAGES>
struct Ring {  // a place in the ring of slices, and the parity of its phase
  int index = 0;
  unsigned phase = 0;
  __device__ void next() {
    if (++index == STAGES) {
      index = 0;
      phase ^= 1;
    }
  }
};

struct Tile {
  int row, column;  // in elements
};

// Tiles in groups of `group` pairs of rows, column by column inside: what is in flight shares L2.
__device__ inline Tile tile_of(int number, int pairs, int columns, int group, int rank) {
  const int per_group = group * columns, first = number / per_group * group, in_group = min(group, pairs - first);
  return {((first + number % per_group % in_group) * kCluster + rank) * kRows,
          number % per_group / in_group * kColumns};
}

__device__ inline unsigned packed(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ inline unsigned packed(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ inline float2 unpacked(unsigned pair, __nv_bfloat16) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}
__device__ inline float2 unpacked(unsigned pair, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

// What is added takes its place in shared memory before y does, and so does what is kept of h: a box for each part.
template <bool ADDED, bool KEEP>
struct Room {
  static constexpr int kStages = ADDED || KEEP ? 3 : 4, kBoxes = ADDED || KEEP ? kParts : 2;
  static constexpr unsigned kBytes =
      kStages * (kBytesA + kBytesB) + 2 * kBoxes * kBox + 2 * (kColumns * 2 + 64 * 4) + 8 * (2 * kStages + 2);
};

// A: (m, k), or across (k, m); B: (n, k), or across (k, n); y, added and before (h): (m, n), as maps with boxes of
// 64 x 64. Grid: a multiple of kCluster, at most one block an SM. Dynamic shared memory: 1 KiB to align + Room::kBytes.
template <class T, int ACTIVATION, bool A_ACROSS, bool B_ACROSS, bool ADDED, bool KEEP, int LAG>
__device__ inline void finished_product(const Maps& maps, const Epilogue& then, int m, int n, int k, int pairs,
                                        int columns, int group) {
  using Here = Room<ADDED, KEEP>;
  constexpr int kStages = Here::kStages, kBoxes = Here::kBoxes;
  extern __shared__ unsigned char raw[];
  const unsigned base = (hopper::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned tiles_a = base, tiles_b = tiles_a + kStages * kBytesA, boxes = tiles_b + kStages * kBytesB;
  const unsigned biases = boxes + 2 * kBoxes * kBox;
  const unsigned scales = biases + 2 * kColumns * 2, full = scales + 2 * 64 * 4, empty = full + 8 * kStages,
                 arrived = empty + 8 * kStages;
  const int rank = static_cast<int>(hopper::cluster_rank()), slices = (k + kDepth - 1) / kDepth;
  const int first = blockIdx.x / kCluster, step = gridDim.x / kCluster, tiles = pairs * columns;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      hopper::barrier_init(full + 8 * s, 1);
      hopper::barrier_init(empty + 8 * s, 2 * kCluster);  // both multiplying warpgroups of both blocks
    }
    for (int own = 0; own < 2; ++own) hopper::barrier_init(arrived + 8 * own, 1);
    hopper::barrier_init_fence();
  }
  hopper::cluster_sync();

  if (threadIdx.x < kGroupThreads) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) {
      Ring<kStages> ring{0, 1};  // every place is free at first
      for (int number = first; number < tiles; number += step) {
        const Tile tile = tile_of(number, pairs, columns, group, rank);
        for (int s = 0; s < slices; ++s, ring.next()) {
          const unsigned here = full + 8 * ring.index;
          hopper::barrier_wait(empty + 8 * ring.index, ring.phase);
          hopper::barrier_expect(here, kBytesA + kBytesB);
          for (int i = 0; i < 2; ++i) {
            const int row = tile.row + i * 64;
            hopper::load_box(tiles_a + ring.index * kBytesA + i * kBox, maps.a, here, A_ACROSS ? row : s * kDepth,
                             A_ACROSS ? s * kDepth : row);
          }
          for (int i = rank * 2; i < rank * 2 + 2; ++i) {
            const int column = tile.column + i * 64;
            hopper::load_box_multicast(tiles_b + ring.index * kBytesB + i * kBox, maps.b, here,
                                       B_ACROSS ? column : s * kDepth, B_ACROSS ? s * kDepth : column, 3);
          }
        }
      }
    }
  } else {
    hopper::take_registers<232>();
    const int own = threadIdx.x / kGroupThreads - 1, thread = threadIdx.x % kGroupThreads, lane = thread % 32;
    const unsigned own_boxes = boxes + own * kBoxes * kBox, own_bias = biases + own * kColumns * 2,
                   own_scale = scales + own * 64 * 4;
    const int own_row = thread / 32 * 16 + lane / 4;  // of this lane's sums, and 8 further down
    // 16 bytes of a row are a unit; units change places within their 128 bytes by the row's number.
    const unsigned unit_row = (thread / 32 * 16 + lane % 16) * 128;
    Ring<kStages> ring;
    float d[kColumns / 2];
    unsigned waiting[kParts][16];  // the last tile, finished
    unsigned before = 0, added_phase = 0;

    const auto place = [&](int box, int j) {
      return own_boxes + box * kBox + unit_row + (((j * 2 + lane / 16) ^ (lane & 7)) << 4);
    };
    const auto multiply = [&](int number, int s) {
      hopper::barrier_wait(full + 8 * ring.index, ring.phase);
      hopper::products_begin();
#pragma unroll
      for (int i = 0; i < kDepth / 16; ++i) {
        const unsigned from_a = tiles_a + ring.index * kBytesA + own * kBox + i * (A_ACROSS ? 2048 : 32);
        const unsigned from_b = tiles_b + ring.index * kBytesB + i * (B_ACROSS ? 2048 : 32);
        hopper::product<T, kColumns, A_ACROSS, B_ACROSS>(d, hopper::matrix(from_a, kBox, 1024),
                                                         hopper::matrix(from_b, kBox, 1024), s || i);
      }
      hopper::products_commit();
      hopper::products_wait<1>();
      if (LAG && own == 0 && number == first && s + 1 == min(LAG, slices))  // the second warpgroup may begin
        asm volatile("bar.arrive 3, %0;" ::"n"(2 * kGroupThreads) : "memory");
      if (s > 0 && thread < kCluster) hopper::barrier_arrive(before, thread);
      before = empty + 8 * ring.index;
      ring.next();
    };
    const auto leave = [&](int number, int part) {
      const int box = part % kBoxes;
      if (thread == 0) hopper::stores_have_read<kBoxes - 1>();
      hopper::named_barrier(1 + own, kGroupThreads);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const unsigned r[4] = {waiting[part][4 * j], waiting[part][4 * j + 1], waiting[part][4 * j + 2],
                               waiting[part][4 * j + 3]};
        hopper::store_matrices(place(box, j), r);
      }
      hopper::async_proxy_fence();
      hopper::named_barrier(1 + own, kGroupThreads);
      if (thread == 0) {
        const Tile tile = tile_of(number, pairs, columns, group, rank);
        hopper::store_box(maps.y, own_boxes + box * kBox, tile.column + part * 64, tile.row + own * 64);
      }
    };

    if (LAG && own == 1 && first < tiles) hopper::named_barrier(3, 2 * kGroupThreads);
    for (int number = first; number < tiles; number += step) {
      int s = 0;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (s < slices) multiply(number, s++);
        if (number > first) leave(number - step, part);
      }
      const Tile tile = tile_of(number, pairs, columns, group, rank);
      // Under the products: what the end of the tile needs.
      if (ADDED && thread == 0) {
        hopper::stores_have_read<0>();
        hopper::barrier_expect(arrived + 8 * own, kParts * kBox);
        for (int part = 0; part < kParts; ++part)
          hopper::load_box(own_boxes + part * kBox, maps.added, arrived + 8 * own, tile.column + part * 64,
                           tile.row + own * 64);
      }
      unsigned pair = 0;
      if (then.bias && tile.column + 2 * thread < n)  // n is a multiple of 8
        pair = static_cast<const unsigned*>(then.bias)[tile.column / 2 + thread];
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(own_bias + 4 * thread), "r"(pair) : "memory");
      if (thread < 64) {
        const int row = tile.row + own * 64 + thread;
        const float scale = then.scale && row < m ? to_float(static_cast<const T*>(then.scale)[row]) : 1.0f;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(own_scale + 4 * thread), "f"(scale * then.alpha) : "memory");
      }
      for (; s < slices; ++s) multiply(number, s);
      hopper::products_wait<0>();
      hopper::settled(d);
      if (thread < kCluster) hopper::barrier_arrive(before, thread);

      if (ADDED) {
        hopper::barrier_wait(arrived + 8 * own, added_phase);
        added_phase ^= 1;
      } else if (KEEP && thread == 0) {
        hopper::stores_have_read<0>();
      }
      hopper::named_barrier(1 + own, kGroupThreads);  // bias and scale are there, and the boxes are free
      float scale[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(scale[half]) : "r"(own_scale + 4 * (own_row + 8 * half)));
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // 16 columns: pairs of the first eight in two rows, then of the others
          unsigned held[4], added[4], biases_of[2];
#pragma unroll
          for (int side = 0; side < 2; ++side) {
            const int column = part * 64 + j * 16 + side * 8 + lane % 4 * 2;
            asm volatile("ld.shared.b32 %0, [%1];" : "=r"(biases_of[side]) : "r"(own_bias + 2 * column));
          }
          if (ADDED) hopper::load_matrices(place(part, j), added);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int at = part * 32 + j * 8 + 2 * e;
            const float2 bias = unpacked(biases_of[e / 2], T());
            const float h[2] = {scale[e % 2] * d[at] + then.gamma * bias.x,
                                scale[e % 2] * d[at + 1] + then.gamma * bias.y};
            if (KEEP) held[e] = packed(h[0], h[1], T());
            float y[2] = {activated<ACTIVATION, T>(h[0]), activated<ACTIVATION, T>(h[1])};
            if (ADDED) {
              const float2 other = unpacked(added[e], T());
              y[0] += then.beta * other.x;
              y[1] += then.beta * other.y;
            }
            waiting[part][4 * j + e] = packed(y[0], y[1], T());
          }
          if (KEEP) hopper::store_matrices(place(part, j), held);
        }
        if (KEEP) {
          hopper::async_proxy_fence();
          hopper::named_barrier(1 + own, kGroupThreads);
          if (thread == 0)
            hopper::store_box(maps.before, own_boxes + part * kBox, tile.column + part * 64, tile.row + own * 64);
        }
      }
    }
    if (first < tiles) {
      const int last = first + (tiles - 1 - first) / step * step;
#pragma unroll
      for (int part = 0; part < kParts; ++part) leave(last, part);
    }
    if (thread == 0) hopper::stores_are_done();
  }
  hopper::cluster_sync();  // nobody leaves while the other block may still arrive at its barriers
}

}  // namespace finished
}  // namespace warpwise
