// The inverse of a symmetric matrix with one barrier for two features; for many domains, a cluster of blocks.
//
// In k01 each step of the elimination waits for a division, and means are read again from global memory for each
// product. Here the covariance is symmetric: only the tiles on and below the diagonal are in registers, and one vector
// is both the row and the column of a pivot. A pivot has two features; one thread inverts the next one while the others
// update. The means stay in shared memory. Each of the CLUSTER blocks adds its domains' part of the covariance and
// multiplies their means by the inverse, which block 0 computes.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/sm90/cluster.cuh>

namespace sm90 = warpwise::sm90;

constexpr int kSide = 16, kThreads = kSide * kSide, kBlocks = 8;  // kBlocks: of a cluster
constexpr float kLeastCount = 1e-3f;
constexpr double kLogTwoPi = 1.8378770664093453;

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

// Tile (a, b), a >= b, of 16 x 16 elements; thread (tx, ty) has element (ty + 16 a, tx + 16 b).
__host__ __device__ constexpr int tile_at(int a, int b) { return a * (a + 1) / 2 + b; }
__host__ __device__ constexpr int tiles_of(int TILES) { return TILES * (TILES + 1) / 2; }

// 1 / x to about one unit in the last place: an approximation of 20 bits and two steps of Newton's method, a third of
// the latency of a division.
__device__ inline double reciprocal(double x) {
  double found;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(found) : "d"(x));
#pragma unroll
  for (int i = 0; i < 2; ++i) found = fma(found, fma(-x, found, 1.0), found);
  return found;
}

template <int TILES, int CLUSTER>
struct MStep {
  static constexpr int kTiles = tiles_of(TILES), kRow = kSide * TILES;  // kRow: doubles of a row of means
  // Products with the inverse: a thread has one feature of kOf domains, kGroups groups of threads have others.
  static constexpr int kGroups = kThreads / kRow, kOf = TILES;
  static constexpr bool kKeepsTotal = TILES <= 4;  // in registers

  // The inverse of a pivot [[a, b], [b, c]].
  struct Inverse {
    double xx, xy, yy;
    __device__ double2 operator()(double2 u) const { return {xx * u.x + xy * u.y, xy * u.x + yy * u.y}; }
  };

  struct Shared {
    double2 vectors[2][kRow];
    double diagonal[kRow], below[kRow], determinants[kRow / 2], warp_sums[kThreads / warpwise::kWarp];
    Inverse inverses[2];
  };

  const Arguments& given;
  Shared& shared;
  const int rank, tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const int share = (given.domains + CLUSTER - 1) / CLUSTER;  // domains of a block
  const int first = rank * share, own = max(0, min(share, given.domains - first));
  double *weights, *means, *inverse;     // weights: the counts
  double *partials, *block_likelihoods;  // of a cluster: (CLUSTER, kTiles, kThreads), (CLUSTER)

  __device__ MStep(const Arguments& all, Shared& fixed, double* dynamic, int block)
      : given(all), shared(fixed), rank(block), weights(dynamic), means(dynamic + share) {
    inverse = means + share * kRow;
    if (CLUSTER == 1) return;
    partials = given.workspace;
    block_likelihoods = partials + CLUSTER * kTiles * kThreads;
    inverse = block_likelihoods + CLUSTER;
  }

  static __device__ void sync() {
    if constexpr (CLUSTER > 1) {
      sm90::cluster_sync();
    } else {
      __syncthreads();
    }
  }

  // visit(t, a, b, i, j): element (i, j) of tile t.
  template <class Visit>
  __device__ void for_each_tile(const Visit& visit) const {
#pragma unroll
    for (int a = 0; a < TILES; ++a) {
#pragma unroll
      for (int b = 0; b <= a; ++b) visit(tile_at(a, b), a, b, ty + kSide * a, tx + kSide * b);
    }
  }

  // The symmetric total of the products, zeros outside.
  __device__ void load_total(double (&total)[kTiles]) const {
    const int width = given.width;
    for_each_tile([&](int t, int, int, int i, int j) {
      const bool inside = i < width && j < width;
      const float below = inside ? given.total[i * width + j] : 0.0f,
                  above = inside ? given.total[j * width + i] : 0.0f;
      total[t] = 0.5 * (static_cast<double>(below) + above);
    });
  }

  // beta and the derivatives of the pseudo-likelihood, for a step of Newton's method.
  struct Slopes {
    float beta, gradient, curvature;
    __device__ float next(float highest) const {
      const float longest = 0.25f * highest, step = curvature > 0.0f ? gradient / curvature : 0.0f;
      return fminf(fmaxf(beta + fminf(fmaxf(step, -longest), longest), 0.0f), highest);
    }
  };

  __device__ Slopes load_slopes() const {
    if (!given.derivatives || rank > 0 || threadIdx.x > 0) return {};
    return {*given.beta, given.derivatives[0], given.derivatives[gridDim.x / CLUSTER]};
  }

  // The means and counts of the block's domains, with zeros past the last feature.
  __device__ void find_means() const {
    for (int k = threadIdx.x; k < own; k += kThreads) weights[k] = given.counts[first + k];
#pragma unroll 4
    for (int i = threadIdx.x; i < own * kRow; i += kThreads) {
      const int k = first + i / kRow, d = i % kRow, at = k * given.width + d;
      if (d >= given.width) {
        means[i] = 0.0;
        continue;
      }
      const float count = given.counts[k], sum = given.sums[at], before = given.previous[at];
      means[i] = count > kLeastCount ? sum / static_cast<double>(count) : before;
      given.mean[at] = static_cast<float>(means[i]);
    }
  }

  // Subtracts the block's domains: count mean mean^T.
  __device__ void subtract_domains(double (&matrix)[kTiles]) const {
#pragma unroll 4
    for (int k = 0; k < own; ++k) {
      double left[TILES], right[TILES];
#pragma unroll
      for (int a = 0; a < TILES; ++a) {
        left[a] = weights[k] * means[k * kRow + ty + kSide * a];
        right[a] = means[k * kRow + tx + kSide * a];
      }
      for_each_tile([&](int t, int a, int b, int, int) { matrix[t] -= left[a] * right[b]; });
    }
  }

  // The first block gets the sum over the cluster, in the order of the blocks.
  __device__ void gather(double (&matrix)[kTiles]) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) partials[(rank * kTiles + t) * kThreads + threadIdx.x] = matrix[t];
    sm90::cluster_sync();
    for (int t = rank; t < kTiles; t += CLUSTER) {
      double* const at = partials + t * kThreads + threadIdx.x;
      double parts[CLUSTER], sum = 0.0;
#pragma unroll
      for (int block = 0; block < CLUSTER; ++block) parts[block] = at[block * kTiles * kThreads];
#pragma unroll
      for (int block = 0; block < CLUSTER; ++block) sum += parts[block];
      at[0] = sum;
    }
    sm90::cluster_sync();
    if (rank > 0) return;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) matrix[t] = partials[t * kThreads + threadIdx.x];
  }

  // Stores the rows and columns 16 pb + r and the next to `to`, with minus the identity in place of the pivot, and
  // makes them zero.
  template <int pb>
  __device__ void store_pivot_columns(double (&matrix)[kTiles], double2* to, int r) const {
    const int c = tx - r, d = ty - r;
    const bool column = c == 0 || c == 1, row = d == 0 || d == 1;
#pragma unroll
    for (int a = 0; a < TILES; ++a) {
      const int t = a >= pb ? tile_at(a, pb) : tile_at(pb, a);
      if (a >= pb ? column : row) {
        double* const at = reinterpret_cast<double*>(to + (a >= pb ? ty : tx) + kSide * a) + (a >= pb ? c : d);
        *at = a == pb && row ? (c == d ? -1.0 : 0.0) : matrix[t];
        matrix[t] = 0.0;
      }
      if (a == pb && row) matrix[t] = 0.0;
    }
  }

  // The inverse of the pivot [[a, b], [b, c]] of features 2 pair and 2 pair + 1.
  __device__ void invert_pivot(int pair, double a, double b, double c) const {
    const double determinant = a * c - b * b, factor = reciprocal(determinant);
    shared.inverses[pair % 2] = {c * factor, -b * factor, a * factor};
    shared.determinants[pair] = a > 0.0 ? determinant : nan("");  // else the covariance is not positive definite
  }

  // The sweep operator for two features at a time: pivot P and columns U of the rest become -P^-1 and U P^-1, and
  // U P^-1 U^T is subtracted from the rest. At the end the matrix is minus its inverse. a, b, c: the pivot of features
  // 2 threadIdx.x and 2 threadIdx.x + 1.
  template <int pb>
  __device__ void sweep(double (&matrix)[kTiles], double a, double b, double c) const {
    for (int r = 0; r < kSide && kSide * pb + r < given.width; r += 2) {
      const int pair = kSide / 2 * pb + r / 2, own = threadIdx.x;
      double2* const u = shared.vectors[pair % 2];  // a thread may be one step ahead of another
      store_pivot_columns<pb>(matrix, u, r);
      __syncthreads();
      const Inverse inverse = shared.inverses[pair % 2];
      if (2 * own < given.width) {
        const double2 first = u[2 * own], second = u[2 * own + 1], x = inverse(first), y = inverse(second);
        a -= x.x * first.x + x.y * first.y;
        b -= y.x * first.x + y.y * first.y;
        c -= y.x * second.x + y.y * second.y;
        if (own == pair + 1) invert_pivot(own, a, b, c);
      }
      double2 left[TILES], right[TILES];
#pragma unroll
      for (int i = 0; i < TILES; ++i) {
        left[i] = inverse(u[ty + kSide * i]);
        right[i] = u[tx + kSide * i];
      }
      for_each_tile([&](int t, int i, int j, int, int) {
        matrix[t] -= left[i].x * right[j].x;
        matrix[t] -= left[i].y * right[j].y;
      });
    }
    if constexpr (pb + 1 < TILES) sweep<pb + 1>(matrix, a, b, c);
  }

  // The covariance and its inverse from the sums of products about 0. Returns the thread's part of -trace(inverse
  // total)
  // - n (log det + D log(2 pi)), twice the likelihood without the expected scores.
  __device__ double invert(double (&matrix)[kTiles], double (&total)[kTiles]) const {
    const int width = given.width, pair = 2 * threadIdx.x;
    const double per_point = 1.0 / given.n_points;
    for_each_tile([&](int t, int a, int b, int i, int j) {
      if (i < width && j < width) {
        matrix[t] = matrix[t] * per_point + (i == j ? given.ridge : 0.0);
        given.scale[i * width + j] = static_cast<float>(matrix[t]);
        if (a > b) given.scale[j * width + i] = static_cast<float>(matrix[t]);
      } else if (i == j) {
        matrix[t] = 1.0;  // the second feature of the last pivot, if the number of features is odd
      }
      if (i == j) shared.diagonal[i] = matrix[t];
      if (i == j + 1) shared.below[j] = matrix[t];
    });
    __syncthreads();
    double a = 1.0, b = 0.0, c = 1.0;
    if (pair < width) {
      a = shared.diagonal[pair];
      b = shared.below[pair];
      c = shared.diagonal[pair + 1];
    }
    if (threadIdx.x == 0) invert_pivot(0, a, b, c);
    sweep<0>(matrix, a, b, c);
    double found = 0.0;
    if (pair < width) {
      found = -given.n_points * (log(shared.determinants[threadIdx.x]) + min(2, width - pair) * kLogTwoPi);
    }
    if (!kKeepsTotal) load_total(total);
    for_each_tile([&](int t, int a, int b, int i, int j) {
      found += matrix[t] * total[t] * (a > b ? 2.0 : 1.0);  // a diagonal tile has all of its elements
      if (i >= width || j >= width) return;
      inverse[i * width + j] = -matrix[t];
      if (a > b) inverse[j * width + i] = -matrix[t];
    });
    return found;
  }

  // linear and constant of the block's domains. Returns a thread's part of the expected scores of all points.
  __device__ double multiply() const {
    const int width = given.width, d = threadIdx.x % kRow, group = threadIdx.x / kRow;
    double scores = 0.0;
    for (int begin = 0; begin < own; begin += kOf * kGroups) {
      double found[kOf] = {};
      float sums[kOf];
      const auto domain = [&](int c) { return begin + c * kGroups + group; };
      const auto exists = [&](int c) { return domain(c) < own && d < width; };
#pragma unroll
      for (int c = 0; c < kOf; ++c) sums[c] = exists(c) ? given.sums[(first + domain(c)) * width + d] : 0.0f;
      constexpr int kAtOnce = 16;
      for (int e = 0; e < width; e += kAtOnce) {
        double values[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) values[i] = e + i < width && d < width ? inverse[(e + i) * width + d] : 0.0;
#pragma unroll
        for (int c = 0; c < kOf; ++c) {
          if (domain(c) >= own) continue;
          const double* const row = means + domain(c) * kRow + e;
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) found[c] += values[i] * row[i];
        }
      }
      __syncthreads();  // these means are products from now on
#pragma unroll
      for (int c = 0; c < kOf; ++c) {
        if (!exists(c)) continue;
        const double product = found[c] * means[domain(c) * kRow + d];
        given.linear[(first + domain(c)) * width + d] = static_cast<float>(found[c]);
        scores += found[c] * sums[c] - 0.5 * weights[domain(c)] * product;
        means[domain(c) * kRow + d] = product;
      }
    }
    __syncthreads();
    for (int k = threadIdx.x / warpwise::kWarp; k < own; k += kThreads / warpwise::kWarp) {
      double sum = 0.0;
      for (int i = threadIdx.x % warpwise::kWarp; i < width; i += warpwise::kWarp) sum += means[k * kRow + i];
      sum = warpwise::warp_reduce<warpwise::DoubleSum>(sum);
      if (threadIdx.x % warpwise::kWarp == 0) given.constant[first + k] = static_cast<float>(-0.5 * sum);
    }
    return scores;
  }

  __device__ void run() const {
    double matrix[kTiles] = {}, total[kTiles];
    if (rank == 0) load_total(matrix);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) total[t] = matrix[t];
    const Slopes slopes = load_slopes();
    find_means();
    __syncthreads();
    subtract_domains(matrix);
    if constexpr (CLUSTER > 1) gather(matrix);
    const double without_scores = rank == 0 ? 0.5 * invert(matrix, total) : 0.0;
    sync();  // the inverse is complete
    double likelihood =
        warpwise::block_reduce<warpwise::DoubleSum, kThreads>(multiply() + without_scores, shared.warp_sums);
    if constexpr (CLUSTER > 1) {
      if (threadIdx.x == 0) block_likelihoods[rank] = likelihood;
      sm90::cluster_sync();
      likelihood = 0.0;
      for (int block = 0; rank == 0 && block < CLUSTER; ++block) likelihood += block_likelihoods[block];
    }
    if (rank > 0 || threadIdx.x > 0) return;
    *given.likelihood = likelihood;
    if (given.derivatives) *given.new_beta = slopes.next(given.highest_beta);
  }
};

template <int TILES, int CLUSTER>
__device__ inline void m_step(Arguments all) {
  extern __shared__ __align__(16) double dynamic[];
  warpwise::wait_for_previous_kernel();  // the launch overlaps the end of potts_em_step
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
    const long long doubles = CLUSTER * (tiles_of(TILES) * kThreads + 1) + all.width * all.width;
    all.workspace += restart * doubles;
  }
  MStep<TILES, CLUSTER>(all, shared, dynamic, blockIdx.x % CLUSTER).run();
}

// counts: (restarts, domains), sums, previous, mean and linear: (restarts, domains, width), total: (width, width),
// scale: (restarts, width, width), constant: (restarts, domains), likelihood: (restarts). derivatives: (2, restarts),
// beta and new_beta: (restarts), all null without an estimate of beta. TILES: a power of two, at least cdiv(width, 16).
// Grid: restarts blocks of kThreads. Shared: domains (16 TILES + 1) + width^2 doubles.
template <int TILES>
__global__ void __launch_bounds__(kThreads, 1) potts_m_step_one_block(
    const float* counts, const float* sums, const float* total, const float* previous, const float* derivatives,
    const float* beta, float* mean, float* scale, float* linear, float* constant, double* likelihood, float* new_beta,
    double n_points, double ridge, float highest_beta, int domains, int width) {
  m_step<TILES, 1>({counts, sums, total, previous, derivatives, beta, mean, scale, linear, constant, likelihood,
                    new_beta, nullptr, n_points, ridge, highest_beta, domains, width});
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// The same by a cluster of kBlocks for each restart. workspace: (restarts, kBlocks (kThreads TILES (TILES + 1) / 2 + 1)
// + width^2). Grid: restarts kBlocks. Shared: cdiv(domains, kBlocks) (16 TILES + 1) doubles.
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
