// Rows of q in bfloat16 as operands of the products of k07 and k09: which lane loads, has and stores which domains.
#pragma once

#include <cuda_bf16.h>

#include <warpwise/core/float4.cuh>

#include "colours.cuh"
#include "fragments.cuh"

// In a load lane (g, t) has a vector of 2 W adjacent domains, W = 4 in each four tiles of 16 domains, else 2 or 1. In
// the product of a selection matrix and word i of these vectors, column n is word i of vector n. Lane (g, t) then
// holds, for point g of a group, the vectors that lanes with g = 2 t and 2 t + 1 loaded: tile `base + i` has their word
// i. These are vectors t and t + 4 if W = 4, so that four lanes store 64 adjacent bytes at once, else 2 t and 2 t + 1.
//
// LAST: how many domains the last stored vector has, of eight, or of four if W is 1. 0: all exist, or the row has zeros
// in their place, which are stored again. Otherwise elements that are not domains are neither used nor written.
//
// L1 takes a load of 16 bytes per lane in steps of eight lanes, (g, t) with two g: vectors v and v + 4 of four rows. Of
// consecutive rows these have different banks if the rows are an odd multiple of 16 bytes apart. For multiples of 32
// bytes (TURN > 0) lane (g, t) loads v ^ t in place of v. A load of 8 bytes per lane has steps of 16 lanes, two pairs
// of adjacent vectors of four rows; for multiples of 64 bytes (TURN 1) lane (g, t) loads v ^ 4 (t / 2). The sum of
// point p is then in the lane with index t ^ turn(p), and `restore` moves it.
template <int TILES, int LAST = 0, int TURN = 0>
struct RowLanes {
  static constexpr int kWide = TILES / 4, kRest = TILES % 4;
  static constexpr int kLoads = kWide + (kRest + 1) / 2;
  static constexpr int kEnd = kRest == 0 ? 4 : kRest == 2 ? 2 : 1;  // W of the last load
  static constexpr int kLast = LAST % (2 * kEnd);  // the domains of its last vector, of 2 W; 0 if all exist
  static __device__ constexpr int width(int m) { return m < 4 * kWide ? 4 : kRest >= 2 && m < 4 * kWide + 2 ? 2 : 1; }
  static __device__ constexpr int base(int m) {  // the first tile of the load of tile m
    return m < 4 * kWide ? m / 4 * 4 : width(m) == 2 ? 4 * kWide : m;
  }
  static __device__ constexpr int first_of(int load) {  // its first tile
    return load <= kWide ? 4 * load : TILES - 1;
  }
  // Vector x of index t.
  static __device__ constexpr int vector(int width, int t, int x) { return width == 4 ? t + 4 * x : 2 * t + x; }
  // The domain of parity h of vector x of index t, in tile m.
  static __device__ constexpr int domain(int m, int t, int h, int x) {
    return 16 * base(m) + 2 * (width(m) * vector(width(m), t, x) + m - base(m)) + h;
  }
  // Loads that end before the last tile are complete: one address, with an offset, serves all of four tiles.
  static __device__ constexpr bool complete(int load) { return first_of(load) + width(first_of(load)) < TILES; }
  static __device__ constexpr bool shares(int load) { return load > 0 && load < kWide && complete(load); }

  const char* lanes[kLoads];  // in row 0: the lane's vector, or the first one of the load if that does not exist
  unsigned row_bytes;
  int last;  // the number of the last vector in the last load
  // Masks of the lane with this vector, for its word with one domain and its words with none; all ones in other lanes.
  unsigned half, whole;

  // turn: the index of a lane is XORed with this for rows of point `point`. turns: whether it can be other than 0.
  static __device__ constexpr bool turns(int width) { return width == 4 ? TURN > 0 : width == 2 && TURN == 1; }
  static __device__ int turn(int width, int point) {
    return !turns(width) ? 0 : width == 2 ? point % 4 / 2 * 2 : point % 4;
  }

  __device__ RowLanes(const __nv_bfloat16* q, int row, int group, int index, int domains) : row_bytes(2 * row) {
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const int m = first_of(l), w = width(m), t = group / 2 ^ turn(w, index),
                own = 16 * m + 2 * w * vector(w, t, group % 2), k = own < domains ? own : 16 * m;
      lanes[l] = held(reinterpret_cast<const char*>(q + k));
      if (l + 1 == kLoads) whole = k + 2 * w > domains ? 0 : ~0u;
    }
    half = whole | 0xffffu;
    last = (domains - 1) % (16 * kEnd) / (2 * kEnd);
  }

  // Row `at`: to[m] is a pair of domains of tile m.
  __device__ void load(unsigned (&to)[TILES], int at) const {
    const char* row = nullptr;
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const int m = first_of(l);
      if (!shares(l)) row = lanes[l] + static_cast<unsigned long long>(static_cast<unsigned>(at)) * row_bytes;
      const char* const from = shares(l) ? row + 128 * l : row;
      if (width(m) == 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(from);
        to[m] = four.x;
        to[m + 1 < TILES ? m + 1 : m] = four.y;
        to[m + 2 < TILES ? m + 2 : m] = four.z;
        to[m + 3 < TILES ? m + 3 : m] = four.w;
      } else if (width(m) == 2) {
        const uint2 two = *reinterpret_cast<const uint2*>(from);
        to[m] = two.x;
        to[m + 1 < TILES ? m + 1 : m] = two.y;
      } else {
        to[m] = *reinterpret_cast<const unsigned*>(from);
      }
    }
  }

  // Moves the sums of point `group` to the lanes whose domains they are. Sets to zero the sums of words without domains
  // in the last vector, where `used` does not mask them: the memory there may hold NaN.
  __device__ void restore(float (&around)[TILES][4], int group, int index) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
      for (int i = 0; i < 4 && turns(width(m)); ++i) {
        around[m][i] = __shfl_sync(kAllLanes, around[m][i], lane ^ turn(width(m), group));
      }
    }
#pragma unroll
    for (int m = TILES - kEnd + (kLast + 1) / 2; m < TILES && kLast > 0 && !turns(kEnd); ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) around[m][i] = vector(kEnd, index, i % 2) == last ? 0.0f : around[m][i];
    }
  }

  // Masks a loaded word when it is used. A mask right after the load would wait for the load. Zero times NaN is NaN, so
  // a word is masked if its column of the product also has domains that exist: the word with one domain and, with a
  // turn, all words without domains.
  __device__ unsigned used(int m, unsigned word) const {
    const int i = m - (TILES - kEnd) - kLast / 2;  // 0: the first word that has not two domains
    if (kLast % 2 && i == 0) return word & half;
    return turns(kEnd) && kLast > 0 && i >= 0 ? word & whole : word;
  }

  // Four or two adjacent pairs of domains from k on, of which those below `domains` are stored.
  template <int N>
  static __device__ void store(__nv_bfloat16* at, const warpwise::Vector<unsigned, N>& words, int k, int domains) {
    if (LAST == 0 || k + 2 * N <= domains) {
      if constexpr (N == 4) {
        __stcg(reinterpret_cast<uint4*>(at), make_uint4(words.at[0], words.at[1], words.at[2], words.at[3]));
      } else {
        __stcg(reinterpret_cast<uint2*>(at), make_uint2(words.at[0], words.at[1]));
      }
    } else {
      if (LAST & 4) __stcg(reinterpret_cast<uint2*>(at), make_uint2(words.at[0], words.at[1]));
      if (LAST & 2) __stcg(reinterpret_cast<unsigned*>(at + (LAST & 4)), words.at[(LAST & 4) / 2]);
      if (LAST & 1) {
        __stcg(reinterpret_cast<unsigned short*>(at + (LAST & 6)), static_cast<unsigned short>(words.at[LAST / 2]));
      }
    }
  }

  // pairs[m][x] of a point, lane t: calls each(k, vector, end) for adjacent pairs of domains from k on, of which those
  // below `end` exist.
  template <class Each>
  static __device__ void for_vectors(const unsigned (&pairs)[TILES][2], int t, int domains, const Each& each) {
    using Four = warpwise::Vector<unsigned, 4>;
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      const int m = first_of(l);
      const int a = m + 1 < TILES ? m + 1 : m, b = m + 2 < TILES ? m + 2 : m, c = m + 3 < TILES ? m + 3 : m;
      if (width(m) == 4) {
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          const int k = domain(m, t, 0, x);
          each(k, Four{pairs[m][x], pairs[a][x], pairs[b][x], pairs[c][x]}, complete(l) ? k + 8 : domains);
        }
      } else {
        const int k = domain(m, t, 0, 0), end = complete(l) ? k + 8 : domains;
        if (width(m) == 2) each(k, Four{pairs[m][0], pairs[a][0], pairs[m][1], pairs[a][1]}, end);
        if (width(m) == 1) each(k, warpwise::Vector<unsigned, 2>{pairs[m][0], pairs[m][1]}, end);
      }
    }
  }

  // pairs[m][x] of a point to its row.
  static __device__ void store(__nv_bfloat16* to, const unsigned (&pairs)[TILES][2], int t, int domains) {
    for_vectors(pairs, t, domains, [&](int k, const auto& words, int end) {
      if (k < end) store(to + k, words, k, end);
    });
  }
};
