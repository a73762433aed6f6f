// The inverse of a symmetric, positive definite matrix in the registers of a block, for k02.
#pragma once

#include <warpwise/core/reduce.cuh>

#include "m_step.cuh"

// Tile (a, b), a >= b, of 16 x 16 elements; thread (tx, ty) has element (ty + 16 a, tx + 16 b).
__host__ __device__ constexpr int tile_at(int a, int b) { return a * (a + 1) / 2 + b; }
__host__ __device__ constexpr int tiles_of(int TILES) { return TILES * (TILES + 1) / 2; }

// visit(t, a, b, i, j): element (i, j) of tile t.
template <int TILES, class Visit>
__device__ inline void for_each_tile(const Visit& visit) {
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
#pragma unroll
  for (int a = 0; a < TILES; ++a) {
#pragma unroll
    for (int b = 0; b <= a; ++b) visit(tile_at(a, b), a, b, ty + kSide * a, tx + kSide * b);
  }
}

// 1 / x to about one unit in the last place: an approximation of 20 bits and a step of third order, a third of the
// latency of a division.
__device__ inline double reciprocal(double x) {
  double found;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(found) : "d"(x));
  const double error = fma(-x, found, 1.0);
  return fma(found, fma(error, error, error), found);
}

// The sweep operator for two features at a time: pivot P and columns U of the rest become -P^-1 and U P^-1, and
// U P^-1 U^T is subtracted from the rest. At the end the matrix is minus its inverse. There is one barrier for a pivot:
// the last warp inverts the next pivot while the others update.
template <int TILES>
struct PivotSweep {
  static constexpr int kTiles = tiles_of(TILES), kRow = kSide * TILES;

  // A pivot [[a, b], [b, c]], or its inverse.
  struct Pivot {
    double a, b, c;
    __device__ double2 operator*(double2 u) const { return {a * u.x + b * u.y, b * u.x + c * u.y}; }
  };

  struct Shared {
    double2 vectors[2][kRow];
    double determinants[kRow / 2];
    Pivot pivots[2], inverses[2];
  };

  Shared& shared;
  const int width, tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;

  // All threads. Diagonal elements from `width` on are 1, the other elements there 0.
  __device__ void run(double (&matrix)[kTiles]) const {
    store_pivot(matrix[0], 0, 0);
    __syncthreads();
    if (inverts()) invert_pivot(0, shared.pivots[0]);
    sweep<0>(matrix);
  }

  // The logarithm of the determinant of a pivot, 0 past the last. NaN unless the matrix is positive definite.
  __device__ double log_determinant(int pair) const { return 2 * pair < width ? log(shared.determinants[pair]) : 0.0; }

 private:
  // Whether the thread is in the warp that inverts pivots.
  static __device__ bool inverts() { return threadIdx.x >= kThreads - warpwise::kWarp; }

  // Stores the pivot of rows and columns r and r + 1 of a tile on the diagonal; `value` is the thread's element.
  __device__ void store_pivot(double value, int pair, int r) const {
    const int c = tx - r, d = ty - r;
    if ((c == 0 || c == 1) && (d == c || d == 1)) (&shared.pivots[pair % 2].a)[c + d] = value;
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

  // All lanes of a warp; one stores the inverse.
  __device__ void invert_pivot(int pair, const Pivot& pivot) const {
    const double determinant = pivot.a * pivot.c - pivot.b * pivot.b, factor = reciprocal(determinant);
    if (threadIdx.x % warpwise::kWarp > 0) return;
    shared.inverses[pair % 2] = {pivot.c * factor, -pivot.b * factor, pivot.a * factor};
    shared.determinants[pair] = pivot.a > 0.0 ? determinant : nan("");  // else the matrix is not positive definite
  }

  // Updates pivot `pair` with the previous one, of which `inverse` is the inverse, and inverts it. u: the pivot's rows
  // of the previous pivot's columns.
  __device__ void find_pivot(int pair, const Pivot& inverse, const double2* u) const {
    const Pivot pivot = shared.pivots[pair % 2];
    const double2 first = u[0], second = u[1], x = inverse * first, y = inverse * second;
    invert_pivot(pair, {pivot.a - x.x * first.x - x.y * first.y, pivot.b - y.x * first.x - y.y * first.y,
                        pivot.c - y.x * second.x - y.y * second.y});
  }

  template <int pb>
  __device__ void sweep(double (&matrix)[kTiles]) const {
#pragma unroll 2
    for (int r = 0; r < kSide && kSide * pb + r < width; r += 2) {
      const int pair = kSide / 2 * pb + r / 2, next = (r + 2) % kSide;
      double2* const u = shared.vectors[pair % 2];  // a thread may be one step ahead of another
      store_pivot_columns<pb>(matrix, u, r);
      constexpr int last = pb + 1 < TILES ? pb + 1 : pb;
      store_pivot(next > 0 ? matrix[tile_at(pb, pb)] : matrix[tile_at(last, last)], pair + 1, next);
      __syncthreads();
      const Pivot inverse = shared.inverses[pair % 2];
      if (inverts() && 2 * pair + 2 < width) find_pivot(pair + 1, inverse, u + 2 * pair + 2);
      double2 left[TILES], right[TILES];
#pragma unroll
      for (int i = 0; i < TILES; ++i) {
        left[i] = inverse * u[ty + kSide * i];
        right[i] = u[tx + kSide * i];
      }
      for_each_tile<TILES>([&](int t, int i, int j, int, int) {
        matrix[t] -= left[i].x * right[j].x;
        matrix[t] -= left[i].y * right[j].y;
      });
    }
    if constexpr (pb + 1 < TILES) sweep<pb + 1>(matrix);
  }
};
