// Reductions and epilogue of k07: partial sums of other blocks are added in a fixed order, scaled and stored in rows
// of 128 bytes.
#pragma once

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/warpgroup.cuh>

#include "skinny_pipeline.cuh"

// Scales of a warp's 16 columns of B and ROWS rows of A. A lane holds those of its two columns, and of every 32nd row;
// without ROWWISE one of each.
template <bool ROWWISE, int ROWS>
struct Scales {
  float columns[2], rows[(ROWS + 31) / 32];

  __device__ Scales(const float* __restrict__ scale_a, const float* __restrict__ scale_b, int row, int column, int m,
                    int n) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) columns[i] = scale_b[ROWWISE ? min(column + i * 8 + lane / 4, n - 1) : 0];
#pragma unroll
    for (int i = 0; i < (ROWS + 31) / 32; ++i) rows[i] = scale_a[ROWWISE ? min(row + i * 32 + lane, m - 1) : 0];
  }

  // The scale of row 8 * eight + row_in_group, which differs between lanes.
  __device__ float row(int eight, int row_in_group) const {
    return ROWWISE ? __shfl_sync(0xffffffffu, rows[eight / 4], eight % 4 * 8 + row_in_group) : rows[0];
  }
};

// own_sums = the sums over all SPLIT blocks of a cluster that this block owns. The sums are divided among OWNERS
// blocks, to which the other blocks send theirs. `scratch`: shared memory for (SPLIT - 1) * THREADS * SUMS / OWNERS
// floats; `sums_barrier`: an mbarrier that expects as many bytes. Sums are added in the order of ranks. False for
// blocks that own none.
template <int SPLIT, int OWNERS, int THREADS, int SUMS>
__device__ inline bool cluster_reduce(const float (&sums)[SUMS], float (&own_sums)[SUMS / OWNERS], unsigned scratch,
                                      unsigned sums_barrier, int rank) {
  constexpr int kVectors = SUMS / OWNERS / 4;
  static_assert(SUMS % (4 * OWNERS) == 0, "four sums are sent by one instruction");
  const auto slot_address = [&](int from, int to) {  // of the sums that block `from` sends to block `to`
    return scratch + ((from < to ? from : from - 1) * kVectors * THREADS + threadIdx.x) * 16;
  };
#pragma unroll
  for (int to = 0; to < OWNERS; ++to) {
    const float* const chunk = sums + to * kVectors * 4;
    if (to == rank) {
#pragma unroll
      for (int e = 0; e < kVectors * 4; ++e) own_sums[e] = chunk[e];
    } else {
      const unsigned remote = sm90::mapa(slot_address(rank, to), to), barrier = sm90::mapa(sums_barrier, to);
#pragma unroll
      for (int q = 0; q < kVectors; ++q) sm90::st_async_v4(remote + q * THREADS * 16, barrier, chunk + 4 * q);
    }
  }
  if (rank >= OWNERS) return false;
  sm90::mbarrier_wait_cluster(sums_barrier, 0);
#pragma unroll
  for (int q = 0; q < kVectors; ++q) {
    float sum[4] = {};
#pragma unroll
    for (int from = 0; from < SPLIT; ++from) {
      float values[4];
      if (from != rank) warpwise::ld_shared_v4(values, slot_address(from, rank) + q * THREADS * 16);
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] += from == rank ? own_sums[4 * q + e] : values[e];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) own_sums[4 * q + e] = sum[e];
  }
  return true;
}

// The same for `splits` blocks through global memory: true in the last block to arrive, which adds them. partials:
// (splits, SUMS / 4) of all THREADS, `stride` float4 from split to split.
template <int THREADS, int SUMS>
__device__ inline bool split_k_reduce(float (&sums)[SUMS], float4* partials, long long stride, int split, int splits,
                                      int* semaphore) {
#pragma unroll
  for (int q = 0; q < SUMS / 4; ++q)
    partials[split * stride + q * THREADS + threadIdx.x] =
        make_float4(sums[4 * q], sums[4 * q + 1], sums[4 * q + 2], sums[4 * q + 3]);
  if (!warpwise::is_last_block(semaphore, splits, [] { sm90::named_barrier_sync(1, THREADS); })) return false;
#pragma unroll
  for (int e = 0; e < SUMS; ++e) sums[e] = 0.0f;
  for (int from = 0; from < splits; ++from) {
#pragma unroll
    for (int q = 0; q < SUMS / 4; ++q) {
      const float4 values = __ldcg(partials + from * stride + q * THREADS + threadIdx.x);
      sums[4 * q] += values.x;
      sums[4 * q + 1] += values.y;
      sums[4 * q + 2] += values.z;
      sums[4 * q + 3] += values.w;
    }
  }
  return true;
}

// Epilogue of a warpgroup: scales, rounds and stores 2 SUMS rows of A by 64 columns of B to c: (m, n) at (row,
// column), up to column `end`, 32 rows at a time through `scratch`, 4 KiB of shared memory. `sums`: in wgmma's layout
// of C^T. ALIGNED: rows of c are 16-byte aligned. `barrier`: the named barrier of the warpgroup.
template <bool ROWWISE, bool ALIGNED, int SUMS>
__device__ inline void epilogue(const float (&sums)[SUMS], const Scales<ROWWISE, SUMS * 2>& scales, __nv_bfloat16* c,
                                int row, int column, int m, int n, int end, unsigned scratch, int barrier) {
  constexpr int kRows = SUMS * 2, kStagedRows = kRows < 32 ? kRows : 32;
  const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
  const int own_row = thread / 8, unit = thread % 8,
            first = column + unit * 8;  // of the 16 bytes that this thread stores
  __nv_bfloat16* const to = c + static_cast<long long>(row + own_row) * n + first;
#pragma unroll
  for (int begin = 0; begin < kRows; begin += kStagedRows) {
    if (begin > 0) sm90::named_barrier_sync(barrier, kWarpgroupThreads);  // the previous rows have been read
#pragma unroll
    for (int j = begin / 8; j < (begin + kStagedRows) / 8; j += 2) {  // 16 rows: two groups of eight
      unsigned r[4] = {};
#pragma unroll
      for (int i = 0; i < 2 && j + i < kRows / 8; ++i) {
        const float row_scales[2] = {scales.row(j + i, lane % 4 * 2), scales.row(j + i, lane % 4 * 2 + 1)};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float* const pair = sums + 4 * (j + i) + 2 * half;
          const __nv_bfloat162 rounded = __floats2bfloat162_rn(pair[0] * (row_scales[0] * scales.columns[half]),
                                                               pair[1] * (row_scales[1] * scales.columns[half]));
          r[2 * i + half] = *reinterpret_cast<const unsigned*>(&rounded);
        }
      }
      const int to_row = j * 8 - begin + lane / 16 * 8 + lane % 8, to_unit = thread / 32 * 2 + lane / 8 % 2;
      sm90::stmatrix_x4_trans(scratch + to_row * 128 + ((to_unit ^ (to_row & 7)) << 4), r);
    }
    sm90::named_barrier_sync(barrier, kWarpgroupThreads);
#pragma unroll
    for (int i = 0; i < kStagedRows; i += 16) {
      if (first >= end || row + begin + i + own_row >= m || (kStagedRows < 16 && own_row >= kStagedRows)) continue;
      unsigned eight[4];
      warpwise::ld_shared_v4(eight, scratch + (i + own_row) * 128 + ((unit ^ (own_row & 7)) << 4));
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
