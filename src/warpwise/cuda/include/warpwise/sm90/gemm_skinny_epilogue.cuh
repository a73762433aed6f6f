// Reductions of split-K and epilogues of gemm_skinny.cuh. sm_90a only.
//
// A warpgroup has sums of 64 columns x ROWS rows of C in wgmma's layout of C^T: of the warp's 16 columns, lane l has
// columns l / 4 + 8 half, rows 8 j + 2 (l % 4) + c in sums[4 j + 2 half + c].
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm80/mma_tile.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/unaligned_store.cuh>
#include <warpwise/sm90/warpgroup.cuh>

namespace warpwise {
namespace skinny {

namespace sm90 = warpwise::sm90;

constexpr int kWarpgroupThreads = 128;

// Sends this block's partial sums to the blocks of the cluster that own rows of the tile, and adds those that it
// receives to its own, in the order of ranks. Returns false in a block that owns no rows. `buffer`: shared memory for
// (SPLIT - 1) * THREADS * OWN floats; `barrier`: an mbarrier that expects as many bytes. The rank of split i is
// i * PAIR + half.
template <int SPLIT, int PAIR, int THREADS, int SUMS, int OWN>
__device__ inline bool cluster_reduce(const float (&sums)[SUMS], float (&own)[OWN], unsigned buffer, unsigned barrier,
                                      int split, int half) {
  constexpr int kOwners = SUMS / OWN, kVectors = OWN / 4;
  constexpr unsigned kSentBytes = THREADS * OWN * 4;
#pragma unroll
  for (int peer = 0; peer < kOwners; ++peer) {
    if (peer == split) continue;
    const unsigned to =
        sm90::mapa(buffer + (split - (split > peer)) * kSentBytes + threadIdx.x * 16, peer * PAIR + half);
    const unsigned remote_barrier = sm90::mapa(barrier, peer * PAIR + half);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      sm90::st_async_v4(to + i * THREADS * 16, remote_barrier, sums + peer * OWN + 4 * i);
  }
  if (split >= kOwners) return false;
#pragma unroll
  for (int peer = 0; peer < kOwners; ++peer) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) own[i] = peer == 0 || peer == split ? sums[peer * OWN + i] : own[i];
  }
  sm90::mbarrier_wait_cluster(barrier, 0);
#pragma unroll 1
  for (int peer = 0; peer < SPLIT - 1; ++peer) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      float values[4];
      ld_shared_v4(values, buffer + peer * kSentBytes + (i * THREADS + threadIdx.x) * 16);
#pragma unroll
      for (int e = 0; e < 4; ++e) own[4 * i + e] += values[e];
    }
  }
  return true;
}

// The same for `splits` blocks through global memory. Returns true in the last block to arrive, which adds all partial
// sums in the order of splits; its loads of kTogether splits are in flight together. partials:
// (splits, OWN / 4, THREADS) float4; semaphore: 0 before and after.
template <int THREADS, int OWN>
__device__ inline bool split_k_reduce(float (&own)[OWN], float4* partials, int* semaphore, int split, int splits,
                                      bool& is_last) {
  constexpr int kVectors = OWN / 4;
  partials += threadIdx.x;
  float4* const to = partials + split * kVectors * THREADS;
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    __stcg(to + i * THREADS, make_float4(own[4 * i], own[4 * i + 1], own[4 * i + 2], own[4 * i + 3]));
  sm90::named_barrier_sync(1, THREADS);
  if (threadIdx.x == 0) {
    int arrivals;
    asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;" : "=r"(arrivals) : "l"(semaphore) : "memory");
    is_last = arrivals == splits - 1;
    if (is_last) *semaphore = 0;
  }
  sm90::named_barrier_sync(1, THREADS);
  if (!is_last) return false;
#pragma unroll
  for (float& sum : own) sum = 0.0f;
  constexpr int kInFlight = THREADS > 256 ? 8 : 16, kTogether = kVectors < kInFlight ? kInFlight / kVectors : 1;
  constexpr int kAll = kTogether * kVectors, kBatch = kVectors > kInFlight ? 1 : kAll;
#pragma unroll 1
  for (int s = 0; s < splits; s += kTogether, partials += kAll * THREADS) {
#pragma unroll
    for (int first = 0; first < kAll; first += kBatch) {
      float4 values[kBatch];
#pragma unroll
      for (int i = first; i < first + kBatch; ++i)
        if (s + i / kVectors < splits) values[i - first] = __ldcg(partials + i * THREADS);
#pragma unroll
      for (int i = first; i < first + kBatch; ++i) {
        const float4 one = values[i - first];
        float* const to = own + i % kVectors * 4;
        if (s + i / kVectors < splits) to[0] += one.x, to[1] += one.y, to[2] += one.z, to[3] += one.w;
      }
    }
  }
  return true;
}

// Besides store(), an Output has kPlanes, true if each split has a separate C; kReleases, true if the cluster barrier
// before an exchange of sums orders memory; kOwnStaging, the bytes of staging memory of a warpgroup, or 0 if it is in
// the stages, which then hold staging_bytes<ROWS>(); and scales<ROWS>(row, column), called before the main loop.

// No scales.
struct Unscaled {
  float columns[2] = {1.0f, 1.0f};
  __device__ float row(int, int) const { return 1.0f; }
};

// C (m, n), row-major, of 2-byte elements, each the sum times the scales of its row and column. `aligned`: rows begin
// on 16 bytes. A warpgroup transposes 32 rows at a time in OWN_STAGING bytes of shared memory, or all, in memory of the
// stages, if this is 0.
template <class T, unsigned OWN_STAGING = 0>
struct Rows {
  static constexpr bool kPlanes = false, kReleases = false;
  static constexpr unsigned kOwnStaging = OWN_STAGING;

  T* c;
  bool aligned;
  int m, n;

  // Bytes of a warpgroup that stores ROWS rows: 128 each, of whole groups of 16 rows.
  template <int ROWS>
  static constexpr unsigned staging_bytes() {
    return (ROWS + 15) / 16 * 16 * 128;
  }

  template <int ROWS>
  __device__ Unscaled scales(int, int) const {
    return {};
  }

  // Stores 2 SUMS rows from (row, column) on, up to column `end`. staging: of this warpgroup; barrier: its named
  // barrier.
  template <int SUMS, class Scales>
  __device__ void store(const float (&sums)[SUMS], const Scales& scales, int, int row, int column, int end,
                        unsigned staging, int barrier) const {
    constexpr int kRows = SUMS * 2, kStagedRows = OWN_STAGING && kRows > 32 ? 32 : kRows;
    const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
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
          for (int h = 0; h < 2; ++h) {
            const float* const pair = sums + 4 * (j + i) + 2 * h;
            r[2 * i + h] =
                pack(pair[0] * (row_scales[0] * scales.columns[h]), pair[1] * (row_scales[1] * scales.columns[h]), T());
          }
        }
        const int to_row = j * 8 - begin + lane / 16 * 8 + lane % 8, to_unit = thread / 32 * 2 + lane / 8 % 2;
        sm90::stmatrix_x4_trans(staging + to_row * 128 + ((to_unit ^ (to_row & 7)) << 4), r);
      }
      sm90::named_barrier_sync(barrier, kWarpgroupThreads);
      store_staged<kStagedRows>(row + begin, column, min(n, end), staging);
    }
  }

  // Stores ROWS staged rows: 16 bytes per thread, or two elements per thread.
  template <int ROWS>
  __device__ void store_staged(int row, int column, int end, unsigned staging) const {
    const int thread = threadIdx.x % kWarpgroupThreads;
    if (aligned) {
      const int own_row = thread / 8, unit = thread % 8, first = column + unit * 8;  // 8 columns
      T* const to = c + static_cast<long long>(row + own_row) * n + first;
#pragma unroll
      for (int i = 0; i < ROWS; i += 16) {
        if (first >= end || row + i + own_row >= m || (ROWS % 16 && i + own_row >= ROWS)) continue;
        unsigned eight[4];
        ld_shared_v4(eight, staging + (i + own_row) * 128 + ((unit ^ (own_row & 7)) << 4));
        *reinterpret_cast<uint4*>(to + static_cast<long long>(i) * n) =
            make_uint4(eight[0], eight[1], eight[2], eight[3]);
      }
    } else {
      const int first = column + thread % 32 * 2;
#pragma unroll 2
      for (int i = thread / 32; i < ROWS && row + i < m; i += 4) {
        const unsigned pair = sm90::swizzled_word(staging, i, thread % 32);
        unsigned short* const to = reinterpret_cast<unsigned short*>(c + static_cast<long long>(row + i) * n + first);
        if (first + 1 < end && reinterpret_cast<unsigned long long>(to) % 4 == 0) {
          *reinterpret_cast<unsigned*>(to) = pair;
        } else {
          if (first < end) to[0] = static_cast<unsigned short>(pair);
          if (first + 1 < end) to[1] = static_cast<unsigned short>(pair >> 16);
        }
      }
    }
  }
};

// C (splits, m, n), float32, row-major: the sums of each split. B: the policy that gives the columns of a lane.
template <class B>
struct FloatRows {
  static constexpr bool kPlanes = true, kReleases = true;
  static constexpr unsigned kOwnStaging = 0;
  static constexpr int kPitch = 64 + 4;  // floats: lanes that store a column cover 32 banks

  float* c;
  int m, n;

  template <int ROWS>
  static constexpr unsigned staging_bytes() {
    return ROWS * kPitch * 4;
  }

  template <int ROWS>
  __device__ Unscaled scales(int, int) const {
    return {};
  }

  template <int SUMS>
  __device__ void store(const float (&sums)[SUMS], Unscaled, int split, int row, int column, int, unsigned staging,
                        int barrier) const {
    const int thread = threadIdx.x % kWarpgroupThreads, first = thread % 16 * 4, left = n - column - first;
#pragma unroll
    for (int i = 0; i < SUMS; ++i)
      st_shared(staging + ((i / 4 * 8 + thread % 4 * 2 + i % 2) * kPitch + B::column_of(i / 2 % 2)) * 4, sums[i]);
    sm90::named_barrier_sync(barrier, kWarpgroupThreads);
    const bool vectorised = n % 4 == 0 && reinterpret_cast<unsigned long long>(c) % 16 == 0;
    float* const to = c + (static_cast<long long>(split) * m + row) * n + column + first;
#pragma unroll 4
    for (int i = thread / 16; i < 2 * SUMS; i += kWarpgroupThreads / 16) {
      float four[4];
      ld_shared_v4(four, staging + (i * kPitch + first) * 4);
      if (row + i >= m || left <= 0) continue;
      if (vectorised)
        store4<true>(to + static_cast<long long>(i) * n, four, left);
      else
        store4<false>(to + static_cast<long long>(i) * n, four, left);
    }
  }
};

}  // namespace skinny
}  // namespace warpwise
