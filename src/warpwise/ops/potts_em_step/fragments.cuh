// Rows of q in the fragments of mma.sync: the domains of a lane, loads and stores of them, sums over the lanes.
#pragma once

#include <warpwise/core/vector.cuh>

struct True {
  __device__ constexpr operator bool() const { return true; }
};
struct False {
  __device__ constexpr operator bool() const { return false; }
};

// The sums, and the maxima, over the lanes that differ in the bits BEGIN to END / 2. Shuffles of different values
// overlap.
template <int BEGIN, int END, int N>
__device__ inline void lanes_sum(float (&values)[N]) {
#pragma unroll
  for (int distance = BEGIN; distance < END; distance *= 2) {
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] += __shfl_xor_sync(0xffffffffu, values[i], distance);
  }
}

template <int BEGIN, int END, int N>
__device__ inline void lanes_max(float (&values)[N]) {
#pragma unroll
  for (int distance = BEGIN; distance < END; distance *= 2) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      values[i] = fmaxf(values[i], __shfl_xor_sync(0xffffffffu, values[i], distance));
    }
  }
}

// first + at * bytes in global memory, as one instruction.
__device__ inline const char* row_at(const char* first, int at, unsigned bytes) {
  size_t found;
  asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(found) : "r"(at), "r"(bytes), "l"(__cvta_generic_to_global(first)));
  return static_cast<const char*>(__cvta_global_to_generic(found));
}

// The same address in global memory. If ptxas detects a uniform part of `base`, it adds this part last and needs three
// instructions for base + at * bytes. It cannot detect one in this value, so that one IMAD.WIDE computes the address.
__device__ inline const char* held(const char* base) {
  const size_t address = __cvta_generic_to_global(base);
  const unsigned lane = threadIdx.x % 32;
  const unsigned low = __shfl_sync(0xffffffffu, static_cast<unsigned>(address), lane);
  const unsigned high = __shfl_sync(0xffffffffu, static_cast<unsigned>(address >> 32), lane);
  return static_cast<const char*>(__cvta_global_to_generic(static_cast<size_t>(high) << 32 | low));
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
  const char* lanes;  // the lane's first domain in row 0 of q
  const char* zeros;  // the same domain of a row of zeros
  long long last;     // with VEC == 4, the bytes from it to the lane's first domain of the last, incomplete tiles
  unsigned row_bytes;
  int group, domains;

  static __device__ constexpr bool paired(int m) { return VEC == 4 && m / 2 * 2 + 1 < TILES; }
  // TILES * 16 - 16 < domains.
  static __device__ constexpr bool complete(int m) {
    return (paired(m) ? 32 * (m / 2) + 32 : 16 * m + 16) <= 16 * (TILES - 1);
  }
  static __device__ constexpr int domain(int m, int g, int h) {
    return paired(m) ? 32 * (m / 2) + 4 * g + 2 * (m % 2) + h : VEC > 1 ? 16 * m + 2 * g + h : 16 * m + g + 8 * h;
  }

  __device__ LaneDomains(const float* q, const float* zero_row, int row, int g, int count)
      : lanes(reinterpret_cast<const char*>(q + VEC * g)),
        zeros(reinterpret_cast<const char*>(zero_row + VEC * g)),
        row_bytes(4 * row),
        group(g),
        domains(count) {
    constexpr int kLast = paired(TILES - 1) ? TILES - 2 : TILES - 1;
    const int k = domain(kLast, g, 0);
    last = 4 * ((k < domains ? k : 16 * kLast) - VEC * g);  // the first domain of the tile instead of one that is none
  }

  // Row `at` of q, or zeros if it is negative: loaded too, since loads in flight must complete where lanes that branch
  // meet again. With VEC == 4 the values of domains that do not exist are those of others.
  __device__ void load(float (&to)[TILES][2], int at) const {
    const char* const row = at >= 0 ? row_at(lanes, at, row_bytes) : zeros;
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
      const char* const from = VEC == 4 && !complete(m) ? row + last : row + 64 * m;
      const auto exists = [&](int h) { return complete(m) || domain(m, group, h) < domains; };
      if (paired(m)) {
        if (m % 2) continue;
        const auto four = load_if<4>(from, true);
#pragma unroll
        for (int i = 0; i < 4; ++i) to[m + i / 2 < TILES ? m + i / 2 : m][i % 2] = four.at[i];
      } else if (VEC > 1) {
        const auto two = load_if<2>(from, VEC == 4 || exists(0));
        to[m][0] = two.at[0];
        to[m][1] = two.at[1];
      } else {
        to[m][0] = load_if<1>(from, exists(0)).at[0];
        to[m][1] = load_if<1>(from + 32, exists(1)).at[0];
      }
    }
  }

  // A row in shared memory, TILES * 16 floats aligned to 16 bytes.
  static __device__ void load_shared(float (&to)[TILES][2], const float* row, int group) {
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
      const float* const from = row + domain(m, group, 0);
      if (paired(m)) {
        if (m % 2) continue;
        const auto four = *reinterpret_cast<const warpwise::Vector<float, 4>*>(from);
#pragma unroll
        for (int i = 0; i < 4; ++i) to[m + i / 2 < TILES ? m + i / 2 : m][i % 2] = four.at[i];
      } else if (VEC > 1) {
        const auto two = *reinterpret_cast<const warpwise::Vector<float, 2>*>(from);
        to[m][0] = two.at[0];
        to[m][1] = two.at[1];
      } else {
        to[m][0] = from[0];
        to[m][1] = from[8];
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
