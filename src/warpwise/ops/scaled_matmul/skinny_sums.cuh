// What becomes of k07's sums: those of other blocks are added, in a fixed order, and all leave scaled, in rows of 128
// bytes.
#pragma once

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/warpgroup.cuh>

#include "skinny_ring.cuh"

// Scales of a warp's 16 columns of B and ROWS rows of A. A lane has those of its two columns, and of every 32nd row;
// without BY_ROW one of either.
template <bool BY_ROW, int ROWS>
struct Scales {
  float columns[2], rows[(ROWS + 31) / 32];

  __device__ Scales(const float* __restrict__ scale_a, const float* __restrict__ scale_b, int row, int column, int m,
                    int n) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) columns[i] = scale_b[BY_ROW ? min(column + i * 8 + lane / 4, n - 1) : 0];
#pragma unroll
    for (int i = 0; i < (ROWS + 31) / 32; ++i) rows[i] = scale_a[BY_ROW ? min(row + i * 32 + lane, m - 1) : 0];
  }

  // Of row 8 * eight + `in_eight`, which differs between lanes.
  __device__ float row(int eight, int in_eight) const {
    return BY_ROW ? __shfl_sync(0xffffffffu, rows[eight / 4], eight % 4 * 8 + in_eight) : rows[0];
  }
};

// own = this block's share of the sums of all SPLIT blocks of a cluster: of OWNERS shares each belongs to a block, to
// which the others send theirs. `room`: shared memory of (SPLIT - 1) * THREADS * SUMS / OWNERS floats, `arrived`: a
// barrier that waits for as many. The first block's sums come first. False for a block without a share.
template <int SPLIT, int OWNERS, int THREADS, int SUMS>
__device__ inline bool exchange(const float (&sums)[SUMS], float (&own)[SUMS / OWNERS], unsigned room, unsigned arrived,
                                int rank) {
  constexpr int kQuads = SUMS / OWNERS / 4;
  static_assert(SUMS % (4 * OWNERS) == 0, "four sums are sent at once");
  const auto place = [&](int from, int to) {  // of what block `from` sends to block `to`
    return room + ((from < to ? from : from - 1) * kQuads * THREADS + threadIdx.x) * 16;
  };
#pragma unroll
  for (int to = 0; to < OWNERS; ++to) {
    const float* const share = sums + to * kQuads * 4;
    if (to == rank) {
#pragma unroll
      for (int e = 0; e < kQuads * 4; ++e) own[e] = share[e];
    } else {
      const unsigned there = sm90::mapa(place(rank, to), to), barrier = sm90::mapa(arrived, to);
#pragma unroll
      for (int q = 0; q < kQuads; ++q) sm90::st_async_v4(there + q * THREADS * 16, barrier, share + 4 * q);
    }
  }
  if (rank >= OWNERS) return false;
  sm90::mbarrier_wait_cluster(arrived, 0);
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    float sum[4] = {};
#pragma unroll
    for (int from = 0; from < SPLIT; ++from) {
      float more[4];
      if (from != rank) warpwise::ld_shared_v4(more, place(from, rank) + q * THREADS * 16);
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] += from == rank ? own[4 * q + e] : more[e];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) own[4 * q + e] = sum[e];
  }
  return true;
}

// The same of `outer` blocks by way of global memory: the last to come adds them and is told so. parts: (outer, SUMS /
// 4) of all THREADS, `stride` quads from part to part.
template <int THREADS, int SUMS>
__device__ inline bool add_parts(float (&sums)[SUMS], float4* parts, long long stride, int part, int outer,
                                 int* ticket) {
#pragma unroll
  for (int q = 0; q < SUMS / 4; ++q)
    parts[part * stride + q * THREADS + threadIdx.x] =
        make_float4(sums[4 * q], sums[4 * q + 1], sums[4 * q + 2], sums[4 * q + 3]);
  if (!warpwise::is_last_block(ticket, outer, [] { sm90::named_barrier_sync(1, THREADS); })) return false;
#pragma unroll
  for (int e = 0; e < SUMS; ++e) sums[e] = 0.0f;
  for (int from = 0; from < outer; ++from) {
#pragma unroll
    for (int q = 0; q < SUMS / 4; ++q) {
      const float4 more = __ldcg(parts + from * stride + q * THREADS + threadIdx.x);
      sums[4 * q] += more.x;
      sums[4 * q + 1] += more.y;
      sums[4 * q + 2] += more.z;
      sums[4 * q + 3] += more.w;
    }
  }
  return true;
}

// A warpgroup's sums, 2 SUMS rows of A and 64 columns of B from (row, column) of c: (m, n) on, as `product` leaves
// them: scaled, rounded and written, up to column `end`, 32 rows at a time by way of `room`, 4 KiB of shared memory.
// ALIGNED: c and its rows lie on 16 bytes. `barrier`: a named one of the warpgroup.
template <bool BY_ROW, bool ALIGNED, int SUMS>
__device__ inline void leave(const float (&sums)[SUMS], const Scales<BY_ROW, SUMS * 2>& scales, __nv_bfloat16* c,
                             int row, int column, int m, int n, int end, unsigned room, int barrier) {
  constexpr int kRows = SUMS * 2, kOnce = kRows < 32 ? kRows : 32;
  const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
  const int own_row = thread / 8, unit = thread % 8, first = column + unit * 8;  // of what this thread writes
  __nv_bfloat16* const to = c + static_cast<long long>(row + own_row) * n + first;
#pragma unroll
  for (int begin = 0; begin < kRows; begin += kOnce) {
    if (begin > 0) sm90::named_barrier_sync(barrier, kWarpgroupThreads);  // the rows before have been read
#pragma unroll
    for (int j = begin / 8; j < (begin + kOnce) / 8; j += 2) {  // 16 rows: two eights
      unsigned r[4] = {};
#pragma unroll
      for (int i = 0; i < 2 && j + i < kRows / 8; ++i) {
        const float of_row[2] = {scales.row(j + i, lane % 4 * 2), scales.row(j + i, lane % 4 * 2 + 1)};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float* const pair = sums + 4 * (j + i) + 2 * half;
          const __nv_bfloat162 two = __floats2bfloat162_rn(pair[0] * (of_row[0] * scales.columns[half]),
                                                           pair[1] * (of_row[1] * scales.columns[half]));
          r[2 * i + half] = *reinterpret_cast<const unsigned*>(&two);
        }
      }
      const int to_row = j * 8 - begin + lane / 16 * 8 + lane % 8, to_unit = thread / 32 * 2 + lane / 8 % 2;
      sm90::stmatrix_x4_trans(room + to_row * 128 + ((to_unit ^ (to_row & 7)) << 4), r);
    }
    sm90::named_barrier_sync(barrier, kWarpgroupThreads);
#pragma unroll
    for (int i = 0; i < kOnce; i += 16) {
      if (first >= end || row + begin + i + own_row >= m || (kOnce < 16 && own_row >= kOnce)) continue;
      unsigned eight[4];
      warpwise::ld_shared_v4(eight, room + (i + own_row) * 128 + ((unit ^ (own_row & 7)) << 4));
      __nv_bfloat16* const at = to + static_cast<long long>(begin + i) * n;
      if (ALIGNED) {
        *reinterpret_cast<uint4*>(at) = make_uint4(eight[0], eight[1], eight[2], eight[3]);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e)
          if (first + e < n)
            reinterpret_cast<unsigned short*>(at)[e] = static_cast<unsigned short>(eight[e / 2] >> e % 2 * 16);
      }
    }
  }
}
