// One tile of one matrix per block, k-tiles in shared memory, and one or four 4 x 4 thread tiles per thread.
//
// Four elements are loaded at once along the contiguous dimension of an operand, so transposed operands cost as much
// as others: MN-major loads go to shared memory as they are, K-major ones are transposed on the way. Two 4 x 4 tiles
// in each direction take 4 loads of 16 bytes for 64 multiply-adds; small matrices use one in each direction, so that a
// 64 x 64 tile is not mostly padding.

#include <warpwise/core/float4.cuh>

constexpr int kTileK = 16;
constexpr int kLanesM = 4, kLanesN = 8;  // lanes of a warp; it reads 8 distinct float4 of B and 4 of A
constexpr int kWarpsM = 4, kWarpsN = 2;  // warps of a block
constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kThreadTiles = kLanesM * kWarpsM;  // warps of a block
static_assert(kThreadTiles == kLanesN * kWarpsN, "tiles are square");
constexpr int kPad = 1;  // one float4, without which the transposing stores conflict in one bank

// An operand of one matrix: address, strides in elements along m or n and along k, and m or n.
template <class T>
struct Operand {
  const T* from;
  long long mn_stride, k_stride;
  int extent;
};

// The elements of a k-tile that a thread loads, four at a time. MN_MAJOR: the operand is contiguous along m or n, else
// along k. VECTORISED: each four elements are all inside or all outside the matrix, and aligned for one load.
template <int TILES_PER_THREAD, bool MN_MAJOR, bool VECTORISED>
struct KTile {
  static constexpr int kVectorsPerLine =
      MN_MAJOR ? TILES_PER_THREAD * kThreadTiles : kTileK / 4;  // float4 per contiguous line
  static constexpr int kLoads = TILES_PER_THREAD * kThreadTiles * kTileK / kThreads;
  warpwise::Float4 vectors[kLoads];

  template <class T>
  __device__ void load(const Operand<T>& operand, int mn, int first, int k) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = i * kThreads + threadIdx.x, contiguous = at % kVectorsPerLine * 4, line = at / kVectorsPerLine;
      const int x = mn + (MN_MAJOR ? contiguous : line), k_index = first + (MN_MAJOR ? line : contiguous);
      const long long mn_stride = VECTORISED && MN_MAJOR ? 1 : operand.mn_stride;
      const long long k_stride = VECTORISED && !MN_MAJOR ? 1 : operand.k_stride;
      const T* from = operand.from + x * mn_stride + k_index * k_stride;
      const bool inside = MN_MAJOR ? k_index < k : x < operand.extent;
      const int valid = inside ? (MN_MAJOR ? operand.extent - x : k - k_index) : 0;
      if (VECTORISED) {
        vectors[i] = warpwise::load4<true>(from, valid);
      } else {
        const long long step = MN_MAJOR ? mn_stride : k_stride;
#pragma unroll
        for (int e = 0; e < 4; ++e) vectors[i].at[e] = e < valid ? warpwise::to_float(from[e * step]) : 0.0f;
      }
    }
  }

  __device__ void store(warpwise::Float4 (&tile)[kTileK][TILES_PER_THREAD * kThreadTiles + kPad]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = i * kThreads + threadIdx.x, contiguous = at % kVectorsPerLine, line = at / kVectorsPerLine;
      if (MN_MAJOR) {
        tile[line][contiguous] = vectors[i];
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) tile[contiguous * 4 + e][line / 4].at[line % 4] = vectors[i].at[e];
      }
    }
  }
};

// a: (batch, m, k), b: (batch, k, n), with strides of matrix, row and column in elements; A_MN_MAJOR: columns of A are
// contiguous; B_K_MAJOR: columns of B are contiguous; A_VECTORISED, B_VECTORISED: see KTile. c: (batch, m, n),
// row-major; C_VECTORISED: n is a multiple of 4. Grid: batch * tiles blocks, where tiles = cdiv(m, kSide) * tiles_n
// and tiles_n = cdiv(n, kSide).
template <class T, int TILES_PER_THREAD, bool A_MN_MAJOR, bool B_K_MAJOR, bool A_VECTORISED, bool B_VECTORISED,
          bool C_VECTORISED>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_block_tile(
    const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int m, int n, int k, int tiles, int tiles_n,
    long long a_matrix, long long a_row, long long a_column, long long b_matrix, long long b_row, long long b_column) {
  constexpr int kSide = TILES_PER_THREAD * kThreadTiles * 4;
  __shared__ warpwise::Float4 a_tile[kTileK][TILES_PER_THREAD * kThreadTiles + kPad];
  __shared__ warpwise::Float4 b_tile[kTileK][TILES_PER_THREAD * kThreadTiles + kPad];
  const int tile = blockIdx.x % tiles, first_row = tile / tiles_n * kSide, first_column = tile % tiles_n * kSide;
  const long long matrix = blockIdx.x / tiles;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int tile_row = warp / kWarpsN * kLanesM + lane / kLanesN,
            tile_column = warp % kWarpsN * kLanesN + lane % kLanesN;

  const Operand<T> a_operand = {a + matrix * a_matrix, a_row, a_column, m};
  const Operand<T> b_operand = {b + matrix * b_matrix, b_column, b_row, n};
  KTile<TILES_PER_THREAD, A_MN_MAJOR, A_VECTORISED> a_k_tile;
  KTile<TILES_PER_THREAD, !B_K_MAJOR, B_VECTORISED> b_k_tile;
  float sums[TILES_PER_THREAD][TILES_PER_THREAD][4][4] = {};
  for (int first = 0; first < k; first += kTileK) {
    a_k_tile.load(a_operand, first_row, first, k);
    b_k_tile.load(b_operand, first_column, first, k);
    a_k_tile.store(a_tile);
    b_k_tile.store(b_tile);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTileK; ++i) {
      warpwise::Float4 a_fragments[TILES_PER_THREAD], b_fragments[TILES_PER_THREAD];
#pragma unroll
      for (int p = 0; p < TILES_PER_THREAD; ++p) a_fragments[p] = a_tile[i][p * kThreadTiles + tile_row];
#pragma unroll
      for (int q = 0; q < TILES_PER_THREAD; ++q) b_fragments[q] = b_tile[i][q * kThreadTiles + tile_column];
#pragma unroll
      for (int p = 0; p < TILES_PER_THREAD; ++p) {
#pragma unroll
        for (int q = 0; q < TILES_PER_THREAD; ++q) {
#pragma unroll
          for (int e = 0; e < 16; ++e) sums[p][q][e / 4][e % 4] += a_fragments[p].at[e / 4] * b_fragments[q].at[e % 4];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int p = 0; p < TILES_PER_THREAD; ++p) {
#pragma unroll
    for (int q = 0; q < TILES_PER_THREAD; ++q) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = first_row + (p * kThreadTiles + tile_row) * 4 + r;
        const int column = first_column + (q * kThreadTiles + tile_column) * 4;
        warpwise::store4<C_VECTORISED>(c + (matrix * m + row) * n + column, sums[p][q][r], row < m ? n - column : 0);
      }
    }
  }
}
