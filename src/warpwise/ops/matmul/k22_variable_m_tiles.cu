// Variable-M tiles against wave quantisation: rows of tiles with 256 or 248 rows, and one with 128 if needed.
//
// 4096 x 4096 is 512 tiles of 256 x 128: four waves on 128 SMs, with four SMs idle. With tiles of 248 rows it is 512
// tiles and a row of 16 tiles of 128 x 256: 132 SMs compute four each. The main loop is k12's; sm90/gemm_variable.cuh
// has the tile scheduler, and the store of tiles that are computed as C^T = B^T A^T.

#include <warpwise/sm90/gemm_variable.cuh>

namespace sm90 = warpwise::sm90;

// a: (m, k); b: (n, k), or (k, n) if MN_MAJOR; c: (m, n): tensor maps with boxes of 64 x 64. tile_columns, tile_rows,
// raster_group, wide, flat_tiles: of VariableMTiles; a tile column is 128 columns of C. WHOLE_RINGS: k is a multiple of
// the 256 of all stages. Grid: any number of blocks.
// Block and dynamic shared memory: those of the GemmConfig `Flat`.
template <class T, bool MN_MAJOR, bool WHOLE_RINGS>
__global__ void __launch_bounds__(3 * 128, 1) matmul_variable_m_tiles(const __grid_constant__ sm90::TensorMap a,
                                                                      const __grid_constant__ sm90::TensorMap b,
                                                                      const __grid_constant__ sm90::TensorMap c, int k,
                                                                      int tile_columns, int tile_rows, int raster_group,
                                                                      int wide, int flat_tiles) {
  using Tiles = sm90::VariableMTiles<T, MN_MAJOR>;
  using P = typename Tiles::Flat;
  extern __shared__ unsigned char raw[];
  const sm90::GemmStorage<P> storage(raw);
  const Tiles tiles{{tile_columns, tile_rows, raster_group}, wide, flat_tiles, (k + P::tile_k - 1) / P::tile_k};
  const sm90::Matrix left{&a}, right{&b};
  using Store = sm90::OverlappedStore<P, sm90::VariableBoxStore>;
  if constexpr (WHOLE_RINGS)
    sm90::gemm<P, sm90::RingLoop>(storage, left, right, tiles, Store(storage, {{&c}}));
  else
    sm90::gemm<P>(storage, left, right, tiles, Store(storage, {{&c}}));
}
