// The inverse of a symmetric, positive definite matrix in the registers of a block, for k02.
#pragma once

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

// 1 / x to about one unit in the last place: an approximation of 20 bits and two steps of Newton's method, a third of
// the latency of a division.
__device__ inline double reciprocal(double x) {
  double found;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(found) : "d"(x));
#pragma unroll
  for (int i = 0; i < 2; ++i) found = fma(found, fma(-x, found, 1.0), found);
  return found;
}

// The sweep operator for two features at a time: pivot P and columns U of the rest become -P^-1 and U P^-1, and
// U P^-1 U^T is subtracted from the rest. At the end the matrix is minus its inverse. There is one barrier for a pivot,
// and one thread inverts the next pivot while the others update.
template <int TILES>
struct PivotSweep {
  static constexpr int kTiles = tiles_of(TILES), kRow = kSide * TILES;

  // The inverse of a pivot [[a, b], [b, c]].
  struct Inverse {
    double xx, xy, yy;
    __device__ double2 operator()(double2 u) const { return {xx * u.x + xy * u.y, xy * u.x + yy * u.y}; }
  };

  struct Shared {
    double2 vectors[2][kRow];
    double diagonal[kRow], below[kRow], determinants[kRow / 2];
    Inverse inverses[2];
  };

  Shared& shared;
  const int width, tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;

  // All threads. Diagonal elements from `width` on are 1, the other elements there 0.
  __device__ void run(double (&matrix)[kTiles]) const {
    for_each_tile<TILES>([&](int t, int, int, int i, int j) {
      if (i == j) shared.diagonal[i] = matrix[t];
      if (i == j + 1) shared.below[j] = matrix[t];
    });
    __syncthreads();
    const int pair = 2 * threadIdx.x;
    double a = 1.0, b = 0.0, c = 1.0;
    if (pair < width) {
      a = shared.diagonal[pair];
      b = shared.below[pair];
      c = shared.diagonal[pair + 1];
    }
    if (threadIdx.x == 0) invert_pivot(0, a, b, c);
    sweep<0>(matrix, a, b, c);
  }

  // The logarithm of the determinant of pivot threadIdx.x, 0 past the last. NaN unless the matrix is positive definite.
  __device__ double log_determinant() const {
    return 2 * static_cast<int>(threadIdx.x) < width ? log(shared.determinants[threadIdx.x]) : 0.0;
  }

 private:
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
    shared.determinants[pair] = a > 0.0 ? determinant : nan("");  // else the matrix is not positive definite
  }

  // a, b, c: the pivot of features 2 threadIdx.x and 2 threadIdx.x + 1.
  template <int pb>
  __device__ void sweep(double (&matrix)[kTiles], double a, double b, double c) const {
    for (int r = 0; r < kSide && kSide * pb + r < width; r += 2) {
      const int pair = kSide / 2 * pb + r / 2, own = threadIdx.x;
      double2* const u = shared.vectors[pair % 2];  // a thread may be one step ahead of another
      store_pivot_columns<pb>(matrix, u, r);
      __syncthreads();
      const Inverse inverse = shared.inverses[pair % 2];
      if (2 * own < width) {
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
      for_each_tile<TILES>([&](int t, int i, int j, int, int) {
        matrix[t] -= left[i].x * right[j].x;
        matrix[t] -= left[i].y * right[j].y;
      });
    }
    if constexpr (pb + 1 < TILES) sweep<pb + 1>(matrix, a, b, c);
  }
};
