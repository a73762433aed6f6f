// Rows of q in the fragments of mma.sync: the domains of a lane, loads and stores of them, sums over the lanes.
#pragma once

#include <warpwise/core/vector.cuh>

struct True {
  __device__ constexpr operator bool() const { return true; }
};
struct False {
  __device__ constexpr operator bool() const { return false; }
};

// The sum, and the maximum, over the eight lanes that have one index in their groups.
__device__ inline float groups_sum(float value) {
#pragma unroll
  for (int distance = 4; distance < 32; distance *= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

__device__ inline float groups_max(float value) {
#pragma unroll
  for (int distance = 4; distance < 32; distance *= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// N adjacent floats, or zeros if not `valid`.
template <int N>
__device__ inline warpwise::Vector<float, N> load_if(const char* from, bool valid) {
  warpwise::Vector<float, N> values = {};
  if (valid) values = *reinterpret_cast<const warpwise::Vector<float, N>*>(from);
  return values;
}

// The domains of a lane in TILES tiles of 16, two in each: rows g and g + 8 of the fragment of group g. VEC divides the
// number of domains. With VEC == 4 a lane has four adjacent domains in each pair of tiles; else, and in the last of an
// odd number of tiles, two adjacent ones in each tile; with VEC == 1 domains g and g + 8. Eight lanes are adjacent.
template <int TILES, int VEC>
struct LaneDomains {
  // Of row 0 of q: the lane's domains in pairs of tiles, those in single tiles, and those of rows g and g + 8 in the
  // tiles that may be incomplete. A lane whose domain does not exist has the first of the tile instead.
  const char *quads, *pairs, *last[2];
  unsigned row_bytes;

  static __device__ constexpr bool paired(int m) { return VEC == 4 && m / 2 * 2 + 1 < TILES; }
  // TILES * 16 - 16 < domains.
  static __device__ constexpr bool complete(int m) {
    return (paired(m) ? 32 * (m / 2) + 32 : 16 * m + 16) <= 16 * (TILES - 1);
  }
  static __device__ constexpr int domain(int m, int g, int h) {
    return paired(m) ? 32 * (m / 2) + 4 * g + 2 * (m % 2) + h : VEC > 1 ? 16 * m + 2 * g + h : 16 * m + g + 8 * h;
  }

  __device__ LaneDomains(const float* q, int row, int g, int domains) : row_bytes(4 * row) {
    constexpr int kLast = paired(TILES - 1) ? TILES - 2 : TILES - 1;
    quads = reinterpret_cast<const char*>(q + 4 * g);
    pairs = reinterpret_cast<const char*>(q + (VEC > 1 ? 2 : 1) * g);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int k = domain(kLast, g, VEC > 1 ? 0 : h);
      last[h] = reinterpret_cast<const char*>(q + (k < domains ? k : 16 * kLast));
    }
  }

  // Row `at` of q, or zeros if not `valid`. The values of domains that do not exist are not defined, but finite.
  __device__ void load(float (&to)[TILES][2], int at, bool valid) const {
    const unsigned long long bytes = static_cast<unsigned long long>(static_cast<unsigned>(at)) * row_bytes;
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
      if (paired(m)) {
        if (m % 2) continue;
        const auto four = load_if<4>(complete(m) ? quads + bytes + 64 * m : last[0] + bytes, valid);
#pragma unroll
        for (int i = 0; i < 4; ++i) to[m + i / 2 < TILES ? m + i / 2 : m][i % 2] = four.at[i];
      } else if (VEC > 1) {
        const auto two = load_if<2>(complete(m) ? pairs + bytes + 64 * m : last[0] + bytes, valid);
        to[m][0] = two.at[0];
        to[m][1] = two.at[1];
      } else {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          to[m][h] = load_if<1>(complete(m) ? pairs + bytes + 64 * m + 32 * h : last[h] + bytes, valid).at[0];
        }
      }
    }
  }

  static __device__ void add(float (&sums)[TILES][2], float weight, const float (&values)[TILES][2]) {
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) sums[m][h] += weight * values[m][h];
    }
  }

  static __device__ void store(float* to, const float (&from)[TILES][2], int group, int domains) {
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
      const auto exists = [&](int h) { return complete(m) || domain(m, group, h) < domains; };
      if (paired(m)) {
        if (m % 2 || !exists(0)) continue;
        const int after = m + 1 < TILES ? m + 1 : m;
        __stcg(reinterpret_cast<float4*>(to + domain(m, group, 0)),
               make_float4(from[m][0], from[m][1], from[after][0], from[after][1]));
      } else if (VEC > 1) {
        if (exists(0)) __stcg(reinterpret_cast<float2*>(to + domain(m, group, 0)), make_float2(from[m][0], from[m][1]));
      } else {
        if (exists(0)) __stcg(to + domain(m, group, 0), from[m][0]);
        if (exists(1)) __stcg(to + domain(m, group, 1), from[m][1]);
      }
    }
  }
};
