// Few rows or few tiles: columns of B take the M dimension of wgmma, rows of A its N dimension, which may be 8.
//
// The kernel is that of gemm_skinny.cuh. B passes through registers if it is MN-major, or if its lines are not 16-byte
// aligned. If K is also split through global memory, each split stores its sums to a separate matrix; a second kernel
// adds them.

#include <warpwise/sm90/gemm_skinny.cuh>

namespace skinny = warpwise::skinny;
namespace sm90 = warpwise::sm90;

// Layout of B (k, n): rows (MN-major), or shifted rows or columns: lines that are not 16-byte aligned, so TMA cannot
// address them as one matrix. Every fourth line has the same offset modulo 16 bytes: map i has lines 4 j + i and starts
// at the aligned address at or before the first element of line i; elements are read at an offset of 0 to 3 words.
enum class BLayout { kRows, kShiftedRows, kShiftedColumns };

// The policy B of gemm_skinny.cuh for COLUMNS columns. Boxes: 32 x 32 of rows. Shifted boxes are not swizzled: box i
// holds every fourth line of the k-tile from map i, with four words more than the k-tile needs. For shifted rows, the
// columns of a are in the order of `permute_k`.
template <BLayout LAYOUT, int COLUMNS>
struct RegisterB {
  static constexpr int kTileK = 32, kUnroll = 2;  // the fragments of two k-tiles have separate registers
  static constexpr bool kPromotes = false;
  static constexpr bool kShifted = LAYOUT != BLayout::kRows, kMnMajor = LAYOUT != BLayout::kShiftedColumns;
  static constexpr int kLines = kMnMajor ? kTileK : COLUMNS, kLineWords = kMnMajor ? COLUMNS : kTileK;
  static constexpr int kBoxes = kShifted ? 4 : COLUMNS / 32;
  static constexpr unsigned kPitch = kShifted ? (kLineWords + 4) * 4 : skinny::kLineBytes;  // bytes
  static constexpr unsigned kBoxBytes = (kShifted ? kLines / 4 : kLines) * kPitch;
  static_assert(kBoxBytes % 128 == 0, "TMA writes boxes at multiples of 128 bytes");
  using Fragments = unsigned[kTileK / 8][4];

  const sm90::TensorMap* maps[4];  // the first alone if lines are aligned
  int start, step;                 // line i begins (start + i * step) % 4 words after a multiple of 16 bytes
  unsigned offsets[4] = {};        // of this lane's words of the first wgmma: columns, then k

  __device__ static constexpr unsigned stage_bytes(int) {
    return (kBoxes * kBoxBytes + 1023) / 1024 * 1024;
  }  // whole units
  __device__ static unsigned loaded_bytes(int) { return kBoxes * kBoxBytes; }

  __device__ void prefetch() const { sm90::prefetch_tensormap(maps[0]); }

  template <class LoadBox>
  __device__ void load(const LoadBox& load_box, unsigned to, int k, int column, int, int) const {
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      const int x = (kMnMajor ? column : k) + (kShifted ? 0 : i * 32), y = (kMnMajor ? k : column) / (kShifted ? 4 : 1);
      load_box(to + i * kBoxBytes, maps[kShifted ? i : 0], x, y);
    }
  }

  // The column of C, of the warpgroup's 64, of row l / 4 + 8 half of the warp's 16 rows of D. Eight columns at four k
  // access 32 banks; for shifted columns, a warp has the columns of one box.
  __device__ static int column_of(int half) {
    const int warp = threadIdx.x % skinny::kWarpgroupThreads / 32, line = threadIdx.x % 32 / 4;
    if (!kMnMajor) return (half * 8 + line) * 4 + warp;
    return warp / 2 * 32 + warp % 2 * 8 + half * 4 + line / 4 * 16 + line % 4;
  }

  // Called by consumers before the first k-tile. group: the warpgroup.
  __device__ void begin(int group) {
    const int shift = start + threadIdx.x % skinny::kWarpgroupThreads / 32 * step & 3;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int column = column_of(e % 2), k = threadIdx.x % 4 + e / 2 * 4;
      if (LAYOUT == BLayout::kShiftedRows)
        offsets[e] = k * kPitch + (group * 64 + column) * 4;  // k = 4 d: see load_fragments
      else if (LAYOUT == BLayout::kShiftedColumns)
        offsets[e] = column % 4 * kBoxBytes + (group * 16 + column / 4) * kPitch + (k + shift) * 4;
      else
        offsets[e] = (group * 2 + column / 32) * kBoxBytes + k * kPitch + ((column % 32 / 4 ^ k) << 4) + column % 4 * 4;
    }
  }

  // The words of the k-tile at `stage`. For shifted rows, wgmma i multiplies k = 4 d + i, d from 0 to 7, which are in
  // one box; the columns of A are stored in that order.
  __device__ void load_fragments(Fragments& fragments, unsigned stage) const {
#pragma unroll
    for (int i = 0; i < kTileK / 8; ++i) {
      const unsigned further = LAYOUT == BLayout::kShiftedRows ? i * kBoxBytes + (start + i * step & 3) * 4
                                                               : i * (kMnMajor ? 8 * kPitch : 32);
#pragma unroll
      for (int e = 0; e < 4; ++e) fragments[i][e] = warpwise::ld_shared(stage + offsets[e] + further);
    }
  }

  template <int N, class S>
  __device__ static void multiply(float (&d)[N / 2], const Fragments& fragments, unsigned, unsigned a, bool adds) {
#pragma unroll
    for (int i = 0; i < kTileK / 8; ++i) sm90::wgmma_rs<N>(d, fragments[i], S::descriptor_a(a, i), adds || i > 0);
  }
};

// The body of the kernels below.
template <int GROUPS, int M, int STAGES, int SPLIT, int PRODUCERS, bool SEPARATE_BUFFER, class B>
__device__ inline void multiply(const sm90::TensorMap& a, const B& b, float* c, int m, int n, int k, int tiles_m,
                                int splits) {
  using Shape = skinny::Shape<GROUPS, 1, M, 1, STAGES, PRODUCERS>;
  skinny::gemm<Shape, SPLIT, SEPARATE_BUFFER>(
      a, b, skinny::FloatRows<B>{c, m, n}, skinny::work_of_cluster<Shape, SPLIT>(tiles_m, splits), k, GROUPS * 64,
      STAGES, nullptr, nullptr, sm90::createpolicy_evict_first);  // both are read once
}

// a: (m, k), boxes of M x 32; b: (k, n), boxes of 64 GROUPS x 32 of columns if B_K_MAJOR, else of 32 x 32 of rows; c:
// (splits, m, n), row-major, the sums of each of `splits` splits of K. Cluster: SPLIT splits of K. Grid: splits *
// cdiv(m, M) * cdiv(n, 64 GROUPS) clusters. Dynamic shared memory: as for skinny::gemm.
template <bool B_K_MAJOR, int GROUPS, int M, int STAGES, int SPLIT, int PRODUCERS, bool SEPARATE_BUFFER>
__global__ void __launch_bounds__(GROUPS * 128 + PRODUCERS, 1) __cluster_dims__(SPLIT, 1, 1)
    matmul_skinny(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b, float* c, int m,
                  int n, int k, int tiles_m, int splits) {
  const auto run = [&](const auto& of_b) {
    multiply<GROUPS, M, STAGES, SPLIT, PRODUCERS, SEPARATE_BUFFER>(a, of_b, c, m, n, k, tiles_m, splits);
  };
  if constexpr (B_K_MAJOR)
    run(skinny::SharedB<float, true>{&b});
  else
    run(RegisterB<BLayout::kRows, GROUPS * 64>{{&b}, 0, 0});
}

// The same for a b with lines (rows, or columns if B_K_MAJOR) of any alignment: maps, start and step of RegisterB.
template <bool B_K_MAJOR, int GROUPS, int M, int STAGES, int SPLIT, int PRODUCERS, bool SEPARATE_BUFFER>
__global__ void __launch_bounds__(GROUPS * 128 + PRODUCERS, 1) __cluster_dims__(SPLIT, 1, 1)
    matmul_skinny_shifted(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b0,
                          const __grid_constant__ sm90::TensorMap b1, const __grid_constant__ sm90::TensorMap b2,
                          const __grid_constant__ sm90::TensorMap b3, int start, int step, float* c, int m, int n,
                          int k, int tiles_m, int splits) {
  using B = RegisterB<B_K_MAJOR ? BLayout::kShiftedColumns : BLayout::kShiftedRows, GROUPS * 64>;
  multiply<GROUPS, M, STAGES, SPLIT, PRODUCERS, SEPARATE_BUFFER>(a, B{{&b0, &b1, &b2, &b3}, start, step}, c, m, n, k,
                                                                 tiles_m, splits);
}

// A with its columns in the order in which a row-major B with unaligned rows is multiplied.
//
// to: (m, k rounded up to a multiple of 32) = a: (m, k), row_stride and column_stride elements apart, padded with
// zeros. In each group of 32 columns, column 4 d + i is stored at 8 i + d. Block: 256 threads. Grid: one thread per
// element of `to`.
__global__ void __launch_bounds__(256) permute_k(const float* __restrict__ a, long long row_stride,
                                                 long long column_stride, float* __restrict__ to, int m, int k) {
  const long long index = blockIdx.x * 256ll + threadIdx.x;
  const int length = warpwise::cdiv(k, 32) * 32, to_column = static_cast<int>(index % length), in_32 = to_column % 32;
  const int column = to_column - in_32 + in_32 % 8 * 4 + in_32 / 8;
  if (index < static_cast<long long>(m) * length)
    to[index] = column < k ? a[index / length * row_stride + column * column_stride] : 0.0f;
}
