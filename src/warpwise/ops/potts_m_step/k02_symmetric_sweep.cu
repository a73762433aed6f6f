// The inverse of a symmetric matrix with one barrier for eight features; for many domains, a cluster of blocks.
//
// In k01 each step of the elimination waits for a division, and means are read again from global memory for each
// product. Here only the tiles on and below the diagonal of the covariance are in registers, a pivot is a tile of
// 8 x 8, and mma.sync multiplies tiles in float64. The means stay in shared memory. Each block of a cluster has some of
// the domains: it computes their part of the covariance and their results. It also adds the parts of some tiles of the
// covariance, and stores these tiles. Block 0 computes the inverse.

#include <warpwise/core/reduce.cuh>
#include <warpwise/sm80/double_mma.cuh>
#include <warpwise/sm80/mma.cuh>
#include <warpwise/sm90/cluster.cuh>

#include "block_sweep.cuh"
#include "m_step.cuh"

namespace sm90 = warpwise::sm90;

constexpr int kBlocks = 8;  // of a cluster

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
  static constexpr int kRows = 2 * TILES, kTiles = tiles_of(kRows);  // of tiles of 8 x 8
  using Sweep = BlockSweep<kRows>;
  using Tiles = WarpTiles<kRows>;
  static constexpr int kOwn = Tiles::kOwn, kRow = kSide * TILES;
  // Doubles of a row of means and of the inverse, in shared memory without bank conflicts for mma.sync.
  static constexpr int kStride = kRow + 4, kInverseRow = CLUSTER > 1 ? kRow : kStride;
  // Each tile of the covariance is the sum of the total and kParts parts. With few tiles, kGroups groups of warps each
  // compute a part: the sum over every kGroups-th group of four domains.
  static constexpr int kGroups = CLUSTER > 1 || TILES > 2 ? 1 : kWarps / TILES, kParts = CLUSTER * kGroups;
  // Doubles of shared memory for the total and the parts; a single block later stores the inverse in the same place.
  static constexpr int kTotal = kRow * kRow / 2;
  static constexpr int kParted = CLUSTER > 1 ? 0 : kParts * kTiles * kTileSize;
  static constexpr int kInverse = CLUSTER > 1 ? 0 : kRow * kInverseRow;
  static constexpr int kScratch = kInverse > kTotal + kParted ? kInverse : kTotal + kParted;
  static constexpr int kWorkspace = kParts * kTiles * kTileSize + kRow * kRow + CLUSTER;  // doubles, of a cluster
  static constexpr int kSteps = kRow / 4, kColumns = kRow / 8;  // of the products with the inverse

  struct Shared {
    typename Sweep::Shared sweep;
    double warp_sums[kWarps];
  };

  const Arguments& given;
  Shared& shared;
  const int rank, warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  const int g = lane / 4, q = lane % 4;  // of operands of mma.sync
  const Tiles tiles = Tiles::of_warp(warp);
  const int share = (given.domains + CLUSTER - 1) / CLUSTER;  // domains of a block
  const int first = rank * share, own = max(0, min(share, given.domains - first));
  double *weights, *means, *dots;  // the counts; rows of kStride; linear times mean: (share, kColumns)
  float* total;                    // (width, width); of a single block then the covariance
  double2* parts;                  // (kParts, owners, kOwn, 32)
  double* inverse;                 // (kRow, kInverseRow)
  double* block_likelihoods;       // of a cluster: (CLUSTER)

  __device__ MStep(const Arguments& all, Shared& fixed, double* dynamic, int block)
      : given(all), shared(fixed), rank(block), weights(dynamic + kScratch), means(weights + share) {
    dots = means + share * kStride;
    total = reinterpret_cast<float*>(dynamic);
    parts = reinterpret_cast<double2*>(CLUSTER > 1 ? given.workspace : dynamic + kTotal);
    inverse = CLUSTER > 1 ? given.workspace + kParts * kTiles * kTileSize : dynamic;
    block_likelihoods = inverse + kRow * kInverseRow;
  }

  static __device__ void sync() {
    if constexpr (CLUSTER > 1) {
      sm90::cluster_sync();
    } else {
      __syncthreads();
    }
  }

  // Starts the copy of the total of the products to shared memory.
  __device__ void load_total() const {
    const int count = given.width * given.width, quads = warpwise::aligned(given.total) ? count / 4 : 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < quads; i += kThreads)
      warpwise::mma::cp_async<16>(warpwise::shared_address(total + 4 * i), given.total + 4 * i, true);
#pragma unroll 1
    for (int i = 4 * quads + threadIdx.x; i < count; i += kThreads)
      warpwise::mma::cp_async<4>(warpwise::shared_address(total + i), given.total + i, true);
    __pipeline_commit();
  }

  __device__ Slopes load_slopes() const {
    if (!given.derivatives || rank > 0 || threadIdx.x > 0) return {};
    return {*given.beta, given.derivatives[0], given.derivatives[gridDim.x / CLUSTER]};
  }

  // The means and counts of the block's domains, with zeros past the last feature. The loads of LOADS elements come
  // before the first store, which could alias them.
  template <int LOADS>
  __device__ void find_means() const {
#pragma unroll 1
    for (int begin = threadIdx.x; begin < own * kRow; begin += LOADS * kThreads) {
      float counts[LOADS], sums[LOADS], previous[LOADS];
      const auto place = [&](int e, int& row, int& d) {
        const int i = begin + e * kThreads;
        row = i / kRow;
        d = i % kRow;
        return row < own && d < given.width ? (first + row) * given.width + d : -1;
      };
      int row, d;
#pragma unroll
      for (int e = 0; e < LOADS; ++e) {
        const int at = place(e, row, d);
        counts[e] = at >= 0 ? given.counts[first + row] : 0.0f;
        sums[e] = at >= 0 ? given.sums[at] : 0.0f;
        previous[e] = at >= 0 ? given.previous[at] : 0.0f;
      }
#pragma unroll
      for (int e = 0; e < LOADS; ++e) {
        const int at = place(e, row, d);
        const double mean = counts[e] > kLeastCount ? sums[e] * reciprocal(counts[e]) : previous[e];
        if (row < own) means[row * kStride + d] = mean;
        if (row < own && d == 0) weights[row] = counts[e];
        if (at >= 0) given.mean[at] = static_cast<float>(mean);
      }
    }
  }

  // The lane's elements of tile s of an owner, in a part.
  __device__ double2* part(int of, int owner, int s) const {
    return parts + ((of * Tiles::kOwners + owner) * kOwn + s) * warpwise::kWarp + lane;
  }

  // Stores minus the sum over the block's domains of count mean mean^T to the block's kGroups parts.
  __device__ void subtract_domains() const {
    const Tiles of = kGroups > 1 ? Tiles(warp % TILES) : tiles;
    if (!of.any()) return;
    const int group = kGroups > 1 ? warp / TILES : 0;
    double sums[kOwn][2] = {};
#pragma unroll 1
    for (int k = 4 * group + q; k - q < own; k += 4 * kGroups) {
      const double* const mean = means + min(k, own - 1) * kStride + g;
      const double weight = k < own ? -weights[k] : 0.0;
      const double high = weight * mean[kTileSide * of.high], low = weight * mean[kTileSide * of.low];
#pragma unroll
      for (int s = 0; s < kOwn; ++s)
        warpwise::multiply_add(sums[s], of.in_high_row(s) ? high : low, mean[kTileSide * of.column(s)]);
    }
#pragma unroll
    for (int s = 0; s < kOwn; ++s) *part(rank * kGroups + group, of.low, s) = {sums[s][0], sums[s][1]};
  }

  // Adds the parts and the total to the covariance, in place of the first parts, with 1 on the diagonal past the last
  // feature, and stores it: a single block in place of the total.
  __device__ void add_parts(double per_point) const {
    float* const scale = CLUSTER > 1 ? given.scale : total;
    const int width = given.width;
#pragma unroll 1
    for (int t = rank + CLUSTER * warp; t < kTiles; t += CLUSTER * kWarps) {
      const int owner = t / kOwn, s = t % kOwn;
      const int i = kTileSide * Tiles(owner).row(s) + g, j = kTileSide * Tiles(owner).column(s) + 2 * q;
      double2 found[kParts];
#pragma unroll
      for (int of = 0; of < kParts; ++of) found[of] = *part(of, owner, s);
      double values[2];
      bool exists[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float below = 0.0f, above = 0.0f;
        exists[e] = i < width && j + e < width;
        if (exists[e]) {
          below = total[i * width + j + e];
          above = total[(j + e) * width + i];
        }
        values[e] = 0.5 * (static_cast<double>(below) + above);
#pragma unroll
        for (int of = 0; of < kParts; ++of) values[e] += e ? found[of].y : found[of].x;  // in a fixed order
        values[e] = values[e] * per_point + (i == j + e ? given.ridge : 0.0);
      }
      __syncwarp();  // another lane may have read the transposed element
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (!exists[e]) {
          values[e] = i == j + e ? 1.0 : 0.0;
        } else if (s > 1 || j + e <= i) {  // two lanes of a tile on the diagonal have values of different rounding
          scale[i * width + j + e] = scale[(j + e) * width + i] = static_cast<float>(values[e]);
        }
      }
      *part(0, owner, s) = {values[0], values[1]};
    }
  }

  // Copies the covariance from shared memory to global memory. A cluster stores it in add_parts.
  __device__ void store_scale() const {
    if (CLUSTER > 1) return;
    const int count = given.width * given.width, quads = warpwise::aligned(given.scale) ? count / 4 : 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < quads; i += kThreads)
      reinterpret_cast<float4*>(given.scale)[i] = reinterpret_cast<const float4*>(total)[i];
#pragma unroll 1
    for (int i = 4 * quads + threadIdx.x; i < count; i += kThreads) given.scale[i] = total[i];
  }

  // Inverts the covariance. Returns the thread's part of the logarithm of its determinant minus ridge times the trace
  // of the inverse. The sweep has barriers after the last read of the total and the parts, so the inverse may replace
  // them.
  __device__ double invert() const {
    double matrix[kOwn][2] = {};
#pragma unroll
    for (int s = 0; s < kOwn && tiles.any(); ++s) {
      const double2 found = *part(0, tiles.low, s);
      matrix[s][0] = found.x;
      matrix[s][1] = found.y;
    }
    double sum = Sweep{shared.sweep, given.width}.run(matrix);
    if (!tiles.any()) return sum;
#pragma unroll
    for (int s = 0; s < kOwn; ++s) {
      const int i = kTileSide * tiles.row(s) + g, j = kTileSide * tiles.column(s) + 2 * q;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        inverse[i * kInverseRow + j + e] = -matrix[s][e];
        if (s > 1) inverse[(j + e) * kInverseRow + i] = -matrix[s][e];
        if (s < 2 && i == j + e && i < given.width) sum += given.ridge * matrix[s][e];
      }
    }
    return sum;
  }

  // linear and constant of the block's domains. Returns the thread's part of the sum over them of linear · sums - count
  // linear · mean.
  __device__ double multiply() const {
    constexpr int kColumnWarps = kColumns >= 8 ? 8 : kColumns >= 4 ? 4 : 2;  // warps with columns of their own
    constexpr int kSets = kWarps / kColumnWarps, kChains = 4;
    const int width = given.width;
    double scores = 0.0;
    for (int n = warp % kColumnWarps; n < kColumns; n += kColumnWarps) {
      double b[kSteps];
#pragma unroll
      for (int s = 0; s < kSteps; ++s) b[s] = inverse[(8 * n + g) * kInverseRow + 4 * s + q];
      for (int m = warp / kColumnWarps; 8 * m < own; m += kSets) {
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

  // With S = total / n - sum_k count_k mean_k mean_k^T / n + ridge, trace(S^-1 total) = n D - n ridge trace(S^-1) +
  // sum_k count_k linear_k · mean_k.
  __device__ void run() const {
    load_total();
    const Slopes slopes = load_slopes();
    const double per_point = reciprocal(given.n_points);
    if (own * kRow > 2 * kThreads) {
      find_means<8>();
    } else {
      find_means<2>();
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    subtract_domains();
    sync();
    add_parts(per_point);
    sync();
    store_scale();
    double likelihood = rank == 0 ? -0.5 * given.n_points * invert() : 0.0;
    sync();  // the inverse is complete
    likelihood += multiply();
    likelihood = warpwise::block_reduce<warpwise::DoubleSum, kThreads>(likelihood, shared.warp_sums);
    if constexpr (CLUSTER > 1) {
      if (threadIdx.x == 0) block_likelihoods[rank] = likelihood;
      sm90::cluster_sync();
      likelihood = 0.0;
      for (int block = 0; rank == 0 && block < CLUSTER; ++block) likelihood += block_likelihoods[block];
    }
    if (rank > 0 || threadIdx.x > 0) return;
    *given.likelihood = likelihood - 0.5 * given.n_points * given.width * (kLogTwoPi + 1.0);
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
  if (CLUSTER > 1) all.workspace += static_cast<long long>(restart) * MStep<TILES, CLUSTER>::kWorkspace;
  MStep<TILES, CLUSTER>(all, shared, dynamic, blockIdx.x % CLUSTER).run();
}

// counts: (restarts, domains), sums, previous, mean and linear: (restarts, domains, width), total: (width, width),
// scale: (restarts, width, width), constant: (restarts, domains), likelihood: (restarts). derivatives: (2, restarts),
// beta and new_beta: (restarts), all null without an estimate of beta. TILES: at least cdiv(width, 16). Grid: restarts
// blocks of kThreads. Shared: kScratch + domains (18 TILES + 5) doubles.
template <int TILES>
__global__ void __launch_bounds__(kThreads, 1) potts_m_step_one_block(
    const float* counts, const float* sums, const float* total, const float* previous, const float* derivatives,
    const float* beta, float* mean, float* scale, float* linear, float* constant, double* likelihood, float* new_beta,
    double n_points, double ridge, float highest_beta, int domains, int width) {
  m_step<TILES, 1>({counts, sums, total, previous, derivatives, beta, mean, scale, linear, constant, likelihood,
                    new_beta, nullptr, n_points, ridge, highest_beta, domains, width});
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// The same by a cluster of kBlocks for each restart. workspace: for each restart 64 kBlocks TILES (2 TILES + 1) doubles
// of parts, 256 TILES^2 of the inverse and kBlocks likelihoods. Grid: restarts kBlocks. Shared: kScratch +
// cdiv(domains, kBlocks) (18 TILES + 5) doubles.
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
