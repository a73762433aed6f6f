// Rows of q in bfloat16 as operands of the products of k10: eight adjacent lanes have a row.
#pragma once

#include <cuda_bf16.h>

#include <warpwise/core/vector.cuh>

#include "colours.cuh"
#include "fragments.cuh"

// L1 takes a load of 16 bytes per lane in steps of eight lanes. Here the eight lanes load adjacent vectors of one row,
// which are in different banks for any pitch of the rows. A vector has W words of two domains, W = 4 in each four tiles
// of 16 domains, 2 in the last two of six or two tiles.
//
// Lane l = 4 g + t loads vector l % 8 of row l / 8 of four. As B of mma.sync, word i of a load has column g: half g % 2
// of row g / 2, and index 2 t + h of the inner dimension: domain h of word i of vector t + 4 (g % 2). A selects the
// sums of even words for rows 0 to 3 (h = 0) and 8 to 11 (h = 1), those of odd words for rows 4 to 7 and 12 to 15. So
// lane (g, t) gets the sums of row t: of word g / 4 of a pair of words, vectors g % 4 and g % 4 + 4, both h.
template <int TILES>
struct EightLanes {
  static_assert(TILES % 2 == 0, "words of a vector are added in pairs");
  static constexpr int kWide = TILES / 4, kLoads = (TILES + 3) / 4;
  static __device__ constexpr int width(int m) { return m < 4 * kWide ? 4 : 2; }  // W of tile m
  static __device__ constexpr int first_of(int m) { return m / 4 * 4; }           // the first tile of its load
  // The domain of row g + 8 h of tile m: tile 2 p + x of a load has words 2 p and 2 p + 1 of vectors 4 x to 4 x + 3.
  static __device__ constexpr int domain(int m, int g, int h) {
    return 16 * first_of(m) + 2 * (width(m) * (g % 4 + m % 2 * 4) + m % 4 / 2 * 2 + g / 4) + h;
  }

  const char* lanes[kLoads];  // in row 0: the lane's vector, or the first one of the load if that does not exist
  unsigned row_bytes;

  // columns: the domains of a row and zeros, whole vectors of 16 bytes.
  __device__ EightLanes(const __nv_bfloat16* q, int row, int columns) : row_bytes(2 * row) {
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const int own = 64 * l + 2 * width(4 * l) * (threadIdx.x % 8);
      lanes[l] = held(reinterpret_cast<const char*>(q + (own < columns ? own : 64 * l)));
    }
  }

  // Row `at`: the words of the lane's vectors.
  __device__ void load(unsigned (&to)[TILES], int at) const {
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const char* const from = lanes[l] + static_cast<unsigned long long>(static_cast<unsigned>(at)) * row_bytes;
      if (width(4 * l) == 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(from);
        const unsigned words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) to[4 * l + i < TILES ? 4 * l + i : 0] = words[i];
      } else {
        const uint2 two = *reinterpret_cast<const uint2*>(from);
        to[4 * l] = two.x;
        to[4 * l + 1] = two.y;
      }
    }
  }

  // words[x][m]: the lane's two domains of tile m, of a point of each of two rows. Lanes g and g + 4 exchange words, so
  // that g < 4 has whole vectors of the first point, and g >= 4 of the second. Calls store(k, vector) for the vectors
  // from domain k on that exist.
  template <class Store>
  static __device__ void for_vectors(const unsigned (&words)[2][TILES], int group, int columns, const Store& store) {
    unsigned both[TILES][2];  // words 2 p and 2 p + 1
    const bool upper = group >= 4;
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
      const unsigned other = __shfl_xor_sync(kAllLanes, upper ? words[0][m] : words[1][m], 16);
      both[m][0] = upper ? other : words[0][m];
      both[m][1] = upper ? words[1][m] : other;
    }
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const int m = 4 * l + x, k = 64 * l + 2 * width(4 * l) * (group % 4 + 4 * x);
        if (k >= columns) continue;
        if (width(4 * l) == 4) {
          const int after = m + 2 < TILES ? m + 2 : m;
          store(k, warpwise::Vector<unsigned, 4>{both[m][0], both[m][1], both[after][0], both[after][1]});
        } else {
          store(k, warpwise::Vector<unsigned, 2>{both[m][0], both[m][1]});
        }
      }
    }
  }
};
