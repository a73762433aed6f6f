// GEMM (gemm.cuh) of int8 operands with exact int32 sums. Both operands are K-major, as wgmma requires for 1 byte.
#pragma once

#include <warpwise/sm90/gemm_store.cuh>

namespace warpwise {
namespace sm90 {

// 128 x 256 of C for each of the two blocks of a cluster, which are vertically adjacent and share B; boxes of 128 x
// 128.
using Int8Config = GemmConfig<signed char, 128, 256, 2, 1, 4, 2, 1, false, false, 128, 128>;

// `Base` for 4-byte sums, in boxes of 64 x 32.
template <class Base>
struct Words : Base {
  static __device__ void write(unsigned box, const unsigned (&words)[16], const typename Base::Position&) {
    const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // two words of eight columns, in row half i % 2
      const int row = thread / 32 * 16 + i % 2 * 8 + lane / 4, unit = i / 2 * 2 + lane % 4 / 2;  // swizzled by row
      st_shared_v2(box + row * kRowBytes + ((unit ^ (row & 7)) << 4) + lane % 2 * 8, static_cast<int>(words[2 * i]),
                   static_cast<int>(words[2 * i + 1]));
    }
  }
};

// C (m, n) = A (m, k) B (n, k)^T. pairs, columns: tiles of a cluster in C; group: of TileScheduler. Store: BoxStore or
// RowStore<int>. Launch configuration: as for `gemm` with Int8Config.
template <class Store>
__device__ inline void gemm_int8(const TensorMap& a, const TensorMap& b, const Store& c, int k, int pairs, int columns,
                                 int group) {
  using P = Int8Config;
  extern __shared__ unsigned char raw[];
  const GemmStorage<P> storage(raw);
  gemm<P>(storage, Matrix{&a}, Matrix{&b},
          PersistentTiles<P>{{{pairs, columns, group}, (k + P::tile_k - 1) / P::tile_k}},
          WordStore<P, Words<Store>>(storage, {c}));
}

}  // namespace sm90
}  // namespace warpwise
