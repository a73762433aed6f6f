// Hopper: the epilogue of a tile overlaps with the main loop of the next one, of any group; one launch, three arguments
// that the host patches at each call.
//
// TMA loads boxes of A at any row: those that reach into the next group are multiplied in vain. A box of C there would
// overwrite the next group's rows, so that each warp stores its 16 rows as vectors of 16 bytes, up to the group's end.

#include <warpwise/sm90/gemm_store.cuh>

#include "group_rows.cuh"

namespace sm90 = warpwise::sm90;

// P: a GemmConfig. at().c is the end of the tile's group.
template <class P>
struct GroupTiles {
  static constexpr bool unrolled = true, alternates = false;
  GroupRows<P::bm> groups;
  int tiles_k, order;  // order: tile rows of a raster group

  struct Work {
    using Config = P;
    static constexpr bool transposed = false, may_be_empty = true;
    int tiles_k;
    sm90::TileCoord coord;
    __device__ int k_tiles() const { return tiles_k; }
    __device__ int first_k() const { return 0; }
    __device__ sm90::TileCoord at() const { return coord; }
  };
  template <class Visit>
  __device__ void for_each(const Visit& visit) const {
    GroupRows<P::bm> at = groups;
    for (int index = blockIdx.x; at.more(index); index += gridDim.x) {
      const sm90::Tile tile = sm90::TileScheduler{at.rows(), at.columns, order}.at(index - at.before);
      visit(Work{at.has_matrix() ? tiles_k : 0,
                 {at.begin + tile.row * P::bm, tile.column * P::columns, 0, at.group, at.end}});
    }
  }
};

template <class T>
struct GroupStore : sm90::BoxStore {  // to the rows of a group; position.matrix is its end
  static constexpr bool by_tma = false, by_warp = true;
  T* to;
  int n;  // a multiple of 8

  __device__ GroupStore(T* to, int n) : to(to), n(n) {}
  __device__ void send(unsigned box, const Position& at, int row, int column) const {
    const int lane = threadIdx.x % 32, unit = lane % 8, first = threadIdx.x % sm90::kWarpgroupThreads / 32 * 16;
    column += at.column + unit * 8;
#pragma unroll 2
    for (int i = 0; i < 4; ++i) {
      const int own_row = first + i * 4 + lane / 8, row_of_c = at.row + row + own_row;
      if (row_of_c >= at.matrix || column >= n) continue;
      unsigned eight[4];
      warpwise::ld_shared_v4(eight, box + own_row * sm90::kRowBytes + ((unit ^ (own_row & 7)) << 4));
      *reinterpret_cast<uint4*>(to + static_cast<long long>(row_of_c) * n + column) =
          make_uint4(eight[0], eight[1], eight[2], eight[3]);
    }
  }
};

// a: (rows, k) with boxes of 64 x 64; b: (groups, n, k), or (groups, k, n) if B_MN_MAJOR, with boxes of 1 x 64 x 64;
// c: (rows, n), row-major; columns: tiles of a row of c. For the other parameters, grid and shared memory see
// GemmConfig, GroupTiles and GroupRows.
template <class T, int BM, int BN, int GM, int GN, int STAGES, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) grouped_matmul_overlapped_epilogue(
    const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b, T* __restrict__ c,
    const int* __restrict__ ends, int groups, int rows, int n, int k, int columns, int order) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, 1, 1, false, B_MN_MAJOR>;
  extern __shared__ unsigned char raw[];
  const sm90::GemmStorage<P> storage(raw);
  const GroupTiles<P> tiles{{ends, groups, rows, columns}, (k + P::tile_k - 1) / P::tile_k, order};
  sm90::gemm<P>(storage, sm90::Matrix{&a}, sm90::TmaOperand<3>{&b}, tiles,
                sm90::OverlappedStore<P, GroupStore<T>>(storage, GroupStore<T>(c, n)));
}
