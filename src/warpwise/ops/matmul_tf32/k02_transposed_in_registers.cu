// TF32 wgmma without a transposition in global memory: the MN-major operand is transposed on its way to registers.
//
// wgmma reads 4-byte operands from shared memory K-major only, but takes its A operand from registers. That is the
// MN-major operand here: its k-tiles are loaded as they are, and a lane loads its elements of each wgmma by four
// conflict-free 4-byte loads. A row-major B is the A operand of C^T = B^T A^T, and the epilogue transposes the sums.
// TMA rounds the elements to nearest.

#include <warpwise/sm90/gemm_store.cuh>

namespace sm90 = warpwise::sm90;
using sm90::kRowBytes, sm90::kWarpgroupThreads;

constexpr unsigned kSquareBytes = 32 * kRowBytes;  // 32 x 32 floats

// The first operand's tile of 128 goes through registers; the CLUSTER blocks of a cluster share the second operand's.
template <bool MN_MAJOR, int TILE_N, int CLUSTER, int STAGES>
using Config = sm90::GemmConfig<float, 128, TILE_N, 2, 1, STAGES, CLUSTER, 1, MN_MAJOR, false, MN_MAJOR ? 32 : 128,
                                TILE_N / CLUSTER>;

struct FloatMatrix : sm90::Matrix {
  static constexpr int most_unrolled = 5;
};

// The row, among the warpgroup's 64, of row lane / 4 + 8 half of the warp's 16 rows of D. If MN_MAJOR, each line of a
// box of 32 is one k; the 16-byte units that a warp reads at four k are then eight different ones.
template <bool MN_MAJOR>
__device__ inline int row_of(int half) {
  const int warp = threadIdx.x % kWarpgroupThreads / 32, row = threadIdx.x % 32 / 4;
  return MN_MAJOR ? warp / 2 * 32 + warp % 2 * 8 + half * 4 + row / 4 * 16 + row % 4 : warp * 16 + half * 8 + row;
}

// Offset of a word in swizzled rows of 32 words.
__device__ inline unsigned swizzled(int x, int y) { return y * kRowBytes + ((x / 4 ^ y % 8) << 4) + x % 4 * 4; }

// The main loop, with the first operand from registers; k_tiles is even.
template <class P>
struct RegisterLoop {
  using Sums = float[1][P::width / 2];

  template <int SLOTS, bool MAY_BE_EMPTY, class Storage, class Between>
  static __device__ void run(Sums& d, int k_tiles, const Storage& storage, sm90::WgmmaConsumer<>& consumer,
                             const Between& between) {
    constexpr bool kMnMajor = P::a_mn_major;
    const sm90::OperandDescriptors<false> b(storage.stages_b);
    unsigned offsets[4];  // of this lane's words of a wgmma: rows, then k
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = row_of<kMnMajor>(i % 2), k_at = threadIdx.x % 4 + i / 2 * 4;
      offsets[i] = P::group_m() * 2 * kSquareBytes +
                   (kMnMajor ? row / 32 * kSquareBytes + swizzled(row % 32, k_at) : swizzled(k_at, row));
    }
    unsigned fragments[2][4][4];
    const auto k_tile = [&](int s, unsigned (&a)[4][4]) {
      consumer.k_tile(s, [&](int stage) {
        const unsigned from_a = storage.stages_a + stage * P::bytes_a;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e)  // the next 8 k: 8 lines further, or 2 units of 16 bytes along the line, swizzled
            a[i][e] = warpwise::ld_shared(from_a + (kMnMajor ? offsets[e] + i * 8 * kRowBytes : offsets[e] ^ i << 5));
        }
        sm90::wgmma_fence();
#pragma unroll
        for (int i = 0; i < 4; ++i) sm90::wgmma_rs<P::width>(d[0], a[i], b.at(stage * P::bytes_b, i), s || i);
      });
    };
    between(0);
    for (int s = 0; s < k_tiles; s += 2) {
      k_tile(s, fragments[0]);
      k_tile(s + 1, fragments[1]);
    }
    consumer.finish();
  }
};

// Stores 64 x 32 sums, transposed if TRANSPOSED, in two boxes of 32 x 32 by TMA.
template <bool MN_MAJOR, bool TRANSPOSED>
struct SquareStore : sm90::BoxStore {
  static constexpr int sends = 2;

  static __device__ void write(unsigned box, const unsigned (&words)[16], const Position&) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {  // row, then column of the sums
      const int r = row_of<MN_MAJOR>(i / 2 % 2), q = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
      const unsigned to = box + r / 32 * kSquareBytes + (TRANSPOSED ? swizzled(r % 32, q) : swizzled(q, r % 32));
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(words[i]) : "memory");
    }
  }
  // The row and column of C of the box's square `i`.
  static __device__ Position square(const Position& at, int column, int i) {
    return TRANSPOSED ? Position{at.column + column, at.row + i * 32} : Position{at.row + i * 32, at.column + column};
  }
  __device__ void send(unsigned box, const Position& at, int, int column) const {
    for (int i = 0; i < 2; ++i) {
      const Position to = square(at, column, i);
      sm90::tma_store_2d(map, box + i * kSquareBytes, to.column, to.row);
    }
  }
};

// The same by ordinary stores, for C with rows of any alignment.
template <bool MN_MAJOR, bool TRANSPOSED>
struct SquareRowStore : SquareStore<MN_MAJOR, TRANSPOSED> {
  using Base = SquareStore<MN_MAJOR, TRANSPOSED>;
  static constexpr bool by_tma = false;
  sm90::DenseRows<float> rows;

  __device__ explicit SquareRowStore(const sm90::DenseRows<float>& rows) : rows(rows) {}
  __device__ void send(unsigned box, const sm90::BoxStore::Position& at, int, int column) const {
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int y = threadIdx.x % kWarpgroupThreads / 32; y < 64; y += 4) {
      const auto to = Base::square(at, column, y / 32);
      const int row = to.row + y % 32, x = to.column + lane;
      const unsigned word = warpwise::ld_shared(box + y / 32 * kSquareBytes + swizzled(lane, y % 32));
      if (row < rows.m && x < rows.n) rows.at[static_cast<long long>(row) * rows.n + x] = __uint_as_float(word);
    }
  }
};

// first: (extent, k) with boxes of 128 x 32, or (k, extent) if MN_MAJOR with boxes of 32 x 32; second: (extent, k) with
// boxes of TILE_N / CLUSTER x 32; c: (m, n) with boxes of 32 x 32, whose rows are the extent of `first`, or of `second`
// if TRANSPOSED; all tensor maps. If not C_BY_TMA, C is stored to `c_rows`, of any alignment, by threads. rows,
// columns: tiles of a cluster, 128 CLUSTER x TILE_N; group: of the raster order. Launch configuration: as for
// sm90::gemm with its Config.
template <bool MN_MAJOR, bool TRANSPOSED, int TILE_N, int CLUSTER, int STAGES, bool C_BY_TMA>
__global__ void __launch_bounds__(384, 1) __cluster_dims__(CLUSTER, 1, 1)
    matmul_transposed_in_registers(const __grid_constant__ sm90::TensorMap first,
                                   const __grid_constant__ sm90::TensorMap second,
                                   const __grid_constant__ sm90::TensorMap c, float* __restrict__ c_rows, int m, int n,
                                   int k, int rows, int columns, int group) {
  using P = Config<MN_MAJOR, TILE_N, CLUSTER, STAGES>;
  extern __shared__ unsigned char raw[];
  const sm90::GemmStorage<P> storage(raw);
  const int k_tiles = (k + 2 * P::tile_k - 1) / (2 * P::tile_k) * 2;  // in pairs; elements past the end are zero
  const auto run = [&](auto store) {
    sm90::gemm<P, RegisterLoop>(storage, FloatMatrix{{&first}}, FloatMatrix{{&second}},
                                sm90::PersistentTiles<P>{{{rows, columns, group}, k_tiles}},
                                sm90::WordStore<P, decltype(store)>(storage, store));
  };
  if constexpr (C_BY_TMA)
    run(SquareStore<MN_MAJOR, TRANSPOSED>{{&c}});
  else
    run(SquareRowStore<MN_MAJOR, TRANSPOSED>({c_rows, m, n}));
}
