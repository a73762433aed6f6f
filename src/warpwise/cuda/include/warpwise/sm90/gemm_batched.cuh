// GEMM (gemm.cuh) for batches and groups of matrices of 2-byte types, whose tensor maps have the matrix as first
// dimension and boxes of 1 x 64 x 64; clusters of one block.
#pragma once

#include <warpwise/sm90/gemm_store.cuh>

namespace warpwise {
namespace sm90 {

// For few k-tiles: a tile is stored as a whole at its end, from one box per subtile.
template <class P>
struct WholeStore : OverlappedStore<P, TmaStore<3>, Identity, P::subtiles> {
  using Base = OverlappedStore<P, TmaStore<3>, Identity, P::subtiles>;
  using Base::Base;

  template <class Sums, class Work>
  __device__ void finish(Sums& d, const Work& work, int k_tiles, WgmmaConsumer<>& consumer) {
    Base::finish(d, work, k_tiles, consumer);
    this->has_pending = false;
    if (this->thread == 0) tma_store_wait_read<0>();
    this->sync();
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile)
      registers_to_shared(this->staging + subtile * kBoxBytes, this->pending[subtile]);
    fence_proxy_async();
    this->sync();
    if (this->thread > 0) return;
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile)
      this->to.send(this->staging + subtile * kBoxBytes, this->pending_at, subtile / P::boxes_n * 64,
                    subtile % P::boxes_n * 64);
  }
};

// C = A B for each matrix. Tiles: as MatrixTiles, with the matrices of A, B and C. STORE_AT_END: WholeStore; its P has
// boxes of C for a whole tile.
template <class P, bool STORE_AT_END, class Tiles>
__device__ inline void gemm_batched(const TensorMap& a, const TensorMap& b, const TensorMap& c, const Tiles& tiles) {
  extern __shared__ unsigned char raw[];
  const TmaOperand<3> from_a{&a}, from_b{&b};
  const PersistentTiles<P, Tiles> scheduler{tiles};
  if constexpr (STORE_AT_END) {
    const GemmStorage<P, P::subtiles> storage(raw);
    gemm<P>(storage, from_a, from_b, scheduler, WholeStore<P>(storage, {&c}));
  } else {
    const GemmStorage<P> storage(raw);
    gemm<P>(storage, from_a, from_b, scheduler, OverlappedStore<P, TmaStore<3>>(storage, {&c}));
  }
}

}  // namespace sm90
}  // namespace warpwise
