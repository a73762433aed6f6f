// One block per restart: covariance and inverse stay in registers, in float64.
//
// Thread (tx, ty) of 16 x 16 has the elements (ty + 16 a, tx + 16 b) of the matrix. Gauss-Jordan elimination without
// pivoting, which is stable for a positive definite matrix, needs one row and one column at a time in shared memory.

#include <warpwise/core/reduce.cuh>

#include "m_step.cuh"

constexpr int kWidth = 128;

// counts: (restarts, domains), sums, previous, mean and linear: (restarts, domains, width), total: (width, width),
// scale: (restarts, width, width), constant: (restarts, domains), likelihood: (restarts). derivatives: (2, restarts),
// beta and new_beta: (restarts), all null without an estimate of beta. TILES: at least cdiv(width, 16). Grid: restarts
// blocks of kThreads. Shared: width^2 + domains doubles.
template <int TILES>
__global__ void __launch_bounds__(kThreads, 1) potts_m_step_block_per_restart(
    const float* counts, const float* sums, const float* total, const float* previous, const float* derivatives,
    const float* beta, float* mean, float* scale, float* linear, float* constant, double* likelihood, float* new_beta,
    double n_points, double ridge, float highest_beta, int domains, int width) {
  extern __shared__ __align__(16) double shared[];
  __shared__ double rows[2][kWidth], columns[2][kWidth], pivots[kWidth], warp_sums[kThreads / 32];
  double* const inverse = shared;
  double* const reciprocals = inverse + width * width;  // of the counts; 0 for domains that keep their mean
  const int restart = blockIdx.x, thread = threadIdx.x, tx = thread % kSide, ty = thread / kSide;
  const long long first = static_cast<long long>(restart) * domains * width;
  counts += restart * domains;
  constant += restart * domains;
  sums += first;
  previous += first;
  mean += first;
  linear += first;
  scale += static_cast<long long>(restart) * width * width;

  for (int k = thread; k < domains; k += kThreads) reciprocals[k] = counts[k] > kLeastCount ? 1.0 / counts[k] : 0.0;
  __syncthreads();
  const auto mean_of = [=](int k, int d) {
    return reciprocals[k] > 0.0 ? reciprocals[k] * sums[k * width + d] : static_cast<double>(previous[k * width + d]);
  };
  for (int i = thread; i < domains * width; i += kThreads) mean[i] = static_cast<float>(mean_of(i / width, i % width));

  double matrix[TILES][TILES];
#pragma unroll
  for (int a = 0; a < TILES; ++a) {
#pragma unroll
    for (int b = 0; b < TILES; ++b) {
      const int i = ty + kSide * a, j = tx + kSide * b;
      const bool inside = i < width && j < width;
      matrix[a][b] = inside ? 0.5 * (static_cast<double>(total[i * width + j]) + total[j * width + i]) : 0.0;
    }
  }
  for (int k = 0; k < domains; ++k) {
    double* const row = rows[k % 2];  // a thread may be one step ahead of another
    if (thread < kWidth) row[thread] = thread < width ? mean_of(k, thread) : 0.0;
    __syncthreads();
#pragma unroll
    for (int a = 0; a < TILES; ++a) {
      const double left = counts[k] * row[ty + kSide * a];
#pragma unroll
      for (int b = 0; b < TILES; ++b) matrix[a][b] -= left * row[tx + kSide * b];
    }
  }
  __syncthreads();  // the elimination writes to the rows
#pragma unroll
  for (int a = 0; a < TILES; ++a) {
#pragma unroll
    for (int b = 0; b < TILES; ++b) {
      const int i = ty + kSide * a, j = tx + kSide * b;
      if (i >= width || j >= width) continue;
      matrix[a][b] = matrix[a][b] / n_points + (i == j ? ridge : 0.0);
      scale[i * width + j] = static_cast<float>(matrix[a][b]);
    }
  }

  for (int p = 0; p < width; ++p) {
    // Double buffering, as above.
    double* const row = rows[p % 2];
    double* const column = columns[p % 2];
#pragma unroll
    for (int a = 0; a < TILES; ++a) {
#pragma unroll
      for (int b = 0; b < TILES; ++b) {
        if (ty + kSide * a == p) row[tx + kSide * b] = matrix[a][b];
        if (tx + kSide * b == p) column[ty + kSide * a] = matrix[a][b];
      }
    }
    __syncthreads();
    const double pivot = row[p], factor = 1.0 / pivot;
    if (thread == 0) pivots[p] = pivot;
#pragma unroll
    for (int a = 0; a < TILES; ++a) {
      const int i = ty + kSide * a;
      const double scaled = column[i] * factor;
#pragma unroll
      for (int b = 0; b < TILES; ++b) {
        const int j = tx + kSide * b;
        const double kept = j == p ? 0.0 : matrix[a][b], along = j == p ? 1.0 : row[j];
        matrix[a][b] = i == p ? along * factor : kept - scaled * along;
      }
    }
  }

  double traced = 0.0;  // the trace of inverse * total
#pragma unroll
  for (int a = 0; a < TILES; ++a) {
#pragma unroll
    for (int b = 0; b < TILES; ++b) {
      const int i = ty + kSide * a, j = tx + kSide * b;
      if (i >= width || j >= width) continue;
      inverse[i * width + j] = matrix[a][b];
      traced += matrix[a][b] * total[i * width + j];
    }
  }
  __syncthreads();

  double expected = 0.0;
  const int groups = (domains + 3) / 4;
  for (int t = thread; t < groups * width; t += kThreads) {
    const int group = t / width, d = t - group * width;
    double found[4] = {};
    for (int e = 0; e < width; ++e) {
      const double value = inverse[e * width + d];
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        if (4 * group + g < domains) found[g] += value * mean_of(4 * group + g, e);
      }
    }
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const int at = (4 * group + g) * width + d;
      if (4 * group + g >= domains) continue;
      linear[at] = static_cast<float>(found[g]);
      expected += found[g] * (sums[at] - 0.5 * counts[4 * group + g] * mean_of(4 * group + g, d));
    }
  }
  __syncthreads();
  for (int k = thread; k < domains; k += kThreads) {
    double square = 0.0;
    for (int d = 0; d < width; ++d) square += linear[k * width + d] * mean_of(k, d);
    constant[k] = static_cast<float>(-0.5 * square);
  }

  const double log_pivot = thread < width ? log(pivots[thread]) + kLogTwoPi : 0.0;
  const double own = expected - 0.5 * (traced + n_points * log_pivot);
  const double sum = warpwise::block_reduce<warpwise::DoubleSum, kThreads>(own, warp_sums);
  if (thread > 0) return;
  likelihood[restart] = sum;
  if (!derivatives) return;
  new_beta[restart] = newton_step(beta[restart], derivatives[restart], derivatives[gridDim.x + restart], highest_beta);
}
