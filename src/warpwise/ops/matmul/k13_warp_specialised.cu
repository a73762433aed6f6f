// Warp specialisation on the CUDA cores: four producer warps load k-tiles, eight consumer warps multiply; mbarriers.
//
// The roles synchronise by mbarriers of a pipeline only, not by block barriers. The consumers' main loop contains no
// address computation, no bounds check and no copy: 8 k are 1024 multiply-adds in 1108 instructions.
//
// Fragments, two float4 of A and four of B per k, are loaded during the multiply-adds of the k before. Block tiles
// below 128 x 256 have fewer than eight warp tiles; warps then divide each k-tile and add their sums in the epilogue,
// so the main loop is the same for all tile sizes. The k-tiles of an incomplete last wave may be divided between all
// blocks (stream-K); a second launch reduces the partial sums.

#include <warpwise/core/float4.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>

#include <warpwise/sm90/gemm_simt.cuh>
#include "epilogue.cuh"

namespace sm90 = warpwise::sm90;
using warpwise::OperandLoad, warpwise::Operand, sm90::PipelineState, warpwise::WorkUnit, warpwise::StreamK,
    sm90::TensorMap;

constexpr int kProducerWarps = 4, kThreads = kProducerWarps * 32 + warpwise::kConsumerThreads;

// A block's tile is BM x BN; tensor maps have boxes of TILE_K x BM and TILE_K x BN.
template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A, OperandLoad LOAD_B>
__device__ __forceinline__ void multiply(const TensorMap* a_map, const TensorMap* b_map, const Operand& a,
                                         const Operand& b, float* __restrict__ c, int rows, int columns, int group,
                                         const StreamK& stream_k) {
  using W = warpwise::Warps<BM, BN>;
  constexpr int kSteps = TILE_K / W::split, kPitchA = k_tile_pitch(LOAD_A, BM), kPitchB = k_tile_pitch(LOAD_B, BN);
  constexpr int kFloatsA = TILE_K * kPitchA, kFloats = kFloatsA + TILE_K * kPitchB;
  constexpr bool kTmaA = LOAD_A == warpwise::kTma, kTmaB = LOAD_B == warpwise::kTma;
  constexpr bool kTma = kTmaA || kTmaB, kCpAsync = !(kTmaA && kTmaB);
  constexpr unsigned kTmaBytes = ((kTmaA ? BM : 0) + (kTmaB ? BN : 0)) * TILE_K * 4;
  // Registers per thread: 12 warps start with 168; the producers release some to the consumers.
  constexpr int kProducerRegisters = W::split == 1 && kTmaB ? 56 : 72,
                kConsumerRegisters = (12 * 168 - kProducerWarps * kProducerRegisters) / 8;
  static_assert(kSteps % 8 == 0, "the main loop is unrolled by 8");
  static_assert(STAGES >= kProducerWarps, "consecutive k-tiles of a producer warp use different stages");

  extern __shared__ unsigned char raw[];
  float* const ring =
      reinterpret_cast<float*>(raw + (-warpwise::shared_address(raw) & 127));  // TMA needs 128-byte alignment
  float* const staging = ring + STAGES * kFloats;
  const sm90::Pipeline pipeline(warpwise::shared_address(staging + warpwise::kStaging), STAGES);
  const int k_tiles = (a.k + TILE_K - 1) / TILE_K, units = stream_k.units();

  if (threadIdx.x == 0) {
    pipeline.init((kTma ? 1 : 0) + (kCpAsync ? 32 : 0), warpwise::kWarps);
    sm90::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kProducerWarps * 32) {
    sm90::warpgroup_reg_dealloc<kProducerRegisters>();
    int s = threadIdx.x / 32;   // a warp loads every fourth k-tile, counted across work units
    PipelineState state{s, 1};  // all stages are free at first
    for (int unit_index = blockIdx.x; unit_index < units; unit_index += gridDim.x) {
      const WorkUnit unit = stream_k.unit(unit_index, k_tiles);
      const int2 tile = warpwise::tile_at(unit.tile, rows, columns, group, BM, BN);
      for (; s < unit.k_tiles; s += kProducerWarps, state.advance(kProducerWarps, STAGES)) {
        const unsigned full_barrier = pipeline.full_barrier(state.index);
        float* const to = ring + state.index * kFloats;
        const int k_offset = (unit.first + s) * TILE_K;
        pipeline.producer_acquire(state);
        if (kTma && threadIdx.x % 32 == 0) {
          sm90::mbarrier_arrive_expect_tx(full_barrier, kTmaBytes);
          if (kTmaA) sm90::tma_load_2d(warpwise::shared_address(to), a_map, full_barrier, tile.x, k_offset);
          if (kTmaB) sm90::tma_load_2d(warpwise::shared_address(to + kFloatsA), b_map, full_barrier, tile.y, k_offset);
        }
        if constexpr (!kTmaA) warpwise::copy_k_tile<LOAD_A, BM, TILE_K>(to, a, tile.x, k_offset);
        if constexpr (!kTmaB) warpwise::copy_k_tile<LOAD_B, BN, TILE_K>(to + kFloatsA, b, tile.y, k_offset);
        if (kCpAsync) sm90::cp_async_mbarrier_arrive(full_barrier);
      }
      s -= unit.k_tiles;
    }
    return;
  }

  sm90::warpgroup_reg_alloc<kConsumerRegisters>();
  const int warp = threadIdx.x / 32 - kProducerWarps, lane = threadIdx.x % 32;
  const int warp_tile = warp % W::tiles,
            k_begin = warp / W::tiles * kSteps;  // the warp tile and the first k of this warp in a k-tile
  const float* const a_lane = ring + k_begin * kPitchA + warp_tile / W::tiles_n * W::rows + lane / W::lanes_n * 4;
  const float* const b_lane =
      ring + kFloatsA + k_begin * kPitchB + warp_tile % W::tiles_n * W::columns + lane % W::lanes_n * 4;
  const float zero = rows < 0 ? 1.0f : 0.0f;
  PipelineState state{0, 0};
  for (int unit_index = blockIdx.x; unit_index < units; unit_index += gridDim.x) {
    float sums[8][16] = {};
    const int count = stream_k.unit(unit_index, k_tiles).k_tiles;
    // Chosen by times on an H200: of A in words and B by TMA, tiles of 128 x 256 x 8 and 64 x 256 x 16 were measured.
    constexpr bool kMeasured = !kTmaA && kTmaB && BN == 256 && kSteps == 8;
    constexpr bool kEarly = kTmaB && (kMeasured ? W::split == 2 : W::split == 1);
    constexpr bool kInSecondStep = kMeasured ? W::split <= 2 : W::split == 1 && !kTmaB;
    warpwise::multiply_k_tiles<kSteps, kFloats, kPitchA, kPitchB, STAGES, W::rows / 2, W::columns / 4, kEarly,
                               kInSecondStep>(sums, a_lane, b_lane, count, pipeline, state, lane == 0);

    const WorkUnit unit = stream_k.unit(unit_index, k_tiles);
    const int2 tile = warpwise::tile_at(unit.tile, rows, columns, group, BM, BN);
    const int thread = warpwise::reread_thread_index() - kProducerWarps * 32;
    const bool whole = unit.slot < 0;
    float* const partial = stream_k.partials + static_cast<long long>(unit.slot) * (BM * BN);
    warpwise::store_tile<BM, BN>(sums, staging, whole ? c : partial, whole ? a.extent : BM, whole ? b.extent : BN,
                                 whole ? tile : int2{0, 0}, thread, zero);
  }
}

// a: (m, k), b: (k, n), c: (m, n), c row-major. The kernels differ in the operands that TMA loads. rows, columns:
// tiles of C; group: of the raster order; from partials on: StreamK. Grid: at most one block per SM.
// Dynamic shared memory: 128 bytes for alignment, STAGES k-tiles, kStaging floats and 16 * STAGES bytes.
template <int BM, int BN, int TILE_K, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) matmul_tma(const __grid_constant__ TensorMap a,
                                                          const __grid_constant__ TensorMap b, float* __restrict__ c,
                                                          int m, int n, int k, int rows, int columns, int group,
                                                          float* partials, int whole_tiles, int ranges, int base,
                                                          int pitch) {
  multiply<BM, BN, TILE_K, STAGES, warpwise::kTma, warpwise::kTma>(&a, &b, {nullptr, 0, m, k}, {nullptr, 0, n, k}, c,
                                                                   rows, columns, group,
                                                                   {partials, whole_tiles, ranges, base, pitch});
}

template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A>
__global__ void __launch_bounds__(kThreads, 1) matmul_tma_b(const float* __restrict__ a, long long a_stride,
                                                            const __grid_constant__ TensorMap b, float* __restrict__ c,
                                                            int m, int n, int k, int rows, int columns, int group,
                                                            float* partials, int whole_tiles, int ranges, int base,
                                                            int pitch) {
  multiply<BM, BN, TILE_K, STAGES, LOAD_A, warpwise::kTma>(nullptr, &b, {a, a_stride, m, k}, {nullptr, 0, n, k}, c,
                                                           rows, columns, group,
                                                           {partials, whole_tiles, ranges, base, pitch});
}

template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A, OperandLoad LOAD_B>
__global__ void __launch_bounds__(kThreads, 1) matmul_cp_async(const float* __restrict__ a, long long a_stride,
                                                               const float* __restrict__ b, long long b_stride,
                                                               float* __restrict__ c, int m, int n, int k, int rows,
                                                               int columns, int group, float* partials, int whole_tiles,
                                                               int ranges, int base, int pitch) {
  multiply<BM, BN, TILE_K, STAGES, LOAD_A, LOAD_B>(nullptr, nullptr, {a, a_stride, m, k}, {b, b_stride, n, k}, c, rows,
                                                   columns, group, {partials, whole_tiles, ranges, base, pitch});
}

// Reduces the partial sums of divided tiles in a fixed order and stores them to c: (m, n), V adjacent elements per
// thread, to which the rows of c are aligned. Block: 256 threads in `groups` (1, 2, 4 or 8) groups, which add every
// groups-th slot of the same elements. Grid: BM * BN / V * groups / 256 blocks per tile, from tile whole_tiles on.
template <int BM, int BN, int V>
__global__ void __launch_bounds__(256) reduce_splits(const float* __restrict__ partials, float* __restrict__ c, int m,
                                                     int n, int rows, int columns, int group, int whole_tiles,
                                                     int ranges, int base, int pitch, int groups) {
  warpwise::wait_for_previous_kernel();
  using Values = warpwise::Vector<float, V>;
  constexpr int kVectorsPerRow = BN / V;
  __shared__ Values thread_sums[256];
  const int elements_per_block = 256 / groups, blocks = BM * kVectorsPerRow / elements_per_block,
            split_tile = blockIdx.x / blocks;
  const int element = blockIdx.x % blocks * elements_per_block + threadIdx.x % elements_per_block,
            first = threadIdx.x / elements_per_block;
  const int2 tile = warpwise::tile_at(whole_tiles + split_tile, rows, columns, group, BM, BN);
  const int row = tile.x + element / kVectorsPerRow;
  float* const line = c + static_cast<long long>(row) * n + tile.y;
  const int x = element % kVectorsPerRow * V;
  const bool inside = row < m && x < n - tile.y;
  Values sum = {};
  if (inside) {
    const int2 slots = StreamK{nullptr, whole_tiles, ranges, base, pitch}.slots(split_tile);
    const float* const from =
        partials + static_cast<long long>(slots.x) * (BM * BN) + element / kVectorsPerRow * BN + x;
#pragma unroll 4
    for (int slot = first; slot < slots.y - slots.x; slot += groups) {
      const auto values = *reinterpret_cast<const Values*>(from + slot * (BM * BN));
#pragma unroll
      for (int i = 0; i < V; ++i) sum.at[i] += values.at[i];
    }
  }
  thread_sums[threadIdx.x] = sum;
  __syncthreads();
  if (!inside || first > 0) return;
  for (int g = 1; g < groups; ++g) {
#pragma unroll
    for (int i = 0; i < V; ++i) sum.at[i] += thread_sums[g * elements_per_block + threadIdx.x].at[i];
  }
  *reinterpret_cast<Values*>(line + x) = sum;
}
