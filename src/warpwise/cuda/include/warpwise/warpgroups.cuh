// A matrix product by warpgroups on Hopper, whole: what a kernel hands its tensor maps to. sm_90a only.
//
// Warpgroup 0 feeds a ring of slices through the copy engine; one or two others multiply them, each a part of the
// block's tile of C. Blocks of a cluster take neighbouring tiles, and each loads its share of what they have in common
// for all of them. A block goes from tile to tile: the sums are rounded at once, which frees the registers that
// accumulate, and leave box by box under the products of the next tile's first slices.
//
// Include cuda_bf16.h or cuda_fp16.h first.
#pragma once

#include <warpwise/rows.cuh>

namespace warpwise {
namespace hopper {

constexpr int kGroupThreads = 128;      // of a warpgroup
constexpr int kSlice = 64;              // depth of a slice: 128 bytes, the span of the swizzle
constexpr unsigned kBox = 64 * 64 * 2;  // bytes of a box of 64 x 64 elements

// How a product is cut. T: two bytes. BM x BN: a block's tile of C, dealt to GM x GN warpgroups; STAGES: slices in the
// ring; CM x CN: the tiles of a cluster. A lies with K along its rows (row-major) or ACROSS them (transposed); B with K
// along its rows (transposed) or ACROSS them (row-major).
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_ACROSS, bool B_ACROSS>
struct Plan {
  using Element = T;
  static constexpr int bm = BM, bn = BN, gm = GM, gn = GN, stages = STAGES, cm = CM, cn = CN;
  static constexpr bool a_across = A_ACROSS, b_across = B_ACROSS;
  static constexpr int groups = GM * GN, threads = (1 + groups) * kGroupThreads, cluster = CM * CN;
  static constexpr int products = BM / GM / 64, width = BN / GN;  // of a warpgroup: `products` of 64 x width
  static constexpr int parts = products * width / 64;             // boxes of C that it writes
  static constexpr unsigned bytes_a = BM / 64 * kBox, bytes_b = BN / 64 * kBox;  // of a slice
  static constexpr int loads_a = BM / 64 / CN, loads_b = BN / 64 / CM;           // boxes of a slice that a block loads
  // Dynamic shared memory: to align a swizzled unit, the ring, barriers, boxes to leave through, two a warpgroup if an
  // SM's 227 KiB hold them.
  static constexpr unsigned ring = 1024 + STAGES * (bytes_a + bytes_b + 16), room = 232448;
  static constexpr int boxes = ring + groups * 2 * kBox <= room ? 2 : 1;
  static constexpr unsigned shared = ring + groups * boxes * kBox;
  static_assert(sizeof(T) == 2, "boxes of 64 columns are as wide as the swizzle");
  static_assert(groups == 1 || groups == 2, "registers: 64 x 256 sums of a warpgroup take 128 of each thread's");
  static_assert(BM % (64 * GM) == 0 && BN % (64 * GN) == 0, "a warpgroup multiplies and stores 64 x 64 at a time");
  static_assert(loads_a * CN * 64 == BM && loads_b * CM * 64 == BN, "a block loads whole boxes for its cluster");
  static_assert(shared <= room, "an SM has 227 KiB for a block");
};

// Tiles of a cluster, `rows` x `columns`, in groups of `group` rows, column by column inside: what is in flight at a
// time is nearly square, and needs the least of A and B from L2.
struct TileOrder {
  int rows, columns, group;
  __device__ int tiles() const { return rows * columns; }
  __device__ int row(int number) const { return first(number) + number % per_group() % in_group(number); }
  __device__ int column(int number) const { return number % per_group() / in_group(number); }

 private:
  __device__ int per_group() const { return group * columns; }
  __device__ int first(int number) const { return number / per_group() * group; }
  __device__ int in_group(int number) const { return min(group, rows - first(number)); }
};

// A place in the ring, and the parity of its barriers' phase.
template <int STAGES>
struct Place {
  int stage = 0;
  unsigned phase = 0;
  __device__ void next() {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// What becomes of two neighbouring sums, at (row, column) and (row, column + 1) of C, before they are rounded: nothing.
struct Sums {
  __device__ void operator()(float& left, float& right, int row, int column) const {}
};

#ifdef __CUDA_BF16_TYPES_EXIST__
__device__ inline unsigned rounded(float left, float right, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(left, right);
  return *reinterpret_cast<const unsigned*>(&pair);
}
#endif
#ifdef __CUDA_FP16_TYPES_EXIST__
__device__ inline unsigned rounded(float left, float right, __half) {
  const __half2 pair = __floats2half2_rn(left, right);
  return *reinterpret_cast<const unsigned*>(&pair);
}
#endif

// A box of an operand at (`along`, `depth`), along M or N and along K, for the blocks of the cluster in `blocks`.
template <bool ACROSS, bool SHARED>
__device__ inline void load_operand(unsigned to, const TensorMap* map, unsigned arrived, int along, int depth,
                                    unsigned short blocks) {
  const int x = ACROSS ? along : depth, y = ACROSS ? depth : along;
  if constexpr (SHARED)
    load_box_multicast(to, map, arrived, x, y, blocks);
  else
    load_box(to, map, arrived, x, y);
}

// What one thread asks the copy engine for: slices of tiles, into the places of a ring as they come free.
template <class P>
struct Feeder {
  const TensorMap *a, *b;
  unsigned slices_a, slices_b, full, empty;   // shared addresses; barriers: arrived, read
  int place_m, place_n;                       // of the block in its cluster
  unsigned short blocks_a = 0, blocks_b = 0;  // those in the same row of tiles, and in the same column
  Place<P::stages> at{0, 1};                  // every place is free at first

  __device__ Feeder(const TensorMap* a, const TensorMap* b, unsigned slices_a, unsigned slices_b, unsigned full,
                    unsigned empty, int place_m, int place_n)
      : a(a),
        b(b),
        slices_a(slices_a),
        slices_b(slices_b),
        full(full),
        empty(empty),
        place_m(place_m),
        place_n(place_n) {
    for (int i = 0; i < P::cn; ++i) blocks_a |= 1 << (place_m + i * P::cm);
    for (int i = 0; i < P::cm; ++i) blocks_b |= 1 << (i + place_n * P::cm);
  }

  // Slice `s` of the tile that begins at (row, column).
  __device__ void load(int row, int column, int s) {
    constexpr int kUnrolled = P::loads_a + P::loads_b > 4 ? 1 : 4;  // more do not fit 40 registers
    const unsigned arrived = full + 8 * at.stage;
    barrier_wait(empty + 8 * at.stage, at.phase);
    barrier_expect(arrived, P::bytes_a + P::bytes_b);
#pragma unroll kUnrolled
    for (int i = 0; i < P::loads_a; ++i) {
      const int box = place_n * P::loads_a + i;
      load_operand<P::a_across, (P::cn > 1)>(slices_a + at.stage * P::bytes_a + box * kBox, a, arrived, row + box * 64,
                                             s * kSlice, blocks_a);
    }
#pragma unroll kUnrolled
    for (int i = 0; i < P::loads_b; ++i) {
      const int box = place_m * P::loads_b + i;
      load_operand<P::b_across, (P::cm > 1)>(slices_b + at.stage * P::bytes_b + box * kBox, b, arrived,
                                             column + box * 64, s * kSlice, blocks_b);
    }
    at.next();
  }
};

// The `step`-th 16 of a slice's depth, of an operand whose boxes of 64 along M or N follow each other.
template <bool ACROSS>
__device__ inline unsigned long long operand(unsigned boxes, int step) {
  return matrix(boxes + step * (ACROSS ? 16 * 128 : 16 * 2), kBox, 1024);
}

// 64 x 64 of C from a warpgroup's registers into a box of shared memory, each warp its 16 rows.
__device__ inline void fill_box(unsigned box, const unsigned (&pairs)[16], int thread) {
  const int lane = thread % 32, own_row = thread / 32 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < 4; ++j) {          // 16 columns: two pairs of 8 x 8
    const int unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by the row
    const unsigned r[4] = {pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2], pairs[4 * j + 3]};
    store_matrices(box + own_row * 128 + ((unit ^ (own_row & 7)) << 4), r);
  }
}

// Such a box to C through the copy engine, once it is free.
__device__ inline void write_box(unsigned box, const unsigned (&pairs)[16], int group, const TensorMap* c, int row,
                                 int column) {
  const int thread = threadIdx.x % kGroupThreads;
  fill_box(box, pairs, thread);
  async_proxy_fence();
  named_barrier(1 + group, kGroupThreads);
  if (thread == 0) store_box(c, box, column, row);
}

// The same by threads: a warp waits for nobody but itself.
template <class T>
__device__ inline void write_box(unsigned box, const unsigned (&pairs)[16], int group, const Rows<T>* c, int row,
                                 int column) {
  const int thread = threadIdx.x % kGroupThreads, own_row = thread / 32 * 16;
  __syncwarp();
  fill_box(box, pairs, thread);
  __syncwarp();
  write_rows(box + own_row * 128, *c, row + own_row, column);
}

// C (m, n) = A (m, k) B (k, n), sums in float32, `finish` applied to them. The maps have boxes of 64 x 64. The kernel:
// P::threads threads, one block an SM (__launch_bounds__(P::threads, 1)), clusters of P::cluster blocks, P::shared
// bytes of dynamic shared memory; a grid of any number of clusters. Of C a map, or Rows.
template <class P, class C, class Finish>
__device__ inline void multiply(const TensorMap& a, const TensorMap& b, const C& c, int k, TileOrder order,
                                const Finish& finish) {
  extern __shared__ unsigned char raw[];
  const unsigned base = (shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned slices_a = base, slices_b = slices_a + P::stages * P::bytes_a;
  const unsigned leaving = slices_b + P::stages * P::bytes_b;
  const unsigned full = leaving + P::groups * P::boxes * kBox, empty = full + 8 * P::stages;  // barriers: arrived, read
  const int rank = static_cast<int>(cluster_rank()), place_m = rank % P::cm, place_n = rank / P::cm;
  const int slices = (k + kSlice - 1) / kSlice;
  const int first = blockIdx.x / P::cluster, step = gridDim.x / P::cluster;

  if (threadIdx.x == 0) {
    for (int s = 0; s < P::stages; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, P::groups * (P::cm + P::cn - 1));  // by all readers of what this block loads
    }
    barrier_init_fence();
  }
  if constexpr (P::cluster > 1)
    cluster_meet();
  else
    __syncthreads();

  if (threadIdx.x < kGroupThreads) {
    if constexpr (P::groups > 1) give_registers<40>();
    if (threadIdx.x == 0) {
      Feeder<P> feeder(&a, &b, slices_a, slices_b, full, empty, place_m, place_n);
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
    const unsigned own_a = slices_a + group_m * P::products * kBox, own_b = slices_b + group_n * (P::width / 64) * kBox;
    const bool releases = thread < P::cluster && (thread % P::cm == place_m || thread / P::cm == place_n);
    Place<P::stages> at;
    unsigned before = 0;  // the barrier of the slice whose products may still run
    float d[P::products][P::width / 2];
    unsigned kept[P::parts][16];  // the last tile, rounded, and where it belongs
    int kept_row = 0, kept_column = 0, box = 0;
    bool keeps = false;

    const auto slice = [&](int s) {
      barrier_wait(full + 8 * at.stage, at.phase);
      products_begin();
#pragma unroll
      for (int i = 0; i < kSlice / 16; ++i) {
        const unsigned long long part_b = operand<P::b_across>(own_b + at.stage * P::bytes_b, i);
#pragma unroll
        for (int p = 0; p < P::products; ++p)
          product<typename P::Element, P::width, P::a_across, P::b_across>(
              d[p], operand<P::a_across>(own_a + at.stage * P::bytes_a + p * kBox, i), part_b, s || i);
      }
      products_commit();
      products_wait<1>();
      if (s > 0 && releases) barrier_arrive(before, thread);
      before = empty + 8 * at.stage;
      at.next();
    };
    const auto write = [&](int part) {
      if constexpr (kMapped<C>) {
        if (thread == 0) stores_have_read<P::boxes - 1>();
        named_barrier(1 + group, kGroupThreads);
      }
      write_box(leaving + (group * P::boxes + box) * kBox, kept[part], group, &c,
                kept_row + part / (P::width / 64) * 64, kept_column + part % (P::width / 64) * 64);
      if (P::boxes == 2) box ^= 1;
    };

    for (int number = first; number < order.tiles(); number += step) {
      slice(0);
      int row = ((order.row(number) * P::cm + place_m) * P::gm + group_m) * P::products * 64;
      int column = ((order.column(number) * P::cn + place_n) * P::gn + group_n) * P::width;
      asm volatile("" : "+r"(row), "+r"(column));  // known here, under the products, and not when the tile ends
      if (keeps) write(0);
#pragma unroll
      for (int part = 1; part < P::parts; ++part) {
        if (part < slices) slice(part);
        if (keeps) write(part);
      }
      for (int s = P::parts; s < slices; ++s) slice(s);
      products_wait<0>();
      if (releases) barrier_arrive(before, thread);

      kept_row = row;
      kept_column = column;
      keeps = true;
#pragma unroll
      for (int part = 0; part < P::parts; ++part) {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          float* const pair = &d[part / (P::width / 64)][part % (P::width / 64) * 32 + 2 * i];
          finish(pair[0], pair[1],
                 kept_row + part / (P::width / 64) * 64 + thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8,
                 kept_column + part % (P::width / 64) * 64 + i / 2 * 8 + thread % 4 * 2);
          kept[part][i] = rounded(pair[0], pair[1], typename P::Element());
        }
      }
    }
    if (keeps) {
#pragma unroll
      for (int part = 0; part < P::parts; ++part) write(part);
    }
    if (thread == 0) stores_have_read<0>();  // the kernel's end waits for the rest
  }
  if constexpr (P::cluster > 1) cluster_meet();  // nobody leaves while another block may still arrive at its barriers
}

}  // namespace hopper
}  // namespace warpwise
