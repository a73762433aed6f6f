// Epilogues of a GEMM (gemm.cuh) that store C: at the end of a tile, or while the next tile is multiplied. sm_90a only.
#pragma once

#include <warpwise/sm90/gemm.cuh>
#include <warpwise/sm90/unaligned_store.cuh>

namespace warpwise {
namespace sm90 {

// Stores 64 x 64 of C from a warpgroup's registers to a box in shared memory; each warp stores its 16 rows.
__device__ inline void registers_to_shared(unsigned box, const unsigned (&pairs)[16]) {
  const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32, own_row = thread / 32 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < 4; ++j) {          // 16 columns: four 8 x 8 matrices
    const int unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by row
    const unsigned r[4] = {pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2], pairs[4 * j + 3]};
    stmatrix_x4(box + own_row * kRowBytes + ((unit ^ (own_row & 7)) << 4), r);
  }
}

// A Store stores 64 rows of C for a warpgroup, 128 bytes of each row at a time. `write` copies 16 registers of a thread
// to a staging box; `send` copies the box to C. by_tma: one thread sends the box, with `sends` bulk groups. by_warp:
// each warp sends what it has written. Position: the start of the warpgroup's tile, from which the box is `row` rows
// and `column` columns away.
template <int RANK>
struct TmaStore {  // 2-byte elements, by TMA to a matrix or, with a RANK of 3, to the matrices of a batch
  const TensorMap* map;
  static constexpr bool by_tma = true, by_warp = false;
  static constexpr int sends = 1;
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
    if constexpr (RANK == 3)
      tma_store_3d(map, box, at.column + column, at.row + row, at.matrix);
    else
      tma_store_2d(map, box, at.column + column, at.row + row);
  }
};
using BoxStore = TmaStore<2>;

template <class T>
struct RowStore : BoxStore {  // to dense rows of any alignment
  DenseRows<T> rows;
  static constexpr bool by_tma = false, by_warp = true;

  __device__ explicit RowStore(const DenseRows<T>& rows) : rows(rows) {}
  __device__ void send(unsigned box, const Position& at, int row, int column) const {
    const int own_row = threadIdx.x % kWarpgroupThreads / 32 * 16;
    store_rows(box + own_row * kRowBytes, rows, at.row + row + own_row, at.column + column);
  }
};

// The common part of epilogues: the hooks of `gemm`, and a store through BOXES staging boxes, used in turn.
template <class P, class Store, int BOXES = P::boxes>
struct Epilogue {
  static constexpr int slots = 1;  // k-tiles during which step() runs: see WgmmaLoop
  const Store to;
  const unsigned staging;
  const int thread = threadIdx.x % kWarpgroupThreads;
  typename Store::Position at{};  // of the tile that is multiplied
  int box = 0;

  template <class Storage>
  __device__ Epilogue(const Storage& storage, const Store& to)
      : to(to), staging(storage.staging + P::group() * BOXES * kBoxBytes) {}

  __device__ void init() const {}  // in thread 0: initialises mbarriers

  // Called while the first k-tile of a tile is multiplied; the warpgroup's sums begin at (row, column).
  template <class Work>
  __device__ void begin(const Work&, int row, int column, int matrix) {
    asm volatile("" : "+r"(row), "+r"(column), "+r"(matrix));  // computed here
    at = Store::template position<Work>(row, column, matrix);
  }
  __device__ void step(int) const {}
  __device__ void drain() const {}  // after the last tile

  __device__ void sync() const {
    if constexpr (Store::by_warp)
      __syncwarp();
    else
      named_barrier_sync(1 + P::group(), kWarpgroupThreads);
  }
  __device__ void store(const unsigned (&registers)[16], const Store& to, const typename Store::Position& position,
                        int row, int column) {
    const unsigned through = staging + box * kBoxBytes;
    if (Store::by_tma && thread == 0) tma_store_wait_read<(BOXES - 1) * Store::sends>();
    sync();
    to.write(through, registers, position);
    if (Store::by_tma) fence_proxy_async();
    sync();
    if (!Store::by_tma || thread == 0) to.send(through, position, row, column);
    if (BOXES == 2) box ^= 1;
  }
};

// Identity. A function of this kind is applied to two adjacent sums, at (row, column) and (row, column + 1) of C,
// before they are rounded.
struct Identity {
  __device__ void operator()(float& left, float& right, int row, int column) const {}
};

// Rounds the sums at the end of a tile, which frees the accumulators, and stores the tile during the main loop of the
// next one.
template <class P, class Store, class Function = Identity, int BOXES = P::boxes>
struct OverlappedStore : Epilogue<P, Store, BOXES> {
  using Base = Epilogue<P, Store, BOXES>;
  static constexpr int slots = P::subtiles;
  const Function function;
  unsigned pending[P::subtiles][16];  // the previous tile, rounded
  typename Store::Position pending_at{};
  bool has_pending = false;

  template <class Storage>
  __device__ OverlappedStore(const Storage& storage, const Store& to, const Function& function = Function())
      : Base(storage, to), function(function) {}

  __device__ void step(int subtile) {
    if (has_pending) store_pending(subtile);
  }
  __device__ void store_pending(int subtile) {
    this->store(pending[subtile], this->to, pending_at, subtile / P::boxes_n * 64,
                min(subtile % P::boxes_n * 64, P::width - 64));
  }
  // Called when the sums of a tile are complete.
  template <class Sums, class Work>
  __device__ void finish(Sums& d, const Work&, int k_tiles, WgmmaConsumer<>&) {
    constexpr int kWidth = sizeof(d[0]) / sizeof(float) * 2;
    pending_at = this->at;
    has_pending = true;
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile) {
      const int row = subtile / P::boxes_n * 64;
      const int column = min(subtile % P::boxes_n * 64, kWidth - 64);  // the last box may overlap the one before
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        float* const pair = &d[subtile / P::boxes_n][column / 2 + 2 * i];
        function(pair[0], pair[1], pending_at.row + row + this->thread / 32 * 16 + this->thread % 32 / 4 + i % 2 * 8,
                 pending_at.column + column + i / 2 * 8 + this->thread % 4 * 2);
        pending[subtile][i] = Work::may_be_empty && k_tiles == 0 ? 0 : pack(pair[0], pair[1], typename P::Element());
      }
    }
  }
  __device__ void drain() {
    if (!has_pending) return;
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile) store_pending(subtile);
  }
};

// Stores a tile of 4-byte sums at its end.
template <class P, class Store>
struct WordStore : Epilogue<P, Store> {
  using Epilogue<P, Store>::Epilogue;

  template <class Sums, class Work>
  __device__ void finish(Sums& d, const Work&, int, WgmmaConsumer<>&) {
#pragma unroll
    for (int column = 0; column < P::width; column += 32) {
      unsigned words[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) words[i] = reinterpret_cast<const unsigned&>(d[0][column / 2 + i]);
      this->store(words, this->to, this->at, 0, column);
    }
  }
};

// The Store of a C with boxes of 64 x 64 of 2-byte elements, or of 64 x 32 words, by TMA; or to `rows`.
template <bool BY_TMA, class T>
__device__ inline auto store_to(const TensorMap& c, const DenseRows<T>& rows) {
  if constexpr (BY_TMA)
    return BoxStore{&c};
  else
    return RowStore<T>(rows);
}

// C = A B for matrices: the body of a kernel. c, rows: of store_to; tiles: of C in tiles of a cluster.
template <class P, bool BY_TMA>
__device__ inline void gemm_matrices(const TensorMap& a, const TensorMap& b, const TensorMap& c,
                                     const DenseRows<typename P::Element>& rows, int k, const TileScheduler& tiles) {
  extern __shared__ unsigned char raw[];
  const GemmStorage<P> storage(raw);
  auto store = store_to<BY_TMA>(c, rows);
  gemm<P>(storage, Matrix{&a}, Matrix{&b}, PersistentTiles<P>{{tiles, (k + P::tile_k - 1) / P::tile_k}},
          OverlappedStore<P, decltype(store)>(storage, store));
}

}  // namespace sm90
}  // namespace warpwise
