// Hopper: every SM gets the same number of slices, wherever tiles begin and end among them.
//
// Tiles dealt whole leave the last round of SMs partly idle: 112 tiles take 132 SMs as long as 132 would. Here the
// slices of all tiles lie in one row, cut into as many equal pieces as there are blocks. A block that holds a tile
// whole writes it. Of a tile that a cut runs through, every block leaves its sums in global memory, and the last one
// to do so adds them in the order of K, whoever it is: the result is the same in each run, and nobody waits for blocks
// that may not have begun.

#include "slices.cuh"

struct Work {  // the slices of all tiles in a row, cut into a piece a block
  long long total;
  int blocks;
  __device__ long long first(int block) const { return total * block / blocks; }
  __device__ int block_of(long long slice) const { return static_cast<int>(((slice + 1) * blocks - 1) / total); }
};

// A thread's registers of D in global memory, so that neighbouring threads' lie side by side.
template <int COUNT>
__device__ inline void leave_sums(float4* to, const float (&d)[COUNT], int threads) {
#pragma unroll
  for (int i = 0; i < COUNT / 4; ++i)
    __stcg(to + i * threads, make_float4(d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]));
}

template <int COUNT>
__device__ inline void add_sums(const float4* from, float (&d)[COUNT], int threads) {
  constexpr int kAtOnce = COUNT / 4 < 8 ? COUNT / 4 : 8;  // loads in flight, within what registers are left
#pragma unroll
  for (int first = 0; first < COUNT / 4; first += kAtOnce) {
    float4 more[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) more[i] = __ldcg(from + (first + i) * threads);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      float* const at = d + 4 * (first + i);
      at[0] += more[i].x, at[1] += more[i].y, at[2] += more[i].z, at[3] += more[i].w;
    }
  }
}

// a: (m, k), b: (k, n), in boxes as Slices says; c: (m, n), row-major. partials: 2 * gridDim.x tiles of 64 GROUPS x M
// floats, in the order of the registers; tickets: an int a tile, 0 before and after. Grid: at most one block a slice.
// Dynamic shared memory: 1 KiB to align + STAGES slices + min(M, 32) * (64 GROUPS + 4) floats.
template <class T, int GROUPS, int M, bool BY_COLUMNS, int DEPTH, int STAGES>
__global__ void __launch_bounds__(GROUPS* kWarpgroupThreads + 32) matmul_stream_k(
    const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b, T* c, float* partials,
    int* tickets, int m, int n, int k, int tiles_m, int tiles) {
  using Ring = Slices<T, GROUPS, M, BY_COLUMNS, DEPTH, STAGES>;
  constexpr int kThreads = Ring::kThreads, kRows = M < 32 ? M : 32;  // of C at once on their way out
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[2 * STAGES];
  __shared__ int ticket;
  Ring ring(raw, barriers);
  const int slices = warpwise::cdiv(k, DEPTH);
  const Work work{static_cast<long long>(tiles) * slices, static_cast<int>(gridDim.x)};
  const long long last = work.first(blockIdx.x + 1);

  ring.init();
  if (Ring::feeds()) {
    if (threadIdx.x > kThreads) return;
    for (long long slice = work.first(blockIdx.x); slice < last; ++slice) {
      const int tile = static_cast<int>(slice / slices), depth = static_cast<int>(slice % slices) * DEPTH;
      ring.load(a, b, depth, tile % tiles_m * M, tile / tiles_m * GROUPS * 64);
    }
    return;
  }

  float* const staged =
      reinterpret_cast<float*>(raw + (ring.ring - warpwise::shared_address(raw)) + STAGES * Ring::kBytes);
  const bool fours = in_fours(c, n);
  for (long long slice = work.first(blockIdx.x); slice < last;) {
    const int tile = static_cast<int>(slice / slices);
    const long long begin = static_cast<long long>(tile) * slices;
    const int count = static_cast<int>(min(last, begin + slices) - slice);
    float d[M / 2];
    ring.multiply(d, count);
    slice += count;

    if (count < slices) {
      const int from = work.block_of(begin), to = work.block_of(begin + slices - 1);
      // Two places a block: for a part of the tile that it begins with, and of one further on, which it ends with.
      const auto place = [&](int block) {
        const int which = work.first(block) / slices == tile ? 0 : 1;
        return reinterpret_cast<float4*>(partials) + (2ll * block + which) * (16 * GROUPS * M) + threadIdx.x;
      };
      const auto arrive = [&] {  // how many did before
        sm90::named_barrier_sync(1, kThreads);
        if (threadIdx.x == 0) ticket = atomicAdd(tickets + tile, 1);
        sm90::named_barrier_sync(1, kThreads);
        return ticket;
      };
      const bool pair = to == from + 1;
      if (!pair || arrive() == 0) {
        leave_sums(place(blockIdx.x), d, kThreads);
        __threadfence();
        if (arrive() < to - from || pair) continue;
        // More than two: whoever is last adds them all in the order of K, its own among them.
#pragma unroll
        for (int i = 0; i < M / 2; ++i) d[i] = 0.0f;
      } else if (threadIdx.x == 0) {
        // Of two, the second keeps its sums, since a + b is b + a, and waits for what the first is about to leave.
        while (*static_cast<volatile int*>(tickets + tile) < 3) {
        }
      }
      sm90::named_barrier_sync(1, kThreads);
      __threadfence();
      if (threadIdx.x == 0) tickets[tile] = 0;  // for the next launch
      for (int block = from; block <= to; ++block)
        if (!pair || block != static_cast<int>(blockIdx.x)) add_sums(place(block), d, kThreads);
    }

    constexpr int kQuads = GROUPS * 16;
    const int first_row = tile % tiles_m * M, first_column = tile / tiles_m * GROUPS * 64;
    const int quad = threadIdx.x % kQuads * 4, left = n - first_column - quad;
#pragma unroll
    for (int from = 0; from < M; from += kRows) {
      sm90::named_barrier_sync(1, kThreads);
      Ring::template stage_rows<kRows>(staged, d, from);
      sm90::named_barrier_sync(1, kThreads);
      const int rows = min(kRows, m - first_row - from);
      for (int row = threadIdx.x / kQuads; row < rows; row += kThreads / kQuads)
        store_quad(c + static_cast<long long>(first_row + from + row) * n + first_column + quad,
                   staged + row * Ring::kStaged + quad, left, fours);
    }
  }
}
