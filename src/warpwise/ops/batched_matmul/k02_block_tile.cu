// A tile of one matrix a block, in shared memory, and quads of 4 x 4 sums a thread.
//
// Lanes load along whichever dimension lies in memory's order, so that a turned factor is read as fast as a plain one
// and turned on the way into shared memory. With two quads each way a thread reads 4 times 16 bytes for 64
// multiply-adds; small matrices take one quad each way, so that a tile of 64 x 64 is not mostly padding.

#include <warpwise/tile.cuh>

constexpr int kLanes = 16;                 // threads each way
constexpr int kThreads = kLanes * kLanes;  // of a block
constexpr int kDepth = 16;                 // of a slice
constexpr int kPad = 4;                    // one quad, without which a slice's columns meet in one bank
constexpr int side_of(int quads) { return quads * 4 * kLanes; }

// One slice of a factor, kDepth deep: tile[i][x] is the element at depth first + i and outer index outer + x, zero past
// an edge. OUTER_FIRST: the outer index varies fastest in memory.
template <int SIDE, bool OUTER_FIRST, class T>
__device__ void load_slice(warpwise::Float4 (&tile)[kDepth][(SIDE + kPad) / 4], const T* from, int outer, int outers,
                           int first, int k, long long outer_stride, long long depth_stride) {
#pragma unroll
  for (int load = 0; load < SIDE * kDepth / kThreads; ++load) {
    const int at = load * kThreads + threadIdx.x;
    const int x = OUTER_FIRST ? at % SIDE : at / kDepth, i = OUTER_FIRST ? at / SIDE : at % kDepth;
    const bool inside = outer + x < outers && first + i < k;
    tile[i][x / 4].at[x % 4] =
        inside ? warpwise::to_float(from[(outer + x) * outer_stride + (first + i) * depth_stride]) : 0.0f;
  }
}

// a: (batch, m, k), b: (batch, k, n), anyhow in memory: elements from one matrix, row or column to the next; A_TURNED:
// A's columns lie in memory's order, B_TURNED: B's do. c: (batch, m, n), row-major; ALIGNED: in whole quads that lie on
// their size. Grid: (cdiv(n, side) * cdiv(m, side), z) blocks of kThreads, each of every gridDim.y-th matrix.
template <class T, int QUADS, bool A_TURNED, bool B_TURNED, bool ALIGNED>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_block_tile(const T* a, const T* b, T* c, int batch, int m,
                                                                         int n, int k, int tiles_n, long long a_matrix,
                                                                         long long a_row, long long a_column,
                                                                         long long b_matrix, long long b_row,
                                                                         long long b_column) {
  constexpr int kSide = side_of(QUADS);
  __shared__ warpwise::Float4 a_tile[kDepth][(kSide + kPad) / 4];
  __shared__ warpwise::Float4 b_tile[kDepth][(kSide + kPad) / 4];
  const int first_row = blockIdx.x / tiles_n * kSide, first_column = blockIdx.x % tiles_n * kSide;
  const int quad_row = threadIdx.x / kLanes, quad_column = threadIdx.x % kLanes;

  for (long long matrix = blockIdx.y; matrix < batch; matrix += gridDim.y) {
    float sums[QUADS][QUADS][4][4] = {};
    for (int first = 0; first < k; first += kDepth) {
      load_slice<kSide, A_TURNED>(a_tile, a + matrix * a_matrix, first_row, m, first, k, a_row, a_column);
      load_slice<kSide, !B_TURNED>(b_tile, b + matrix * b_matrix, first_column, n, first, k, b_column, b_row);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kDepth; ++i) {
        warpwise::Float4 a_quads[QUADS], b_quads[QUADS];
#pragma unroll
        for (int p = 0; p < QUADS; ++p) a_quads[p] = a_tile[i][p * kLanes + quad_row];
#pragma unroll
        for (int q = 0; q < QUADS; ++q) b_quads[q] = b_tile[i][q * kLanes + quad_column];
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
          const int row = first_row + (p * kLanes + quad_row) * 4 + r;
          const int column = first_column + (q * kLanes + quad_column) * 4;
          warpwise::store4<ALIGNED>(c + (matrix * m + row) * n + column, sums[p][q][r], row < m ? n - column : 0);
        }
      }
    }
  }
}
