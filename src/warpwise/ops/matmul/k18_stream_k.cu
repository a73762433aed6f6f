// Stream-K for Hopper: every block gets the same number of k-tiles, regardless of the boundaries of output tiles.
//
// With one tile per block the last wave is partly idle: 112 tiles take 132 SMs as long as 132 tiles. Here the k-tiles
// of all output tiles form one sequence, divided evenly among the blocks. A block that computes
// all k-tiles of a tile stores it. For a tile that several blocks compute, each writes its partial sums to global
// memory, and the last block to arrive adds them in the order of K: the result is deterministic, and no block waits
// for one that may not be resident.

#include "k_tile_pipeline.cuh"

struct StreamK {  // the sequence of k-tiles of all tiles, divided evenly among blocks
  long long total;
  int blocks;
  __device__ long long first(int block) const { return total * block / blocks; }
  __device__ int block_of(long long k_tile) const { return static_cast<int>(((k_tile + 1) * blocks - 1) / total); }
};

// Stores the accumulators of a thread to global memory; adjacent threads access adjacent float4.
template <int COUNT>
__device__ inline void store_partials(float4* to, const float (&d)[COUNT], int threads) {
#pragma unroll
  for (int i = 0; i < COUNT / 4; ++i)
    __stcg(to + i * threads, make_float4(d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]));
}

template <int COUNT>
__device__ inline void add_partials(const float4* from, float (&d)[COUNT], int threads) {
  constexpr int kInFlight = COUNT / 4 < 8 ? COUNT / 4 : 8;  // loads in flight, limited by registers
#pragma unroll
  for (int first = 0; first < COUNT / 4; first += kInFlight) {
    float4 values[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) values[i] = __ldcg(from + (first + i) * threads);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      float* const at = d + 4 * (first + i);
      at[0] += values[i].x, at[1] += values[i].y, at[2] += values[i].z, at[3] += values[i].w;
    }
  }
}

// a: (m, k), b: (k, n), tensor maps with the boxes of Pipeline; c: (m, n), row-major. partials: 2 * gridDim.x tiles of
// 64 GROUPS x M floats, in register order; semaphores: one int per tile, 0 before and after. Grid: at most one block
// per k-tile. Dynamic shared memory: 1 KiB for alignment + STAGES stages + min(M, 32) * (64 GROUPS + 4) floats.
template <class T, int GROUPS, int M, bool B_K_MAJOR, int TILE_K, int STAGES>
__global__ void __launch_bounds__(GROUPS* kWarpgroupThreads + 32) matmul_stream_k(
    const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b, T* c, float* partials,
    int* semaphores, int m, int n, int k, int tiles_m, int tiles) {
  using Pipe = Pipeline<T, GROUPS, M, B_K_MAJOR, TILE_K, STAGES>;
  constexpr int kThreads = Pipe::kThreads, kRows = M < 32 ? M : 32;  // rows of C staged at once
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[2 * STAGES];
  __shared__ int arrival;
  Pipe pipe(raw, barriers);
  const int k_tiles = warpwise::cdiv(k, TILE_K);
  const StreamK stream_k{static_cast<long long>(tiles) * k_tiles, static_cast<int>(gridDim.x)};
  const long long last = stream_k.first(blockIdx.x + 1);

  pipe.init();
  if (Pipe::is_producer()) {
    if (threadIdx.x > kThreads) return;
    for (long long k_tile = stream_k.first(blockIdx.x); k_tile < last; ++k_tile) {
      const int tile = static_cast<int>(k_tile / k_tiles), k_offset = static_cast<int>(k_tile % k_tiles) * TILE_K;
      pipe.load(a, b, k_offset, tile % tiles_m * M, tile / tiles_m * GROUPS * 64);
    }
    return;
  }

  float* const staging =
      reinterpret_cast<float*>(raw + (pipe.stages - warpwise::shared_address(raw)) + STAGES * Pipe::kBytes);
  const bool vectorised = is_vectorised(c, n);
  for (long long k_tile = stream_k.first(blockIdx.x); k_tile < last;) {
    const int tile = static_cast<int>(k_tile / k_tiles);
    const long long begin = static_cast<long long>(tile) * k_tiles;
    const int count = static_cast<int>(min(last, begin + k_tiles) - k_tile);
    float d[M / 2];
    pipe.multiply(d, count);
    k_tile += count;

    if (count < k_tiles) {
      const int from = stream_k.block_of(begin), to = stream_k.block_of(begin + k_tiles - 1);
      // Two slots per block: one for the tile with which its sequence begins, one for the tile with which it
      // ends.
      const auto partials_of = [&](int block) {
        const int slot = stream_k.first(block) / k_tiles == tile ? 0 : 1;
        return reinterpret_cast<float4*>(partials) + (2ll * block + slot) * (16 * GROUPS * M) + threadIdx.x;
      };
      const auto arrive = [&] {  // returns the number of earlier arrivals
        sm90::named_barrier_sync(1, kThreads);
        if (threadIdx.x == 0) arrival = atomicAdd(semaphores + tile, 1);
        sm90::named_barrier_sync(1, kThreads);
        return arrival;
      };
      const bool pair = to == from + 1;
      if (!pair || arrive() == 0) {
        store_partials(partials_of(blockIdx.x), d, kThreads);
        __threadfence();
        if (arrive() < to - from || pair) continue;
        // Three or more blocks: the last one adds all partial sums, including its own, in the order of K.
#pragma unroll
        for (int i = 0; i < M / 2; ++i) d[i] = 0.0f;
      } else if (threadIdx.x == 0) {
        // Two blocks: the second keeps its sums in registers, since a + b = b + a, and waits until the first
        // has stored its own, which it is about to do.
        while (*static_cast<volatile int*>(semaphores + tile) < 3) {
        }
      }
      sm90::named_barrier_sync(1, kThreads);
      __threadfence();
      if (threadIdx.x == 0) semaphores[tile] = 0;  // for the next launch
      for (int block = from; block <= to; ++block)
        if (!pair || block != static_cast<int>(blockIdx.x)) add_partials(partials_of(block), d, kThreads);
    }

    constexpr int kVectors = GROUPS * 16;
    const int first_row = tile % tiles_m * M, first_column = tile / tiles_m * GROUPS * 64;
    const int column = threadIdx.x % kVectors * 4, left = n - first_column - column;
#pragma unroll
    for (int from = 0; from < M; from += kRows) {
      sm90::named_barrier_sync(1, kThreads);
      Pipe::template stage_rows<kRows>(staging, d, from);
      sm90::named_barrier_sync(1, kThreads);
      const int rows = min(kRows, m - first_row - from);
      for (int row = threadIdx.x / kVectors; row < rows; row += kThreads / kVectors)
        store_float4(c + static_cast<long long>(first_row + from + row) * n + first_column + column,
                     staging + row * Pipe::kStagingPitch + column, left, vectorised);
    }
  }
}
