// float32: slices arrive by cp.async, two ahead of the arithmetic, and turned on the way where a factor lies so.
//
// k02 waits for each slice, and hides that behind the other block of its SM alone. cp.async writes shared memory
// without registers, 16 bytes where the sums' index lies in memory's order, else 4, which may go anywhere: a slice is
// depth first in shared memory whichever way its factor lies. Products go down a column of the thread's tile and up the
// next, as in matmul's k11: an operand stays in the operand cache, and the others seldom share a register bank.

#include <cuda_pipeline.h>
#include <warpwise/tile.cuh>

constexpr int kSide = 128, kDepth = 16, kStages = 3;  // of a block's tile of C, of a slice, slices in shared memory
constexpr int kThreads = 256, kLine = kSide + 4;      // a line of a slice: one depth, and a quad that parts the banks
constexpr int kWarpM = 32, kWarpN = 64, kLanesM = 4, kLanesN = 8;  // a warp's tile, and its lanes
constexpr int kQuads = 2;                                          // of 4 x 4 sums a thread, each way
static_assert(kLanesM * kQuads * 4 == kWarpM && kLanesN * kQuads * 4 == kWarpN, "quads cover a warp's tile");

// A thread's copies of one factor's slices. OUTER_FIRST: the sums' index lies in memory's order. WHOLE: four neighbours
// along memory's order exist or none, next to each other and on 16 bytes.
template <bool OUTER_FIRST, bool WHOLE>
struct Copies {
  static constexpr int kWidth = OUTER_FIRST && WHOLE ? 4 : 1;  // elements a copy
  static constexpr int kAcross = (OUTER_FIRST ? kSide : kDepth) / kWidth;
  static constexpr int kLines = kThreads / kAcross;  // along the other dimension, that one round reaches
  static constexpr int kRounds = (OUTER_FIRST ? kDepth : kSide) / kLines;
  const float* from;
  long long round, slice;  // elements to the next one
  int outer, outers, depth, at;

  __device__ Copies(const float* matrix, int first, int outers, long long outer_stride, long long depth_stride)
      : outers(outers) {
    const int along = threadIdx.x % kAcross * kWidth, line = threadIdx.x / kAcross;
    outer = first + (OUTER_FIRST ? along : line);
    depth = OUTER_FIRST ? line : along;
    from = matrix + outer * outer_stride + depth * depth_stride;
    round = kLines * (OUTER_FIRST ? depth_stride : outer_stride);
    slice = kDepth * depth_stride;
    at = depth * kLine + outer - first;
  }

  // What lies past an edge is not read: its place in the slice is filled with zeros.
  __device__ void start(float* slices, int number, int k) const {
    const int left = k - number * kDepth;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const bool inside =
          OUTER_FIRST ? outer < outers && depth + i * kLines < left : outer + i * kLines < outers && depth < left;
      const float* source = from + number * slice + i * round;
      float* to = slices + number % kStages * kDepth * kLine + at + i * kLines * (OUTER_FIRST ? kLine : 1);
      __pipeline_memcpy_async(to, inside ? source : from, kWidth * 4, inside ? 0 : kWidth * 4);
    }
  }
};

// a: (batch, m, k), b: (batch, k, n), anyhow in memory: elements from one matrix, row or column to the next; A_TURNED:
// A's columns lie in memory's order, B_TURNED: B's do; A_WHOLE, B_WHOLE: as for the copies. c: (batch, m, n),
// row-major. Grid: batch * tiles blocks, where tiles = cdiv(m, 128) * tiles_n and tiles_n = cdiv(n, 128). Dynamic
// shared memory: 2 * kStages * kDepth * kLine * 4 bytes.
template <bool A_TURNED, bool B_TURNED, bool A_WHOLE, bool B_WHOLE>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_async_copies(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k, int tiles,
    int tiles_n, long long a_matrix, long long a_row, long long a_column, long long b_matrix, long long b_row,
    long long b_column) {
  extern __shared__ __align__(16) float shared[];
  float *const a_slices = shared, *const b_slices = shared + kStages * kDepth * kLine;
  const int tile = blockIdx.x % tiles, first_row = tile / tiles_n * kSide, first_column = tile % tiles_n * kSide;
  const long long matrix = blockIdx.x / tiles;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / (kSide / kWarpN) * kWarpM + lane / kLanesN * 4;  // of this lane's first quad, in the tile
  const int column = warp % (kSide / kWarpN) * kWarpN + lane % kLanesN * 4;
  const Copies<A_TURNED, A_WHOLE> a_copies(a + matrix * a_matrix, first_row, m, a_row, a_column);
  const Copies<!B_TURNED, B_WHOLE> b_copies(b + matrix * b_matrix, first_column, n, b_column, b_row);

  warpwise::Float4 a_quads[2][kQuads], b_quads[2][kQuads];
  const auto fetch = [&](int slice, int i) {
    const int line = (slice % kStages * kDepth + i) * kLine;
#pragma unroll
    for (int p = 0; p < kQuads; ++p) {
      a_quads[i % 2][p] = *reinterpret_cast<const warpwise::Float4*>(a_slices + line + row + p * kLanesM * 4);
      b_quads[i % 2][p] = *reinterpret_cast<const warpwise::Float4*>(b_slices + line + column + p * kLanesN * 4);
    }
  };

  float sums[kQuads][kQuads][4][4] = {};
  const int slices = (k + kDepth - 1) / kDepth;
#pragma unroll
  for (int slice = 0; slice < kStages - 1; ++slice) {
    if (slice < slices) a_copies.start(a_slices, slice, k), b_copies.start(b_slices, slice, k);
    __pipeline_commit();
  }
  for (int slice = 0; slice < slices; ++slice) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();  // this slice is there for all, and the one before it is read
    fetch(slice, 0);
    if (slice + kStages - 1 < slices) {
      a_copies.start(a_slices, slice + kStages - 1, k);
      b_copies.start(b_slices, slice + kStages - 1, k);
    }
    __pipeline_commit();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      if (i + 1 < kDepth) fetch(slice, i + 1);
#pragma unroll
      for (int j = 0; j < kQuads * 4; ++j) {
#pragma unroll
        for (int step = 0; step < kQuads * 4; ++step) {
          const int r = j % 2 ? kQuads * 4 - 1 - step : step;
          sums[r / 4][j / 4][r % 4][j % 4] += a_quads[i % 2][r / 4].at[r % 4] * b_quads[i % 2][j / 4].at[j % 4];
        }
      }
    }
  }
#pragma unroll
  for (int p = 0; p < kQuads; ++p) {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int to_row = first_row + row + p * kLanesM * 4 + r, to_column = first_column + column + q * kLanesN * 4;
        // Element by element: quads would tie four sums to neighbouring registers, and their products to one bank.
        warpwise::store4<false>(c + (matrix * m + to_row) * n + to_column, sums[p][q][r],
                                to_row < m ? n - to_column : 0);
      }
    }
  }
}
