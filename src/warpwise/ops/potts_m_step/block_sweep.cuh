// The inverse of a symmetric, positive definite matrix in the registers of a block, for k02.
#pragma once

#include <warpwise/core/reduce.cuh>
#include <warpwise/sm80/double_mma.cuh>

#include "m_step.cuh"

constexpr int kTileSide = 8, kTileSize = kTileSide * kTileSide;  // a tile is a result of mma.sync in float64
constexpr int kWarps = kThreads / warpwise::kWarp, kInverting = kWarps - 1;  // kInverting: the warp that inverts pivots
constexpr int kSchedulers = 4;                                               // of an SM; warp w has scheduler w % 4
constexpr int kLogarithms = kInverting - kSchedulers;  // a warp that has no tiles, if there are at most six owners

// Tiles (a, b), a >= b, of a matrix with so many rows of them.
__host__ __device__ constexpr int tiles_of(int rows) { return rows * (rows + 1) / 2; }

// The tiles that a warp has in registers, of a symmetric matrix with ROWS rows of tiles, an even number. Owner o <
// ROWS / 2 has the rows high = ROWS - 1 - o and low = o, together ROWS + 1 tiles: s = 0 and 1 are those on the diagonal
// of the high and the low row, then come the high row from column 0 and the low row from its last column down. An owner
// from ROWS / 2 on has no tiles. Lane 4 g + q has elements (g, 2 q) and (g, 2 q + 1) of a tile.
template <int ROWS>
struct WarpTiles {
  static constexpr int kOwn = ROWS + 1, kOwners = ROWS / 2;
  const int low, high;

  __device__ explicit WarpTiles(int owner) : low(owner), high(ROWS - 1 - owner) {}

  // mma.sync delays FMAs of other warps of a scheduler, so up to six owners have the three schedulers that the warp
  // which inverts pivots does not have.
  static __device__ WarpTiles of_warp(int warp) {
    if (kOwners > kWarps - kWarps / kSchedulers) return WarpTiles(warp);
    return WarpTiles(warp % kSchedulers == kInverting % kSchedulers ? kOwners : warp - warp / kSchedulers);
  }

  __device__ bool any() const { return low < kOwners; }
  __device__ bool in_high_row(int s) const { return s == 0 || (s > 1 && s - 2 < high); }
  __device__ int row(int s) const { return in_high_row(s) ? high : low; }
  __device__ int column(int s) const { return s < 2 ? row(s) : s - 2 < high ? s - 2 : ROWS - s; }
};

// 1 / x to about one unit in the last place: an approximation of 20 bits and a step of third order, a third of the
// latency of a division.
__device__ inline double reciprocal(double x) {
  double found;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(found) : "d"(x));
  const double error = fma(-x, found, 1.0);
  return fma(found, fma(error, error, error), found);
}

// The sweep operator for eight features at a time: pivot P and the other tiles U of its columns become -P^-1 and
// U P^-1, and U P^-1 U^T is subtracted from the rest. At the end the matrix is minus its inverse. There is one barrier
// for a pivot: the last warp inverts the next pivot while the others update.
template <int ROWS>
struct BlockSweep {
  using Tiles = WarpTiles<ROWS>;

  // Lane l of a warp has element l of a tile.
  struct Shared {
    double2 columns[2][ROWS][warpwise::kWarp];  // of a pivot, with minus the identity in place of the pivot
    double2 pivots[2][warpwise::kWarp], inverses[2][warpwise::kWarp];  // minus the inverses
    // Of each pivot of two features: the first element, and the determinant.
    double2 determinants[ROWS * kTileSide / 2];
    // Of the warp that inverts: a tile, with minus the identity in place of a pivot, and the rows of the pivot.
    double2 tile[2][kTileSide][4], rows[2][2];
  };

  Shared& shared;
  const int width, lane = threadIdx.x % warpwise::kWarp, g = lane / 4, q = lane % 4;
  const Tiles tiles = Tiles::of_warp(threadIdx.x / warpwise::kWarp);

  // All threads. Diagonal elements from `width` on are 1, the other elements there 0. Returns the thread's part of the
  // logarithm of the determinant, NaN unless the matrix is positive definite.
  __device__ double run(double (&matrix)[Tiles::kOwn][2]) const {
    const int pivots = (width + kTileSide - 1) / kTileSide;
    if (tiles.any()) store_pivot<0>(matrix);
    __syncthreads();
    if (inverts()) {
      double pivot[2] = {shared.pivots[0][lane].x, shared.pivots[0][lane].y};
      invert_pivot(pivot, 0);
    }
    double logarithms = 0.0;
    for (int p = 0; p < pivots; ++p) {
      if (tiles.any()) store_columns_of<0, ROWS>(matrix, p);
      __syncthreads();
      if (inverts() && p + 1 < pivots) find_pivot(p);
      if (tiles.any()) update(matrix, p);
      if (threadIdx.x / warpwise::kWarp == kLogarithms && lane < 4) logarithms += log_determinant(4 * p + lane);
    }
    return logarithms;
  }

 private:
  // The logarithm of the determinant of two features, 0 past the last.
  __device__ double log_determinant(int pair) const {
    if (2 * pair >= width) return 0.0;
    const double2 found = shared.determinants[pair];
    return found.x > 0.0 ? log(found.y) : nan("");
  }

  static __device__ bool inverts() { return threadIdx.x / warpwise::kWarp == kInverting; }

  // Stores pivot P.
  template <int P>
  __device__ void store_pivot(const double (&matrix)[Tiles::kOwn][2]) const {
    constexpr bool high = P >= Tiles::kOwners;
    if ((high ? tiles.high : tiles.low) == P) shared.pivots[P % 2][lane] = {matrix[!high][0], matrix[!high][1]};
  }

  // Stores the columns of pivot P and makes them zero: tiles below the pivot, and tiles of its row, transposed. Stores
  // the next pivot.
  template <int P>
  __device__ void store_columns(double (&matrix)[Tiles::kOwn][2]) const {
    double2(*const to)[warpwise::kWarp] = shared.columns[P % 2];
    constexpr bool high = P >= Tiles::kOwners;
    const auto clear = [&](int s) { matrix[s][0] = matrix[s][1] = 0.0; };
    if (P < tiles.high) {
      to[tiles.high][lane] = {matrix[P + 2][0], matrix[P + 2][1]};
      clear(P + 2);
    }
    if (!high && P < tiles.low) {
      to[tiles.low][lane] = {matrix[ROWS - P][0], matrix[ROWS - P][1]};
      clear(ROWS - P);
    }
    if ((high ? tiles.high : tiles.low) == P) {
      to[P][lane] = {g == 2 * q ? -1.0 : 0.0, g == 2 * q + 1 ? -1.0 : 0.0};
      clear(!high);
#pragma unroll
      for (int b = 0; b < P; ++b) {
        const int s = high ? b + 2 : ROWS - b;
        double* const transposed = &to[b][0].x + 2 * q * kTileSide + g;
        transposed[0] = matrix[s][0];
        transposed[kTileSide] = matrix[s][1];
        clear(s);
      }
    }
    if constexpr (P + 1 < ROWS) store_pivot<P + 1>(matrix);
  }

  // Calls store_columns<p> by binary search, FIRST <= p < LAST: indices of registers have to be constants.
  template <int FIRST, int LAST>
  __device__ void store_columns_of(double (&matrix)[Tiles::kOwn][2], int p) const {
    constexpr int middle = (FIRST + LAST) / 2;
    if constexpr (FIRST + 1 == LAST) {
      store_columns<FIRST>(matrix);
    } else if (p < middle) {
      store_columns_of<FIRST, middle>(matrix, p);
    } else {
      store_columns_of<middle, LAST>(matrix, p);
    }
  }

  // c += a b^T. Lane 4 g + q has elements (g, 2 q) and (g, 2 q + 1) of a, b and c: the first mma.sync multiplies the
  // even columns of a and b, the second one the odd columns.
  static __device__ void multiply_tiles(double (&c)[2], double2 a, double2 b) {
    warpwise::multiply_add(c, a.x, b.x);
    warpwise::multiply_add(c, a.y, b.y);
  }

  // A tile of columns times minus the inverse of the pivot.
  __device__ double2 scaled(double2 column, double2 inverse) const {
    double found[2] = {};
    multiply_tiles(found, column, inverse);
    return {found[0], found[1]};
  }

  // Inverts a pivot by the same operator with two features at a time, and stores minus the inverse.
  __device__ void invert_pivot(double (&pivot)[2], int p) const {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const bool row = g / 2 == t, column = q == t;
      double2(*const tile)[4] = shared.tile[t % 2];
      double2* const rows = shared.rows[t % 2];
      const double2 own = {pivot[0], pivot[1]}, unit = {g % 2 ? 0.0 : -1.0, g % 2 ? -1.0 : 0.0};
      if (row && column) rows[g % 2] = own;
      tile[g][q] = row && column ? unit : own;
      __syncwarp();
      const double2 first = rows[0], second = rows[1], u = tile[g][t], v = tile[2 * t][q], w = tile[2 * t + 1][q];
      const double a = first.x, b = first.y, c = second.y, determinant = a * c - b * b;
      const double x = c * u.x - b * u.y, y = a * u.y - b * u.x, factor = -reciprocal(determinant);
      const bool clear = row || column;
      pivot[0] = fma(factor, x * v.x + y * w.x, clear ? 0.0 : own.x);
      pivot[1] = fma(factor, x * v.y + y * w.y, clear ? 0.0 : own.y);
      if (lane == 0) shared.determinants[4 * p + t] = {a, determinant};
    }
    shared.inverses[p % 2][lane] = {pivot[0], pivot[1]};
  }

  // Updates pivot p + 1 with pivot p and inverts it.
  __device__ void find_pivot(int p) const {
    const double2 column = shared.columns[p % 2][p + 1][lane], before = shared.pivots[(p + 1) % 2][lane];
    double pivot[2] = {before.x, before.y};
    multiply_tiles(pivot, scaled(column, shared.inverses[p % 2][lane]), column);
    invert_pivot(pivot, p + 1);
  }

  // Adds the scaled columns times the columns of pivot p.
  __device__ void update(double (&matrix)[Tiles::kOwn][2], int p) const {
    constexpr int kTogether = 4;  // tiles whose products do not wait for each other
    const double2(*const columns)[warpwise::kWarp] = shared.columns[p % 2];
    const double2 inverse = shared.inverses[p % 2][lane];
    const double2 high = scaled(columns[tiles.high][lane], inverse), low = scaled(columns[tiles.low][lane], inverse);
#pragma unroll
    for (int begin = 0; begin < Tiles::kOwn; begin += kTogether) {
      double2 right[kTogether];
#pragma unroll
      for (int s = begin; s < min(begin + kTogether, Tiles::kOwn); ++s)
        right[s - begin] = columns[tiles.column(s)][lane];
#pragma unroll
      for (int s = begin; s < min(begin + kTogether, Tiles::kOwn); ++s)
        warpwise::multiply_add(matrix[s], tiles.in_high_row(s) ? high.x : low.x, right[s - begin].x);
#pragma unroll
      for (int s = begin; s < min(begin + kTogether, Tiles::kOwn); ++s)
        warpwise::multiply_add(matrix[s], tiles.in_high_row(s) ? high.y : low.y, right[s - begin].y);
    }
  }
};
