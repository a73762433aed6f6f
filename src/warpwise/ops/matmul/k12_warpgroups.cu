// Hopper's way: one warpgroup feeds tiles through the copy engine, two multiply them on the tensor cores,
// asynchronously.
//
// No thread computes an address of A or B or holds an element of them: boxes of 64 x 64 arrive swizzled in shared
// memory and the matrix units read them there. Two blocks of a cluster take tiles below each other and each loads one
// half of their common part of B for both. 128 x 256 sums lie in the registers of 256 threads, which the feeding
// warpgroup has given up. A block goes from tile to tile, its next slices arriving while it writes the last tile.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/hopper.cuh>

namespace hopper = warpwise::hopper;

constexpr int kCluster = 2, kStages = 4, kRows = 128, kColumns = 256, kDepth = 64;
constexpr int kThreads = 384, kGroupThreads = 128;  // warpgroup 0 feeds, 1 and 2 take 64 rows each
constexpr unsigned kBox = 64 * 64 * 2;              // bytes of 64 rows x 64 columns
constexpr unsigned kBytesA = 2 * kBox, kBytesB = 4 * kBox;

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

__device__ inline unsigned pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

__device__ inline unsigned pack(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

// a: (m, k), b: (k, n), c: (m, n), row-major, as maps with boxes of 64 x 64. Grid: a multiple of kCluster, at most one
// block an SM. Dynamic shared memory: 1 KiB to align + kStages * (kBytesA + kBytesB) + 4 * kBox + 16 * kStages bytes.
template <class T>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    matmul_warpgroups(const __grid_constant__ hopper::TensorMap a, const __grid_constant__ hopper::TensorMap b,
                      const __grid_constant__ hopper::TensorMap c, int k, int pairs, int columns, int group) {
  extern __shared__ unsigned char raw[];
  const unsigned base = (hopper::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned tiles_a = base, tiles_b = tiles_a + kStages * kBytesA, tiles_c = tiles_b + kStages * kBytesB;
  const unsigned full = tiles_c + 4 * kBox, empty = full + 8 * kStages;  // barriers: slices arrived, places free
  const int rank = static_cast<int>(hopper::cluster_rank()), slices = (k + kDepth - 1) / kDepth;
  const int first = blockIdx.x / kCluster, step = gridDim.x / kCluster, tiles = pairs * columns;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      hopper::barrier_init(full + 8 * s, 1);
      hopper::barrier_init(empty + 8 * s, 2 * kCluster);  // both multiplying warpgroups of both blocks
    }
    hopper::barrier_init_fence();
  }
  hopper::cluster_meet();

  if (threadIdx.x < kGroupThreads) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) {
      Stage stage{0, 1};  // every place is free at first
      for (int number = first; number < tiles; number += step) {
        const Tile tile = tile_of(number, pairs, columns, group, rank);
        for (int s = 0; s < slices; ++s, stage.next()) {
          const unsigned arrived = full + 8 * stage.index, to_a = tiles_a + stage.index * kBytesA;
          hopper::barrier_wait(empty + 8 * stage.index, stage.phase);
          hopper::barrier_expect(arrived, kBytesA + kBytesB);
          for (int i = 0; i < 2; ++i)
            hopper::load_box(to_a + i * kBox, &a, arrived, s * kDepth, tile.row * kRows + i * 64);
          for (int i = rank * 2; i < rank * 2 + 2; ++i)
            hopper::load_box_multicast(tiles_b + stage.index * kBytesB + i * kBox, &b, arrived,
                                       tile.column * kColumns + i * 64, s * kDepth, 3);
        }
      }
    }
  } else {
    hopper::take_registers<232>();
    const int own = threadIdx.x / kGroupThreads - 1, thread = threadIdx.x % kGroupThreads, lane = thread % 32;
    const unsigned tiles_own = tiles_c + own * 2 * kBox;  // two boxes of C to leave through, in turn
    Stage stage;
    int box = 0;
    for (int number = first; number < tiles; number += step) {
      const Tile tile = tile_of(number, pairs, columns, group, rank);
      float d[128];
      unsigned before = 0;  // the barrier of the slice whose products may still run
      for (int s = 0; s < slices; ++s, stage.next()) {
        hopper::barrier_wait(full + 8 * stage.index, stage.phase);
        hopper::products_begin();
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i) {
          const unsigned from_a = tiles_a + stage.index * kBytesA + own * kBox + i * 32;
          const unsigned from_b = tiles_b + stage.index * kBytesB + i * 2048;
          hopper::product<T, 256, false, true>(d, hopper::matrix(from_a, 16, 1024), hopper::matrix(from_b, kBox, 1024),
                                               s || i);
        }
        hopper::products_commit();
        hopper::products_wait<1>();
        if (s > 0 && thread < kCluster) hopper::barrier_arrive(before, thread);
        before = empty + 8 * stage.index;
      }
      hopper::products_wait<0>();
      if (thread < kCluster) hopper::barrier_arrive(before, thread);

#pragma unroll
      for (int part = 0; part < kColumns / 64; ++part, box ^= 1) {
        const unsigned to = tiles_own + box * kBox;
        if (thread == 0) hopper::stores_have_read<1>();
        hopper::named_barrier(1 + own, kGroupThreads);
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // 16 columns: two pairs of 8 x 8
          unsigned r[4];
#pragma unroll
          for (int e = 0; e < 4; ++e) r[e] = pack(d[part * 32 + j * 8 + 2 * e], d[part * 32 + j * 8 + 2 * e + 1], T());
          const int row = thread / 32 * 16 + lane % 16, unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by the row
          hopper::store_matrices(to + row * 128 + ((unit ^ (row & 7)) << 4), r);
        }
        hopper::async_proxy_fence();
        hopper::named_barrier(1 + own, kGroupThreads);
        if (thread == 0) hopper::store_box(&c, to, tile.column * kColumns + part * 64, tile.row * kRows + own * 64);
      }
    }
    if (thread == 0) hopper::stores_are_done();
  }
  hopper::cluster_meet();  // nobody leaves while the other block may still arrive at its barriers
}
