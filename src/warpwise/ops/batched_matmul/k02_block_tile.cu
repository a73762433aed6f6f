// A tile of one matrix a block, from slices in shared memory, and quads of 4 x 4 sums a thread.
//
// Four neighbours are loaded at once along whichever dimension lies in memory's order, so that a turned factor costs as
// little as a plain one: quads along the sums' index go to shared memory as they are, quads along the depth are turned
// on the way. Two quads of sums each way take 4 loads of 16 bytes for 64 multiply-adds; small matrices take one each
// way, so that a tile of 64 x 64 is not mostly padding.

#include <warpwise/core/float4.cuh>

constexpr int kDepth = 16;               // of a slice
constexpr int kLanesM = 4, kLanesN = 8;  // of a warp: its quads of one row read 8 distinct quads of B, 4 of A
constexpr int kWarpsM = 4, kWarpsN = 2;  // of a block
constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kQuads = kLanesM * kWarpsM;  // of a block each way, once or twice
static_assert(kQuads == kLanesN * kWarpsN, "tiles are square");
constexpr int kPad = 1;  // a quad, without which the quads that are turned meet in one bank

// Where a factor of one matrix begins, how far its elements are apart, and how many there are along the sums' index.
template <class T>
struct Factor {
  const T* from;
  long long outer_stride, depth_stride;
  int outers;
};

// The quads of one slice that a thread moves. OUTER_FIRST: the sums' index lies in memory's order. WHOLE: all four
// elements of a quad exist or none, next to each other and on their size.
template <int QUADS, bool OUTER_FIRST, bool WHOLE>
struct Slice {
  static constexpr int kAcross = OUTER_FIRST ? QUADS * kQuads : kDepth / 4;  // quads along memory's order
  static constexpr int kLoads = QUADS * kQuads * kDepth / kThreads;
  warpwise::Float4 quads[kLoads];

  template <class T>
  __device__ void load(const Factor<T>& factor, int outer, int first, int k) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = i * kThreads + threadIdx.x, along = at % kAcross * 4, across = at / kAcross;
      const int x = outer + (OUTER_FIRST ? along : across), depth = first + (OUTER_FIRST ? across : along);
      const long long outer_stride = WHOLE && OUTER_FIRST ? 1 : factor.outer_stride;
      const long long depth_stride = WHOLE && !OUTER_FIRST ? 1 : factor.depth_stride;
      const T* from = factor.from + x * outer_stride + depth * depth_stride;
      const bool inside = OUTER_FIRST ? depth < k : x < factor.outers;
      const int valid = inside ? (OUTER_FIRST ? factor.outers - x : k - depth) : 0;
      if (WHOLE) {
        quads[i] = warpwise::load4<true>(from, valid);
      } else {
        const long long step = OUTER_FIRST ? outer_stride : depth_stride;
#pragma unroll
        for (int e = 0; e < 4; ++e) quads[i].at[e] = e < valid ? warpwise::to_float(from[e * step]) : 0.0f;
      }
    }
  }

  __device__ void store(warpwise::Float4 (&tile)[kDepth][QUADS * kQuads + kPad]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = i * kThreads + threadIdx.x, along = at % kAcross, across = at / kAcross;
      if (OUTER_FIRST) {
        tile[across][along] = quads[i];
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) tile[along * 4 + e][across / 4].at[across % 4] = quads[i].at[e];
      }
    }
  }
};

// a: (batch, m, k), b: (batch, k, n), anyhow in memory: elements from one matrix, row or column to the next; A_TURNED:
// A's columns lie in memory's order, B_TURNED: B's do; A_WHOLE, B_WHOLE: as for a slice. c: (batch, m, n), row-major;
// C_WHOLE: n is a multiple of 4. Grid: batch * tiles blocks, where tiles = cdiv(m, side) * tiles_n and tiles_n =
// cdiv(n, side).
template <class T, int QUADS, bool A_TURNED, bool B_TURNED, bool A_WHOLE, bool B_WHOLE, bool C_WHOLE>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_block_tile(
    const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int m, int n, int k, int tiles, int tiles_n,
    long long a_matrix, long long a_row, long long a_column, long long b_matrix, long long b_row, long long b_column) {
  constexpr int kSide = QUADS * kQuads * 4;
  __shared__ warpwise::Float4 a_tile[kDepth][QUADS * kQuads + kPad];
  __shared__ warpwise::Float4 b_tile[kDepth][QUADS * kQuads + kPad];
  const int tile = blockIdx.x % tiles, first_row = tile / tiles_n * kSide, first_column = tile % tiles_n * kSide;
  const long long matrix = blockIdx.x / tiles;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int quad_row = warp / kWarpsN * kLanesM + lane / kLanesN,
            quad_column = warp % kWarpsN * kLanesN + lane % kLanesN;

  const Factor<T> a_factor = {a + matrix * a_matrix, a_row, a_column, m};
  const Factor<T> b_factor = {b + matrix * b_matrix, b_column, b_row, n};
  Slice<QUADS, A_TURNED, A_WHOLE> a_slice;
  Slice<QUADS, !B_TURNED, B_WHOLE> b_slice;
  float sums[QUADS][QUADS][4][4] = {};
  for (int first = 0; first < k; first += kDepth) {
    a_slice.load(a_factor, first_row, first, k);
    b_slice.load(b_factor, first_column, first, k);
    a_slice.store(a_tile);
    b_slice.store(b_tile);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      warpwise::Float4 a_quads[QUADS], b_quads[QUADS];
#pragma unroll
      for (int p = 0; p < QUADS; ++p) a_quads[p] = a_tile[i][p * kQuads + quad_row];
#pragma unroll
      for (int q = 0; q < QUADS; ++q) b_quads[q] = b_tile[i][q * kQuads + quad_column];
#pragma unroll
      for (int p = 0; p < QUADS; ++p) {
#pragma unroll
        for (int q = 0; q < QUADS; ++q) {
#pragma unroll
          for (int e = 0; e < 16; ++e) sums[p][q][e / 4][e % 4] += a_quads[p].at[e / 4] * b_quads[q].at[e % 4];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int p = 0; p < QUADS; ++p) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = first_row + (p * kQuads + quad_row) * 4 + r;
        const int column = first_column + (q * kQuads + quad_column) * 4;
        warpwise::store4<C_WHOLE>(c + (matrix * m + row) * n + column, sums[p][q][r], row < m ? n - column : 0);
      }
    }
  }
}
