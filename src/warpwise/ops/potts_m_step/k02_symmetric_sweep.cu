// The inverse of a symmetric matrix with one barrier for two features; for many domains, a cluster of blocks.
//
// In k01 each step of the elimination waits for a division, and means are read again from global memory for each
// product. Here the covariance is symmetric: only the tiles on and below the diagonal are in registers, and one vector
// is both the row and the column of a pivot. The means stay in shared memory, and mma.sync multiplies them by the
// inverse in float64. Each of the CLUSTER blocks has some of the domains, for both products, and some tiles of the
// covariance, for sums over the blocks and accesses of transposed elements. Block 0 computes the inverse.

#include <warpwise/core/reduce.cuh>
#include <warpwise/sm80/double_mma.cuh>
#include <warpwise/sm90/cluster.cuh>

#include "m_step.cuh"
#include "pivot_sweep.cuh"

namespace sm90 = warpwise::sm90;

constexpr int kWarps = kThreads / warpwise::kWarp, kBlocks = 8;  // kBlocks: of a cluster

// The arguments of the kernels. workspace, for a cluster: see potts_m_step_cluster.
struct Arguments {
  const float *counts, *sums, *total, *previous, *derivatives, *beta;
  float *mean, *scale, *linear, *constant;
  double* likelihood;
  float* new_beta;
  double* workspace;
  double n_points, ridge;
  float highest_beta;
  int domains, width;
};

// beta and the derivatives of the pseudo-likelihood.
struct Slopes {
  float beta, gradient, curvature;
};

template <int TILES, int CLUSTER>
struct MStep {
  using Sweep = PivotSweep<TILES>;
  static constexpr int kTiles = tiles_of(TILES), kRow = kSide * TILES;
  static constexpr int kStride = kRow + 4;  // of means: mma.sync reads them without bank conflicts
  // Doubles of a row of a tile of the inverse, in shared memory without bank conflicts; and tiles of a block.
  static constexpr int kTileRow = CLUSTER > 1 ? kSide : kSide + 4, kTile = kSide * kTileRow;
  static constexpr int kOwnTiles = (kTiles + CLUSTER - 1) / CLUSTER;
  static constexpr int kSteps = kRow / 4, kColumns = kRow / 8;  // of the products with the inverse

  struct Shared {
    typename Sweep::Shared sweep;
    double warp_sums[kWarps];
  };

  const Arguments& given;
  Shared& shared;
  const int rank, tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int share = (given.domains + CLUSTER - 1) / CLUSTER;  // domains of a block
  const int first = rank * share, own = max(0, min(share, given.domains - first));
  double *weights, *means, *dots;        // the counts; rows of kStride; linear times mean: (share, kColumns)
  double* inverse;                       // [tile][row][kTileRow]
  double *partials, *block_likelihoods;  // of a cluster: (CLUSTER, kTiles, kThreads), (CLUSTER)

  __device__ MStep(const Arguments& all, Shared& fixed, double* dynamic, int block)
      : given(all), shared(fixed), rank(block), weights(dynamic), means(dynamic + share) {
    dots = means + share * kStride;
    inverse = dots + share * kColumns;
    if (CLUSTER == 1) return;
    partials = given.workspace;
    inverse = partials + CLUSTER * kTiles * kThreads;
    block_likelihoods = inverse + kTiles * kTile;
  }

  static __device__ void sync() {
    if constexpr (CLUSTER > 1) {
      sm90::cluster_sync();
    } else {
      __syncthreads();
    }
  }

  // visit(s, t, a, b, i, j): element (i, j) of the s-th tile of this block, t.
  template <class Visit>
  __device__ void for_own_tiles(const Visit& visit) const {
    if constexpr (CLUSTER == 1) {
      for_each_tile<TILES>([&](int t, int a, int b, int i, int j) { visit(t, t, a, b, i, j); });
    } else {
#pragma unroll
      for (int s = 0; s < kOwnTiles; ++s) {
        const int t = rank + CLUSTER * s;
        if (t >= kTiles) break;
        int a = 0;
        while (tile_at(a + 1, 0) <= t) ++a;
        const int b = t - tile_at(a, 0);
        visit(s, t, a, b, ty + kSide * a, tx + kSide * b);
      }
    }
  }

  // An element of the total of the products and the transposed one, whose mean is used, zeros outside. They are
  // converted later, so that the loads after them do not wait.
  struct Total {
    float below, above;
    __device__ double mean() const { return 0.5 * (static_cast<double>(below) + above); }
  };

  __device__ Total total_at(int i, int j) const {
    const int width = given.width;
    if (i >= width || j >= width) return {0.0f, 0.0f};
    return {given.total[i * width + j], given.total[j * width + i]};
  }

  __device__ Slopes load_slopes() const {
    if (!given.derivatives || rank > 0 || threadIdx.x > 0) return {};
    return {*given.beta, given.derivatives[0], given.derivatives[gridDim.x / CLUSTER]};
  }

  // The means and counts of the block's domains, with zeros past the last feature. The loads of several elements come
  // before the first store, which could alias them.
  __device__ void find_means() const {
    constexpr int kLoads = 4;
    for (int k = threadIdx.x; k < own; k += kThreads) weights[k] = given.counts[first + k];
    for (int begin = threadIdx.x; begin < own * kRow; begin += kLoads * kThreads) {
      float counts[kLoads], sums[kLoads], previous[kLoads];
      const auto place = [&](int e, int& row, int& d) {
        const int i = begin + e * kThreads;
        row = i / kRow;
        d = i % kRow;
        return row < own && d < given.width ? (first + row) * given.width + d : -1;
      };
      int row, d;
#pragma unroll
      for (int e = 0; e < kLoads; ++e) {
        const int at = place(e, row, d);
        counts[e] = at >= 0 ? given.counts[first + row] : 0.0f;
        sums[e] = at >= 0 ? given.sums[at] : 0.0f;
        previous[e] = at >= 0 ? given.previous[at] : 0.0f;
      }
#pragma unroll
      for (int e = 0; e < kLoads; ++e) {
        const int at = place(e, row, d);
        const double mean = counts[e] > kLeastCount ? sums[e] * reciprocal(counts[e]) : previous[e];
        if (row < own) means[row * kStride + d] = mean;
        if (at >= 0) given.mean[at] = static_cast<float>(mean);
      }
    }
  }

  // Subtracts the block's domains: count mean mean^T. Of one tile, a warp has every eighth group of four domains.
  __device__ void subtract_domains(double (&matrix)[kTiles]) const {
    if constexpr (TILES == 1 && CLUSTER == 1) {
      const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp, g = lane / 4, q = lane % 4;
      double sums[4][2] = {};
      for (int k = 4 * warp + q; k - q < own; k += 4 * kWarps) {
        const double* const mean = means + min(k, own - 1) * kStride;
        const double weight = k < own ? weights[k] : 0.0, values[2] = {mean[g], mean[8 + g]};
#pragma unroll
        for (int p = 0; p < 4; ++p) warpwise::multiply_add(sums[p], weight * values[p / 2], values[p % 2]);
      }
      double* const parts = inverse + warp * kThreads;  // [row][column]
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        double* const at = parts + (p / 2 * 8 + g) * kSide + p % 2 * 8 + 2 * q;
        at[0] = sums[p][0];
        at[1] = sums[p][1];
      }
      __syncthreads();
#pragma unroll
      for (int w = 0; w < kWarps; ++w) matrix[0] -= inverse[w * kThreads + threadIdx.x];
      return;
    }
#pragma unroll 4
    for (int k = 0; k < own; ++k) {
      double left[TILES], right[TILES];
#pragma unroll
      for (int a = 0; a < TILES; ++a) {
        left[a] = weights[k] * means[k * kStride + ty + kSide * a];
        right[a] = means[k * kStride + tx + kSide * a];
      }
      for_each_tile<TILES>([&](int t, int a, int b, int, int) { matrix[t] -= left[a] * right[b]; });
    }
  }

  // The covariance at (i, j) from the sum of the products about the means, which is also stored. 1 on the diagonal past
  // the last feature.
  __device__ double covariance(double sum, bool diagonal, int i, int j, double per_point) const {
    const int width = given.width;
    if (i >= width || j >= width) return i == j ? 1.0 : 0.0;
    const double value = sum * per_point + (i == j ? given.ridge : 0.0);
    given.scale[i * width + j] = static_cast<float>(value);
    if (!diagonal) given.scale[j * width + i] = static_cast<float>(value);
    return value;
  }

  // From the parts of the blocks to the covariance, which block 0 gets. `matrix` of a single block includes the total.
  __device__ void add_parts(double (&matrix)[kTiles], const Total (&total)[kOwnTiles], double per_point) const {
    if constexpr (CLUSTER == 1) {
      for_each_tile<TILES>(
          [&](int t, int a, int b, int i, int j) { matrix[t] = covariance(matrix[t], a == b, i, j, per_point); });
    } else {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) partials[(rank * kTiles + t) * kThreads + threadIdx.x] = matrix[t];
      sm90::cluster_sync();
      for_own_tiles([&](int s, int t, int a, int b, int i, int j) {
        double* const at = partials + t * kThreads + threadIdx.x;
        double parts[CLUSTER], sum = total[s].mean();
#pragma unroll
        for (int block = 0; block < CLUSTER; ++block) parts[block] = at[block * kTiles * kThreads];
#pragma unroll
        for (int block = 0; block < CLUSTER; ++block) sum += parts[block];  // in a fixed order
        at[0] = covariance(sum, a == b, i, j, per_point);
      });
      sm90::cluster_sync();
      if (rank > 0) return;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) matrix[t] = partials[t * kThreads + threadIdx.x];
    }
  }

  // Stores the inverse. Returns the thread's part of its trace.
  __device__ double invert(double (&matrix)[kTiles]) const {
    Sweep{shared.sweep, given.width}.run(matrix);
    double trace = 0.0;
    for_each_tile<TILES>([&](int t, int, int, int i, int j) {
      inverse[t * kTile + ty * kTileRow + tx] = -matrix[t];
      if (i == j && i < given.width) trace -= matrix[t];
    });
    return trace;
  }

  // The thread's part of the likelihood but for the sum over domains of `multiply`, in block 0. With S = total / n -
  // sum_k count_k mean_k mean_k^T / n + ridge, trace(S^-1 total) = n D - n ridge trace(S^-1) + sum_k count_k linear_k ·
  // mean_k, and the last sum is in `multiply`. trace: the thread's part of trace(S^-1).
  __device__ double determinant_and_trace(double trace) const {
    if (rank > 0) return 0.0;
    const int thread = kThreads - 1 - static_cast<int>(threadIdx.x);  // the last warps have less to multiply
    double sum = Sweep{shared.sweep, given.width}.log_determinant(thread) - given.ridge * trace;
    if (thread == 0) sum += given.width * (kLogTwoPi + 1.0);
    return -0.5 * given.n_points * sum;
  }

  // The operands B of the products: elements (4 s + q, 8 n + g) of the inverse.
  __device__ void load_columns(double (&b)[kSteps], int n, int g, int q) const {
    const int column = 8 * (n % 2) + g, tile = n / 2;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int row = 4 * (s % 4) + q, at = s / 4;
      const bool below = at >= tile;  // else the element is in the transposed tile
      b[s] = inverse[(below ? tile_at(at, tile) : tile_at(tile, at)) * kTile +
                     (below ? row * kTileRow + column : column * kTileRow + row)];
    }
  }

  // linear and constant of the block's domains. Returns the thread's part of the sum over them of linear · sums - count
  // linear · mean.
  __device__ double multiply() const {
    constexpr int kTogether = kColumns >= kWarps ? kWarps : kColumns >= 4 ? 4 : 2;  // warps with columns of their own
    constexpr int kGroups = kWarps / kTogether, kChains = 4;
    const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp, g = lane / 4, q = lane % 4;
    const int width = given.width;
    double scores = 0.0;
    for (int n = warp % kTogether; n < kColumns; n += kTogether) {
      double b[kSteps];
      load_columns(b, n, g, q);
      for (int m = warp / kTogether; 8 * m < own; m += kGroups) {
        const int k = 8 * m + g, d = 8 * n + 2 * q;
        const auto exists = [&](int x) { return k < own && d + x < width; };
        const double* const row = means + min(k, own - 1) * kStride;
        float sums[2];
#pragma unroll
        for (int x = 0; x < 2; ++x) sums[x] = exists(x) ? given.sums[(first + k) * width + d + x] : 0.0f;
        double c[kChains][2] = {};
#pragma unroll
        for (int s = 0; s < kSteps; ++s) warpwise::multiply_add(c[s % kChains], row[4 * s + q], b[s]);
        double dot = 0.0;
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          if (!exists(x)) continue;
          const double found = c[0][x] + c[1][x] + (c[2][x] + c[3][x]), product = found * row[d + x];
          given.linear[(first + k) * width + d + x] = static_cast<float>(found);
          scores += found * sums[x] - weights[k] * product;
          dot += product;
        }
        dot = warpwise::warp_reduce<warpwise::DoubleSum, 4>(dot);
        if (q == 0 && k < own) dots[k * kColumns + n] = dot;
      }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < own; k += kThreads) {
      double sum = 0.0;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) sum += dots[k * kColumns + n];
      given.constant[first + k] = static_cast<float>(-0.5 * sum);
    }
    return scores;
  }

  __device__ void run() const {
    double matrix[kTiles] = {};
    Total total[kOwnTiles] = {};
    for_own_tiles([&](int s, int, int, int, int i, int j) { total[s] = total_at(i, j); });
    const Slopes slopes = load_slopes();
    const double per_point = reciprocal(given.n_points);
    find_means();
#pragma unroll
    for (int t = 0; CLUSTER == 1 && t < kTiles; ++t) matrix[t] = total[t].mean();
    __syncthreads();
    subtract_domains(matrix);
    add_parts(matrix, total, per_point);
    const double trace = rank == 0 ? invert(matrix) : 0.0;
    sync();  // the inverse is complete
    double likelihood = multiply() + determinant_and_trace(trace);
    likelihood = warpwise::block_reduce<warpwise::DoubleSum, kThreads>(likelihood, shared.warp_sums);
    if constexpr (CLUSTER > 1) {
      if (threadIdx.x == 0) block_likelihoods[rank] = likelihood;
      sm90::cluster_sync();
      likelihood = 0.0;
      for (int block = 0; rank == 0 && block < CLUSTER; ++block) likelihood += block_likelihoods[block];
    }
    if (rank > 0 || threadIdx.x > 0) return;
    *given.likelihood = likelihood;
    if (given.derivatives)
      *given.new_beta = newton_step(slopes.beta, slopes.gradient, slopes.curvature, given.highest_beta);
  }
};

template <int TILES, int CLUSTER>
__device__ inline void m_step(Arguments all) {
  extern __shared__ __align__(16) double dynamic[];
  __shared__ typename MStep<TILES, CLUSTER>::Shared shared;
  const int restart = blockIdx.x / CLUSTER;
  const long long moments = static_cast<long long>(restart) * all.domains * all.width;
  all.counts += restart * all.domains;
  all.sums += moments;
  all.previous += moments;
  all.mean += moments;
  all.linear += moments;
  all.constant += restart * all.domains;
  all.scale += static_cast<long long>(restart) * all.width * all.width;
  all.likelihood += restart;
  if (all.derivatives) {
    all.derivatives += restart;
    all.beta += restart;
    all.new_beta += restart;
  }
  if (CLUSTER > 1) {
    const long long doubles = (CLUSTER + 1) * tiles_of(TILES) * kThreads + CLUSTER;
    all.workspace += restart * doubles;
  }
  MStep<TILES, CLUSTER>(all, shared, dynamic, blockIdx.x % CLUSTER).run();
}

// counts: (restarts, domains), sums, previous, mean and linear: (restarts, domains, width), total: (width, width),
// scale: (restarts, width, width), constant: (restarts, domains), likelihood: (restarts). derivatives: (2, restarts),
// beta and new_beta: (restarts), all null without an estimate of beta. TILES: at least cdiv(width, 16). Grid: restarts
// blocks of kThreads. Shared: domains (18 TILES + 5) doubles, and 160 TILES (TILES + 1), or 2048 for one tile.
template <int TILES>
__global__ void __launch_bounds__(kThreads, 1) potts_m_step_one_block(
    const float* counts, const float* sums, const float* total, const float* previous, const float* derivatives,
    const float* beta, float* mean, float* scale, float* linear, float* constant, double* likelihood, float* new_beta,
    double n_points, double ridge, float highest_beta, int domains, int width) {
  m_step<TILES, 1>({counts, sums, total, previous, derivatives, beta, mean, scale, linear, constant, likelihood,
                    new_beta, nullptr, n_points, ridge, highest_beta, domains, width});
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// The same by a cluster of kBlocks for each restart. workspace: (restarts, (kBlocks + 1) kThreads TILES (TILES + 1) / 2
// + kBlocks). Grid: restarts kBlocks. Shared: cdiv(domains, kBlocks) (18 TILES + 5) doubles.
template <int TILES>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kBlocks, 1, 1)
    potts_m_step_cluster(const float* counts, const float* sums, const float* total, const float* previous,
                         const float* derivatives, const float* beta, float* mean, float* scale, float* linear,
                         float* constant, double* likelihood, float* new_beta, double* workspace, double n_points,
                         double ridge, float highest_beta, int domains, int width) {
  m_step<TILES, kBlocks>({counts, sums, total, previous, derivatives, beta, mean, scale, linear, constant, likelihood,
                          new_beta, workspace, n_points, ridge, highest_beta, domains, width});
}
#endif
