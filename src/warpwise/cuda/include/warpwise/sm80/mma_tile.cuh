// Tiles of two operands in shared memory, swizzled so that fragment loads have no bank conflicts, and stores of the
// sums to global memory in 16-byte units. See mma.cuh for fragments.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/core/vector.cuh>
#include <warpwise/sm80/mma.cuh>

namespace warpwise {
namespace mma {

// Row of A or column of B of element `lane` of group `group` of 8: `span` adjacent ones belong to as many groups.
__host__ __device__ constexpr int position(int span, int group, int lane) {
  return group / span * span * 8 + lane * span + group % span;
}

enum class Side { kA, kB };

using Quad = Vector<unsigned, 4>;

// SIZE rows of A or columns of B, K_BYTES bytes of K. K_MAJOR: the operand is K-major (row-major A, column-major B),
// else MN-major. A line is contiguous in global memory.
//
// A unit is 16 bytes, a row of an 8 x 8 matrix. The eight units that ldmatrix reads together are in one column of
// units, in lines that differ in the three bits of swizzle(line); XOR with these bits spreads the eight over all 32
// banks.
template <Side SIDE, class T, int SIZE, int K_BYTES, bool K_MAJOR>
struct OperandTile {
  static constexpr int kSize = sizeof(T), kSpan = OperandTraits<T>::kSpan, kUnit = 16 / kSize;  // elements
  static constexpr int kLines = K_MAJOR ? SIZE : K_BYTES / kSize, kPitch = K_MAJOR ? K_BYTES : SIZE * kSize;
  static constexpr int kBytes = kLines * kPitch, kSteps = K_BYTES / 32;
  static_assert(K_BYTES == 64 || K_BYTES == 128, "a line of 128 bytes holds one or two rows");
  static_assert(K_MAJOR || kPitch >= (kSpan == 2 ? 64 : 128), "lines of an MN-major tile fill the 32 banks");

  __device__ static constexpr int swizzle(int line) {
    if (K_MAJOR) return line / (kSpan > 128 / kPitch ? kSpan : 128 / kPitch) & 7;
    if (kSpan == 2) return kPitch == 64 ? line >> 2 & 3 : (line >> 1 & 6) | (line & 1);
    return kSpan == 4 ? (line & 3) << 1 : line & 7;
  }

  __device__ static unsigned offset(int line, int unit) {
    return static_cast<unsigned>((line * kPitch + unit * 16) ^ (swizzle(line) << 4));
  }

  // Period of swizzle(), in lines.
  static constexpr int kPeriod = K_MAJOR ? 8 * (kSpan > 128 / kPitch ? kSpan : 128 / kPitch) : kSpan == 2 ? 16 : 8;

  // All threads copy the tile of `matrix` that begins at row or column `first` of `size` and at `k_offset` of k; its
  // lines are `stride` elements apart. Elements past an edge are zero.
  template <int WORD, int THREADS>
  __device__ static void copy(unsigned char* to, const T* matrix, int stride, int first, int size, int k_offset,
                              int k) {
    constexpr int kUnits = kPitch / 16, kPassLines = THREADS / kUnits;  // lines that all threads copy in one pass
    static_assert(THREADS % kUnits == 0 && kLines % kPassLines == 0, "every pass copies whole lines");
    constexpr int kDistinctPasses = kPeriod > kPassLines ? kPeriod / kPassLines : 1;  // passes with different swizzles
    const int unit = static_cast<int>(threadIdx.x) % kUnits, line = static_cast<int>(threadIdx.x) / kUnits;
    const int lines = K_MAJOR ? size - first : k - k_offset, elements = K_MAJOR ? k - k_offset : size - first;
    const T* from = matrix + static_cast<long long>((K_MAJOR ? first : k_offset) + line) * stride +
                    (K_MAJOR ? k_offset : first) + unit * kUnit;
    const auto target = [&](int pass) {
      return to + offset(line + pass % kDistinctPasses * kPassLines, unit) +
             pass / kDistinctPasses * (kDistinctPasses * kPassLines * kPitch);
    };
    const auto valid = [&](int pass) { return line + pass * kPassLines < lines ? elements - unit * kUnit : 0; };
    if constexpr (WORD >= 4) {
#pragma unroll
      for (int pass = 0; pass < kLines / kPassLines; ++pass) {
        cp_async16<WORD>(target(pass), from, valid(pass));
        from += static_cast<long long>(kPassLines) * stride;
      }
    } else {  // all loads are in flight before the first store
      Vector<T, kUnit> units[kLines / kPassLines];
#pragma unroll
      for (int pass = 0; pass < kLines / kPassLines; ++pass) {
        units[pass] = load_unit(from, valid(pass));
        from += static_cast<long long>(kPassLines) * stride;
      }
#pragma unroll
      for (int pass = 0; pass < kLines / kPassLines; ++pass)
        *reinterpret_cast<Vector<T, kUnit>*>(target(pass)) = units[pass];
    }
  }

  // Register of a pair of groups for (group, half of K). mma.sync takes consecutive registers: (0, 0), (1, 0), (0, 1),
  // (1, 1) of A and (0, 0), (0, 1) of a group of B.
  __device__ static constexpr int register_index(int group, int half) {
    return SIDE == Side::kA ? 2 * half + group : 2 * group + half;
  }

  // Offset in a tile at which this lane loads the warp's fragments, whose first row or column is `first`.
  __device__ static unsigned lane_offset(int first) {
    const int lane = threadIdx.x % 32, i = lane / 8, j = lane % 8;  // matrix and row of ldmatrix
    const int group = SIDE == Side::kA ? i % 2 : i / 2, half = SIDE == Side::kA ? i / 2 : i % 2;
    if (K_MAJOR) return offset(first + position(kSpan, group, j), half);
    if (kSpan == 1) return offset(half * 8 + j, first / kUnit + group);
    if (kSpan == 2) return offset(i / 2 * 16 + j / 2 * 4 + i % 2 * 2 + j % 2, first / kUnit);
    return offset(lane % 4, first / kUnit + lane / 4);
  }

  // Loads the fragments of 16 * PAIRS rows or columns at K step `step` (32 bytes): r[p] holds groups 2 p and 2 p + 1.
  template <int PAIRS>
  __device__ static void load_fragments(unsigned (&r)[PAIRS][4], const unsigned char* tile, unsigned lane_offset,
                                        int step) {
    const unsigned char* const lines = tile + step * (32 / kSize) * kPitch;
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) {
      const unsigned pair_offset = p * 16 * kSize;
      if constexpr (K_MAJOR) {
        ldmatrix_x4(r[p], shared_address(tile + (lane_offset ^ step * 32u) + position(kSpan, 2 * p, 0) * kPitch));
      } else if constexpr (kSpan == 1) {
        ldmatrix_x4_trans(r[p], shared_address(lines + (lane_offset ^ pair_offset % 128) + pair_offset / 128 * 128));
      } else if constexpr (kSpan == 2) {  // byte pairs at two k, twice: four k of each row
        unsigned pairs[4];
        ldmatrix_x4_trans(pairs, shared_address(lines + (lane_offset ^ pair_offset % 128) + pair_offset / 128 * 128));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          r[p][register_index(0, half)] = __byte_perm(pairs[2 * half], pairs[2 * half + 1], 0x6420);
          r[p][register_index(1, half)] = __byte_perm(pairs[2 * half], pairs[2 * half + 1], 0x7531);
        }
      } else if (p % 2 == 0) {
        static_assert(K_MAJOR || kSpan < 4 || PAIRS % 2 == 0, "four floats belong to four groups");
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const auto quad = *reinterpret_cast<const Quad*>(lines + lane_offset + pair_offset + half * 4 * kPitch);
#pragma unroll
          for (int e = 0; e < 4; ++e) r[p + e / 2][register_index(e % 2, half)] = quad.at[e];
        }
      }
    }
  }
};

// sums[i][j] += a[i] (16 rows) times group j of b (8 columns), in serpentine order to reuse registers.
template <class T, int I, int PAIRS, class Sum>
__device__ inline void mma_sync_tile(Sum (&sums)[I][2 * PAIRS][4], const unsigned (&a)[I][4],
                                     const unsigned (&b)[PAIRS][4]) {
#pragma unroll
  for (int j = 0; j < 2 * PAIRS; ++j) {
#pragma unroll
    for (int step = 0; step < I; ++step) {
      const int i = j % 2 ? I - 1 - step : step;
      mma_sync(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1], T());
    }
  }
}

// Transposes the 4 x 4 words of four adjacent lanes: lane t gets word t of each lane, in lane order.
__device__ inline void transpose_quad(unsigned (&words)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const unsigned received = __shfl_xor_sync(0xffffffffu, odd ? words[i] : words[i + 1], 1);
    (odd ? words[i] : words[i + 1]) = received;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned received = __shfl_xor_sync(0xffffffffu, high ? words[i] : words[i + 2], 2);
    (high ? words[i] : words[i + 2]) = received;
  }
}

// Stores 16 bytes of a row, of which `valid` elements exist.
template <bool ALIGNED, class Out>
__device__ inline void store16(Out* to, const Vector<Out, 16 / sizeof(Out)>& values, int valid) {
  constexpr int kCount = 16 / sizeof(Out);
  if (ALIGNED && valid >= kCount) {
    *reinterpret_cast<Vector<Out, kCount>*>(to) = values;
    return;
  }
#pragma unroll
  for (int e = 0; e < kCount; ++e)
    if (e < valid) to[e] = values.at[e];
}

// Stores the warp's sums to c (m, n) at (row, column). ALIGNED: the rows of c are 16-byte aligned.
template <class T, bool ALIGNED, class Out, class Sum, int I, int J>
__device__ inline void store(const Sum (&sums)[I][J][4], Out* c, int m, int n, int row, int column) {
  constexpr int kSpan = OperandTraits<T>::kSpan,
                kGroups = kSpan == 2 ? 2 : 4;  // groups of columns that one store combines
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 2 * I; ++i) {
    const int c_row = row + position(kSpan, i, g);
    Out* const to = c + static_cast<long long>(c_row) * n;
#pragma unroll
    for (int j = 0; j < J; j += kGroups) {
      const Sum* const sum[4] = {sums[i / 2][j] + i % 2 * 2, sums[i / 2][j + 1] + i % 2 * 2,
                                 sums[i / 2][j + kGroups / 2] + i % 2 * 2, sums[i / 2][j + kGroups - 1] + i % 2 * 2};
      const int c_column = column + j * 8 + t * 2 * kGroups, left = c_row < m ? n - c_column : 0;
      if constexpr (sizeof(Out) == 2) {
        unsigned words[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) words[e] = pack(sum[e][0], sum[e][1], Out());
        transpose_quad(words);
        store16<ALIGNED>(to + c_column, *reinterpret_cast<const Vector<Out, 8>*>(words), left);
      } else if constexpr (kSpan == 2) {
        store16<ALIGNED>(to + c_column, Vector<Out, 4>{sum[0][0], sum[1][0], sum[0][1], sum[1][1]}, left);
      } else {
#pragma unroll
        for (int e = 0; e < 2; ++e)
          store16<ALIGNED>(to + c_column + e * 4, Vector<Out, 4>{sum[0][e], sum[1][e], sum[2][e], sum[3][e]},
                           left - e * 4);
      }
    }
  }
}

}  // namespace mma
}  // namespace warpwise
