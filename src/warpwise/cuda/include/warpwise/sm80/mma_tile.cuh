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

// SIZE rows of A or columns of B, DEPTH bytes of K. ALONG: the operand is K-major (row-major A, column-major B), else
// MN-major. A line is contiguous in global memory.
//
// A unit is 16 bytes, a row of an 8 x 8 matrix. The eight units that ldmatrix reads together are in one column of
// units, in lines that differ in the three bits of swizzle(line); XOR with these bits spreads the eight over all 32
// banks.
template <Side SIDE, class T, int SIZE, int DEPTH, bool ALONG>
struct OperandTile {
  static constexpr int kSize = sizeof(T), kSpan = OperandTraits<T>::kSpan, kUnit = 16 / kSize;  // elements
  static constexpr int kLines = ALONG ? SIZE : DEPTH / kSize, kPitch = ALONG ? DEPTH : SIZE * kSize;
  static constexpr int kBytes = kLines * kPitch, kSteps = DEPTH / 32;
  static_assert(DEPTH == 64 || DEPTH == 128, "a line of 128 bytes holds one or two rows");
  static_assert(ALONG || kPitch >= (kSpan == 2 ? 64 : 128), "lines of an MN-major tile fill the 32 banks");

  __device__ static constexpr int swizzle(int line) {
    if (ALONG) return line / (kSpan > 128 / kPitch ? kSpan : 128 / kPitch) & 7;
    if (kSpan == 2) return kPitch == 64 ? line >> 2 & 3 : (line >> 1 & 6) | (line & 1);
    return kSpan == 4 ? (line & 3) << 1 : line & 7;
  }

  __device__ static unsigned offset(int line, int unit) {
    return static_cast<unsigned>((line * kPitch + unit * 16) ^ (swizzle(line) << 4));
  }

  // Period of swizzle(), in lines.
  static constexpr int kPeriod = ALONG ? 8 * (kSpan > 128 / kPitch ? kSpan : 128 / kPitch) : kSpan == 2 ? 16 : 8;

  // All threads copy the tile of `matrix` that begins at row or column `first` of `size` and at `depth` of k; its lines
  // are `stride` elements apart. Elements past an edge are zero.
  template <int WORD, int THREADS>
  __device__ static void copy(unsigned char* to, const T* matrix, int stride, int first, int size, int depth, int k) {
    constexpr int kUnits = kPitch / 16, kRound = THREADS / kUnits;  // lines of one round of copies
    static_assert(THREADS % kUnits == 0 && kLines % kRound == 0, "whole rounds");
    constexpr int kAlike = kPeriod > kRound ? kPeriod / kRound : 1;  // rounds with different swizzles
    const int unit = static_cast<int>(threadIdx.x) % kUnits, line = static_cast<int>(threadIdx.x) / kUnits;
    const int lines = ALONG ? size - first : k - depth, elements = ALONG ? k - depth : size - first;
    const T* from = matrix + static_cast<long long>((ALONG ? first : depth) + line) * stride + (ALONG ? depth : first) +
                    unit * kUnit;
#pragma unroll
    for (int round = 0; round < kLines / kRound; ++round) {
      unsigned char* const into =
          to + offset(line + round % kAlike * kRound, unit) + round / kAlike * (kAlike * kRound * kPitch);
      copy16<WORD>(into, from, line + round * kRound < lines ? elements - unit * kUnit : 0);
      from += static_cast<long long>(kRound) * stride;
    }
  }

  // Register of a pair of groups for (group, half of K). mma.sync takes consecutive registers: (0, 0), (1, 0), (0, 1),
  // (1, 1) of A and (0, 0), (0, 1) of a group of B.
  __device__ static constexpr int held(int group, int half) {
    return SIDE == Side::kA ? 2 * half + group : 2 * group + half;
  }

  // Offset in a tile at which this lane loads the warp's fragments, whose first row or column is `first`.
  __device__ static unsigned place(int first) {
    const int lane = threadIdx.x % 32, i = lane / 8, j = lane % 8;  // matrix and row of ldmatrix
    const int group = SIDE == Side::kA ? i % 2 : i / 2, half = SIDE == Side::kA ? i / 2 : i % 2;
    if (ALONG) return offset(first + position(kSpan, group, j), half);
    if (kSpan == 1) return offset(half * 8 + j, first / kUnit + group);
    if (kSpan == 2) return offset(i / 2 * 16 + j / 2 * 4 + i % 2 * 2 + j % 2, first / kUnit);
    return offset(lane % 4, first / kUnit + lane / 4);
  }

  // Loads the fragments of 16 * PAIRS rows or columns at K step `step` (32 bytes): r[p] holds groups 2 p and 2 p + 1.
  template <int PAIRS>
  __device__ static void fetch(unsigned (&r)[PAIRS][4], const unsigned char* slice, unsigned place, int step) {
    const unsigned char* const lines = slice + step * (32 / kSize) * kPitch;
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) {
      const unsigned beside = p * 16 * kSize;
      if constexpr (ALONG) {
        ldmatrix_x4(r[p], shared_address(slice + (place ^ step * 32u) + position(kSpan, 2 * p, 0) * kPitch));
      } else if constexpr (kSpan == 1) {
        ldmatrix_x4_trans(r[p], shared_address(lines + (place ^ beside % 128) + beside / 128 * 128));
      } else if constexpr (kSpan == 2) {  // byte pairs at two depths, twice: four depths of each row
        unsigned pairs[4];
        ldmatrix_x4_trans(pairs, shared_address(lines + (place ^ beside % 128) + beside / 128 * 128));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          r[p][held(0, half)] = __byte_perm(pairs[2 * half], pairs[2 * half + 1], 0x6420);
          r[p][held(1, half)] = __byte_perm(pairs[2 * half], pairs[2 * half + 1], 0x7531);
        }
      } else if (p % 2 == 0) {
        static_assert(ALONG || kSpan < 4 || PAIRS % 2 == 0, "four floats belong to four groups");
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const auto quad = *reinterpret_cast<const Quad*>(lines + place + beside + half * 4 * kPitch);
#pragma unroll
          for (int e = 0; e < 4; ++e) r[p + e / 2][held(e % 2, half)] = quad.at[e];
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
    const unsigned came = __shfl_xor_sync(0xffffffffu, odd ? words[i] : words[i + 1], 1);
    (odd ? words[i] : words[i + 1]) = came;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned came = __shfl_xor_sync(0xffffffffu, high ? words[i] : words[i + 2], 2);
    (high ? words[i] : words[i + 2]) = came;
  }
}

__device__ inline unsigned pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

__device__ inline unsigned pack(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
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
      const Sum* const own[4] = {sums[i / 2][j] + i % 2 * 2, sums[i / 2][j + 1] + i % 2 * 2,
                                 sums[i / 2][j + kGroups / 2] + i % 2 * 2, sums[i / 2][j + kGroups - 1] + i % 2 * 2};
      const int c_column = column + j * 8 + t * 2 * kGroups, left = c_row < m ? n - c_column : 0;
      if constexpr (sizeof(Out) == 2) {
        unsigned words[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) words[e] = pack(own[e][0], own[e][1], Out());
        transpose_quad(words);
        store16<ALIGNED>(to + c_column, *reinterpret_cast<const Vector<Out, 8>*>(words), left);
      } else if constexpr (kSpan == 2) {
        store16<ALIGNED>(to + c_column, Vector<Out, 4>{own[0][0], own[1][0], own[0][1], own[1][1]}, left);
      } else {
#pragma unroll
        for (int e = 0; e < 2; ++e)
          store16<ALIGNED>(to + c_column + e * 4, Vector<Out, 4>{own[0][e], own[1][e], own[2][e], own[3][e]},
                           left - e * 4);
      }
    }
  }
}

}  // namespace mma
}  // namespace warpwise
