// Scores by tensor cores, points from global memory directly to fragments: no copy of a point in shared memory.
//
// The nearest centroid has the largest score x c - |c|^2 / 2. x and c are each the sum of two TF32 numbers, and three
// of the four products are added, which keeps float32's accuracy. The K index of a product may be permuted: lane t of a
// group loads columns 4 t to 4 t + 3 of 16, elements 0 and 1 of which are indices t and t + 4 of the first mma.sync, 2
// and 3 those of the second. So A is loaded by 16-byte loads of adjacent lanes, and B from shared memory likewise.

#include <warpwise/core/float4.cuh>
#include <warpwise/sm80/mma.cuh>
#include <warpwise/sm80/tf32.cuh>

#include "best.cuh"

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kPoints = 32;  // per warp: two tiles of 16 rows
constexpr unsigned kAllLanes = 0xffffffffu;
// A lane has eight sums per tile of centroids.
constexpr int blocks_an_sm(int tiles) { return tiles > 4 ? 3 : tiles > 2 ? 4 : 5; }

// Elements of a row of centroids in shared memory: 16 more than a multiple of 32, so that eight lanes that read 16
// bytes of two rows have no bank conflict.
__host__ __device__ constexpr int row_stride(int width) { return (width + 15) / 32 * 32 + 16; }

// 16 columns of 32 points: values[i] = columns 4 t to 4 t + 3 of point group + 8 i.
struct Fragment {
  warpwise::Float4 values[4];

  // WORD: bytes of a load. Rows past n and columns past the width are zero.
  template <int WORD>
  __device__ void load(const float* x, long long n, int width, long long first, int column) {
    const int own = column + threadIdx.x % 4 * 4, group = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const long long point = first + group + 8 * i;
      const int valid = point < n ? width - own : 0;
      const float* const from = x + point * width + own;
      if constexpr (WORD == 8) {
        values[i] = {};
        using Pair = warpwise::Vector<float, 2>;
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          if (valid > e) {
            const Pair pair = *reinterpret_cast<const Pair*>(from + e);
            values[i].at[e] = pair.at[0];
            values[i].at[e + 1] = pair.at[1];
          }
        }
      } else {
        values[i] = warpwise::load4<WORD == 16>(from, valid);
      }
    }
  }
};

// x: (n, width), centroids: (restarts, clusters, width). labels: (restarts, n); distances: (restarts, n) squared, or
// null. TILES: tiles of eight centroids that a warp multiplies at a time. WORD: bytes of a load, of which a row of x is
// a multiple. Shared: (row_stride(width) + 1) floats for each centroid, rounded up to 8 TILES of them. Grid: (any,
// restarts) of kThreads.
template <int TILES, int WORD>
__global__ void __launch_bounds__(kThreads, blocks_an_sm(TILES)) kmeans_assign_tensor_cores(
    const float* x, const float* centroids, int* labels, float* distances, long long n, int width, int clusters) {
  extern __shared__ __align__(16) float shared[];
  const int stride = row_stride(width), chunks = (width + 15) / 16;
  const int held = (clusters + 8 * TILES - 1) / (8 * TILES) * (8 * TILES);
  float* const half_norms = shared + held * stride;
  const int lane = threadIdx.x % 32, group = lane / 4, index = lane % 4;
  centroids += static_cast<long long>(blockIdx.y) * clusters * width;
  labels += blockIdx.y * n;
  if (distances) distances += blockIdx.y * n;

  for (int i = threadIdx.x; i < held * stride; i += kThreads) {
    const int row = i / stride, column = i - row * stride;
    shared[i] = row < clusters && column < width ? centroids[static_cast<long long>(row) * width + column] : 0.0f;
  }
  __syncthreads();
  for (int row = threadIdx.x / 4; row < held; row += kThreads / 4) {
    float norm = 0.0f;
    for (int d = index; d < width; d += 4) norm += shared[row * stride + d] * shared[row * stride + d];
    norm += __shfl_xor_sync(kAllLanes, norm, 1);
    norm += __shfl_xor_sync(kAllLanes, norm, 2);
    if (index == 0) half_norms[row] = row < clusters ? norm / 2 : -warpwise::minus_infinity();
  }
  __syncthreads();

  const long long step = static_cast<long long>(gridDim.x) * kWarps * kPoints;
  long long first = (static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32) * kPoints;
  Fragment next;
  next.load<WORD>(x, n, width, first, 0);
  for (; first < n; first += step) {
    Best best[4];
    float squares[4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) best[i] = {warpwise::minus_infinity(), 0};
    for (int start = 0; start < held; start += 8 * TILES) {
      float scores[2][TILES][4] = {};
#pragma unroll 2
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const Fragment now = next;
        const bool last = chunk + 1 == chunks, behind = last && start + 8 * TILES >= held;
        next.load<WORD>(x, n, width, behind ? first + step : first, last ? 0 : 16 * (chunk + 1));
        if (start == 0 && distances) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int e = 0; e < 4; ++e) squares[i] += now.values[i].at[e] * now.values[i].at[e];
          }
        }
        unsigned large[2][2][4], small[2][2][4];  // of each tile of 16 points and each half of the columns
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float value = now.values[2 * m + i % 2].at[2 * h + i / 2];
              large[m][h][i] = __float_as_uint(value);
              small[m][h][i] = warpwise::rest_of_tf32(value);
            }
          }
        }
#pragma unroll
        for (int c = 0; c < TILES; ++c) {
          const warpwise::Float4 column = *reinterpret_cast<const warpwise::Float4*>(
              shared + (start + 8 * c + group) * stride + 16 * chunk + 4 * index);
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const float b0 = column.at[2 * h], b1 = column.at[2 * h + 1];
            const unsigned rest0 = warpwise::rest_of_tf32(b0), rest1 = warpwise::rest_of_tf32(b1);
#pragma unroll
            for (int m = 0; m < 2; ++m) {
              warpwise::mma::mma_sync(scores[m][c], small[m][h], __float_as_uint(b0), __float_as_uint(b1), 0.0f);
              warpwise::mma::mma_sync(scores[m][c], large[m][h], rest0, rest1, 0.0f);
              warpwise::mma::mma_sync(scores[m][c], large[m][h], __float_as_uint(b0), __float_as_uint(b1), 0.0f);
            }
          }
        }
      }
#pragma unroll
      for (int c = 0; c < TILES; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int cluster = start + 8 * c + 2 * index + i % 2;
          const float half_norm = half_norms[cluster];
#pragma unroll
          for (int m = 0; m < 2; ++m) best[2 * m + i / 2].take(scores[m][c][i] - half_norm, cluster);
        }
      }
    }

#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2) {
        const float score = __shfl_xor_sync(kAllLanes, best[i].score, distance);
        const int cluster = __shfl_xor_sync(kAllLanes, best[i].cluster, distance);
        best[i].take(score, cluster);
        squares[i] += __shfl_xor_sync(kAllLanes, squares[i], distance);
      }
      const long long point = first + group + 8 * i;
      if (index != 0 || point >= n) continue;
      labels[point] = best[i].cluster;
      if (distances) distances[point] = fmaxf(squares[i] - 2 * best[i].score, 0.0f);
    }
  }
}
