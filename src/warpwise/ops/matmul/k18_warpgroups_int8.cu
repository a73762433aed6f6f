// int8 wgmma with exact int32 sums; B is transposed first, since wgmma reads 1-byte operands K-major only.
//
// Operands with unaligned rows are copied first, as in k19, and C is then stored by threads.
//
// A k-tile is 128 elements, so boxes, tiles and clocks equal those of 2-byte types with twice the multiply-adds. Sums
// have 4 bytes: a tile of C is 128 KB and is stored by TMA in boxes of 64 x 32.

#include <warpwise/sm90/gemm_store.cuh>

namespace sm90 = warpwise::sm90;

// 128 x 256 of C for each of the two blocks of a cluster, which are vertically adjacent and share B; boxes of 128 x
// 128.
using Int8Config = sm90::GemmConfig<signed char, 128, 256, 2, 1, 4, 2, 1, false, false, 128, 128>;

// `Base` for 4-byte sums, in boxes of 64 x 32.
template <class Base>
struct Words : Base {
  static __device__ void write(unsigned box, const unsigned (&words)[16], const typename Base::Position&) {
    const int thread = threadIdx.x % sm90::kWarpgroupThreads, lane = thread % 32;
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // two words of eight columns, in row half i % 2
      const int row = thread / 32 * 16 + i % 2 * 8 + lane / 4, unit = i / 2 * 2 + lane % 4 / 2;  // swizzled by row
      warpwise::st_shared_v2(box + row * sm90::kRowBytes + ((unit ^ (row & 7)) << 4) + lane % 2 * 8,
                             static_cast<int>(words[2 * i]), static_cast<int>(words[2 * i + 1]));
    }
  }
};

// a: (m, k), b: (n, k), c: (m, n): tensor maps; if not C_BY_TMA, C is stored to `c_rows`, of any alignment, by threads.
// pairs, columns: tiles of a cluster in C; group: of TileScheduler. Launch configuration: as for sm90::gemm.
template <bool C_BY_TMA>
__global__ void __launch_bounds__(Int8Config::threads, 1) __cluster_dims__(Int8Config::cluster, 1, 1)
    matmul_warpgroups_int8(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                           const __grid_constant__ sm90::TensorMap c, int* c_rows, int m, int n, int k, int pairs,
                           int columns, int group) {
  using P = Int8Config;
  extern __shared__ unsigned char raw[];
  const sm90::GemmStorage<P> storage(raw);
  auto store = sm90::store_to<C_BY_TMA, int>(c, {c_rows, m, n});
  using Store = Words<decltype(store)>;
  sm90::gemm<P>(storage, sm90::Matrix{&a}, sm90::Matrix{&b},
                sm90::PersistentTiles<P>{{{pairs, columns, group}, (k + P::tile_k - 1) / P::tile_k}},
                sm90::WordStore<P, Store>(storage, {store}));
}
