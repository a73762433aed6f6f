// Hopper's own fp8 products, with float32 sums: two warpgroups multiply in turn and add while the other multiplies.
//
// The matrix units keep 13 bits after the point of what they sum, so that a sum may not stay in them: after every slice
// of 128 products the part that they made is added to sums in ordinary registers. 128 x 256 such sums take half of the
// register file; for the parts a quarter is left. A warpgroup therefore multiplies one half of its 64 x 256 tile, waits
// and adds, 64 additions a thread, which take a quarter of the time that the other warpgroup's products take.
//
// As for 2-byte types, one warpgroup feeds slices through the copy engine, two blocks of a cluster take tiles below
// each other and share what they load of B, and a block goes from tile to tile.

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <warpwise/hopper.cuh>

namespace hopper = warpwise::hopper;

constexpr int kCluster = 2, kStages = 4, kRows = 128, kColumns = 256, kDepth = 128;
constexpr int kThreads = 384, kGroupThreads = 128;  // warpgroup 0 feeds, 1 and 2 take 64 rows each
constexpr unsigned kBox = 128 * 128;                // bytes of 128 rows, 128 deep
constexpr unsigned kBytesA = kBox, kBytesB = 2 * kBox, kBytesC = 64 * 64 * 2;

struct Tile {
  int row, column;  // in tiles
};

// Tiles in groups of `group` pairs of rows, column by column inside: what is in flight shares L2.
__device__ inline Tile tile_of(int number, int pairs, int columns, int group, int rank) {
  const int per_group = group * columns, first = number / per_group * group, in_group = min(group, pairs - first);
  return {(first + number % per_group % in_group) * kCluster + rank, number % per_group / in_group};
}

struct Stage {  // of the ring of slices, and the parity of its phase
  int index = 0;
  unsigned phase = 0;
  __device__ void next() {
    if (++index == kStages) {
      index = 0;
      phase ^= 1;
    }
  }
};

__device__ inline unsigned pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

// a: (m, k), b: (n, k), as maps with boxes of 128 x 128; c: (m, n), of 64 x 64. Scales: one each, or (m,) and (n,) with
// BY_ROW. Grid: a multiple of kCluster, at most one block an SM. Dynamic shared memory: 1 KiB to align + kStages *
// (kBytesA + kBytesB) + 4 * kBytesC + 16 * kStages bytes.
template <class A, class B, bool BY_ROW>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    scaled_matmul_warpgroups(const __grid_constant__ hopper::TensorMap a, const __grid_constant__ hopper::TensorMap b,
                             const __grid_constant__ hopper::TensorMap c, const float* __restrict__ scale_a,
                             const float* __restrict__ scale_b, int m, int n, int k, int pairs, int columns,
                             int group) {
  extern __shared__ unsigned char raw[];
  const unsigned base = (hopper::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned tiles_a = base, tiles_b = tiles_a + kStages * kBytesA, tiles_c = tiles_b + kStages * kBytesB;
  const unsigned full = tiles_c + 4 * kBytesC, empty = full + 8 * kStages;  // barriers: slices arrived, places free
  const int rank = static_cast<int>(hopper::cluster_rank()), slices = (k + kDepth - 1) / kDepth;
  const int first = blockIdx.x / kCluster, step = gridDim.x / kCluster, tiles = pairs * columns;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      hopper::barrier_init(full + 8 * s, 1);
      hopper::barrier_init(empty + 8 * s, 2 * kCluster);  // both multiplying warpgroups of both blocks
    }
    hopper::barrier_init_fence();
  }
  hopper::cluster_sync();

  if (threadIdx.x < kGroupThreads) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) {
      Stage stage{0, 1};  // every place is free at first
      for (int number = first; number < tiles; number += step) {
        const Tile tile = tile_of(number, pairs, columns, group, rank);
        for (int s = 0; s < slices; ++s, stage.next()) {
          const unsigned arrived = full + 8 * stage.index;
          hopper::barrier_wait(empty + 8 * stage.index, stage.phase);
          hopper::barrier_expect(arrived, kBytesA + kBytesB);
          hopper::load_box(tiles_a + stage.index * kBytesA, &a, arrived, s * kDepth, tile.row * kRows);
          hopper::load_box_multicast(tiles_b + stage.index * kBytesB + rank * kBox, &b, arrived, s * kDepth,
                                     tile.column * kColumns + rank * 128, 3);
        }
      }
    }
  } else {
    hopper::take_registers<232>();
    const int own = threadIdx.x / kGroupThreads - 1, thread = threadIdx.x % kGroupThreads, lane = thread % 32;
    const unsigned tiles_own = tiles_c + own * 2 * kBytesC;  // two boxes of C to leave through, in turn
    Stage stage;
    int box = 0;
    for (int number = first; number < tiles; number += step) {
      const Tile tile = tile_of(number, pairs, columns, group, rank);
      float sums[2][64] = {};
      for (int s = 0; s < slices; ++s, stage.next()) {
        hopper::barrier_wait(full + 8 * stage.index, stage.phase);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float part[64];
          hopper::products_begin();
#pragma unroll
          for (int i = 0; i < kDepth / 32; ++i) {
            const unsigned from_a = tiles_a + stage.index * kBytesA + own * 64 * 128 + i * 32;
            const unsigned from_b = tiles_b + stage.index * kBytesB + half * kBox + i * 32;
            hopper::product<hopper::Pair<A, B>, 128>(part, hopper::matrix(from_a, 16, 1024),
                                                     hopper::matrix(from_b, 16, 1024), i > 0);
          }
          hopper::products_commit();
          hopper::products_wait<0>();
          hopper::settled(part);
          if (half == 1 && thread < kCluster) hopper::barrier_arrive(empty + 8 * stage.index, thread);
#pragma unroll
          for (int e = 0; e < 64; ++e) sums[half][e] += part[e];
        }
      }

      const int row = tile.row * kRows + own * 64 + thread / 32 * 16 + lane / 4;
      const float scale = BY_ROW ? 1.0f : *scale_a * *scale_b;
      const float upper = BY_ROW ? (row < m ? scale_a[row] : 0.0f) : scale;
      const float lower = BY_ROW ? (row + 8 < m ? scale_a[row + 8] : 0.0f) : scale;
#pragma unroll
      for (int part = 0; part < kColumns / 64; ++part, box ^= 1) {
        const unsigned to = tiles_own + box * kBytesC;
        if (thread == 0) hopper::stores_have_read<1>();
        hopper::named_barrier(1 + own, kGroupThreads);
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // 16 columns: two pairs of 8 x 8
          unsigned r[4];
#pragma unroll
          for (int pair = 0; pair < 2; ++pair) {
            const float* const four = &sums[part / 2][part % 2 * 32 + j * 8 + pair * 4];
            const int column = tile.column * kColumns + part * 64 + j * 16 + pair * 8 + lane % 4 * 2;
            float2 across = make_float2(1.0f, 1.0f);
            if (BY_ROW && column < n) across = *reinterpret_cast<const float2*>(scale_b + column);
            r[2 * pair] = pack(four[0] * (upper * across.x), four[1] * (upper * across.y));
            r[2 * pair + 1] = pack(four[2] * (lower * across.x), four[3] * (lower * across.y));
          }
          const int to_row = thread / 32 * 16 + lane % 16,
                    unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by the row
          hopper::store_matrices(to + to_row * 128 + ((unit ^ (to_row & 7)) << 4), r);
        }
        hopper::async_proxy_fence();
        hopper::named_barrier(1 + own, kGroupThreads);
        if (thread == 0) hopper::store_box(&c, to, tile.column * kColumns + part * 64, tile.row * kRows + own * 64);
      }
    }
    if (thread == 0) hopper::stores_are_done();
  }
  hopper::cluster_sync();  // nobody leaves while the other block may still arrive at its barriers
}
