// Hybrid stream-K: the tiles of the incomplete last wave are divided among all clusters first; then whole tiles.
//
// k17 computes whole tiles: on 66 clusters, 1024 tiles are 15.5 waves of work, which take 16 waves. Here 34 clusters
// own one of the 34 remaining tiles each and compute its first k-tiles. The other 32 clusters compute the rest at
// nearly the same k, so a read from DRAM serves several clusters through L2. The main loop is k17's;
// sm90/gemm_stream_k.cuh has the tile scheduler, and the store that sends partial sums to the owner of a tile.

#include <warpwise/sm90/gemm_stream_k.cuh>

namespace sm90 = warpwise::sm90;

// a: (m, k), or (k, m) if A_MN_MAJOR; b: (n, k), or (k, n) if B_MN_MAJOR; c: (m, n): tensor maps with boxes of 64 x
// 64. rows, columns: C in tiles of a cluster; raster_group: of TileScheduler; sk_tiles, splits, edge: of StreamK.
// partials, flags: of StreamKStore. For the other parameters and the shared memory see GemmConfig and sm90::gemm. Grid:
// all clusters must be resident at once.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) __cluster_dims__(CM* CN, 1, 1)
    matmul_stream_k_hybrid(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                           const __grid_constant__ sm90::TensorMap c, float* partials, int* flags, int k_tiles,
                           int rows, int columns, int raster_group, int sk_tiles, int splits, int edge) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  extern __shared__ unsigned char raw[];
  const sm90::GemmStorage<P> storage(raw);
  const sm90::StreamK stream_k{k_tiles, sk_tiles, static_cast<int>(gridDim.x) / P::cluster, splits, edge};
  sm90::gemm<P>(storage, sm90::Matrix{&a}, sm90::Matrix{&b},
                sm90::StreamKTiles<P>{{rows, columns, raster_group}, stream_k},
                sm90::StreamKStore<P>(storage, &c, partials, flags));
}
