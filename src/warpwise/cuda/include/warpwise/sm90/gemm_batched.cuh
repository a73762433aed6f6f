// GEMM (gemm.cuh) for batches and groups of matrices of 2-byte types, whose tensor maps have the matrix as first
// dimension and boxes of 1 x 64 x 64; clusters of one block. Include cuda_bf16.h or cuda_fp16.h first.
#pragma once

#include <warpwise/sm90/gemm_store.cuh>
#include <warpwise/sm90/gemm_tma_3d.cuh>

namespace warpwise {
namespace sm90 {

// Matrices in global memory, read by TMA; z is the matrix.
struct MatrixBatch {
  static constexpr int most_unrolled = 2;
  const TensorMap* map;
  template <bool MULTICAST>
  __device__ void load(unsigned to, unsigned full_barrier, int x, int y, int z, unsigned short) const {
    static_assert(!MULTICAST, "clusters of one block");
    tma_load_3d(to, map, full_barrier, x, y, z);
  }
};

// Stores to the matrices of a batch.
struct BatchStore : BoxStore {
  struct Position {
    int row, column, matrix;
  };
  template <class Work>
  static __device__ Position position(int row, int column, int matrix) {
    return {row, column, matrix};
  }
  static __device__ void write(unsigned box, const unsigned (&pairs)[16], const Position&) {
    registers_to_shared(box, pairs);
  }
  __device__ void send(unsigned box, const Position& at, int row, int column) const {
    tma_store_3d(map, box, at.column + column, at.row + row, at.matrix);
  }
};

// For few k-tiles: a tile is stored as a whole at its end, from one box per subtile.
template <class P>
struct WholeStore : OverlappedStore<P, BatchStore, Identity, P::subtiles> {
  using Base = OverlappedStore<P, BatchStore, Identity, P::subtiles>;
  using Base::Base;

  template <class Sums, class Work>
  __device__ void finish(Sums& d, const Work& work, int k_tiles, WgmmaConsumer& consumer) {
    Base::finish(d, work, k_tiles, consumer);
    this->has_pending = false;
    const bool leads = threadIdx.x % kWarpgroupThreads == 0;
    if (leads) tma_store_wait_read<0>();
    named_barrier_sync(1 + P::group(), kWarpgroupThreads);
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile)
      registers_to_shared(this->staging + subtile * kBoxBytes, this->pending[subtile]);
    fence_proxy_async();
    named_barrier_sync(1 + P::group(), kWarpgroupThreads);
    if (!leads) return;
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
  const PersistentTiles<P, Tiles> scheduler{tiles};
  if constexpr (STORE_AT_END) {
    const GemmStorage<P, P::subtiles> storage(raw);
    gemm<P>(storage, MatrixBatch{&a}, MatrixBatch{&b}, scheduler, WholeStore<P>(storage, {{&c}}));
  } else {
    const GemmStorage<P> storage(raw);
    gemm<P>(storage, MatrixBatch{&a}, MatrixBatch{&b}, scheduler, OverlappedStore<P, BatchStore>(storage, {{&c}}));
  }
}

}  // namespace sm90
}  // namespace warpwise
