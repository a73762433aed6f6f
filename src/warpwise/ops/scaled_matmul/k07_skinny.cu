// Few rows: the columns of B take the 64 rows of the matrix units, and tiles are as wide as one round of blocks asks.
//
// With few rows the time is that of reading B once, and what else comes from L2 counts as much: each tile reads all
// rows of A again. Of tiles of 8, 16, 24 ... columns one width gives each SM one tile; where A's rows are many, wide
// tiles share them and blocks divide K instead: SPLIT blocks of a cluster add their sums through each other's shared
// memory, `outer` clusters by way of global memory, where the last to come adds; both in a fixed order.

#include <warpwise/parts.cuh>

#include "skinny_ring.cuh"

// a: (m, k), b: (n, k), as maps with boxes of TILE / SHARE x 128 and `columns` x 128, where TILE = SIDES * ROWS; c:
// (m, n), row-major. Scales: one each, or (m,) and (n,) by_row. `hints`: policies.cuh.
// parts: (outer, m, pitch) and tickets: SPLIT * SHARE a cluster, zeros, both used where outer > 1.
// Cluster: SPLIT parts of K x SHARE neighbouring tiles, which load the rows of A once for each other.
// Grid: outer * cdiv(m, TILE) * cdiv(n, columns * SHARE) clusters. Block: Ring::kBlock threads.
// Dynamic shared memory: 1 KiB to align + what Tiles.shared counts.
template <class A, class B, int GROUPS, int SIDES, int ROWS, int SLICES, int SPLIT, int SHARE>
__global__ void __launch_bounds__(Ring<A, B, GROUPS, SIDES, ROWS, SLICES, SHARE>::kBlock, 1) __cluster_dims__(
    SPLIT* SHARE, 1, 1)
    scaled_matmul_skinny(const __grid_constant__ hopper::TensorMap a, const __grid_constant__ hopper::TensorMap b,
                         __nv_bfloat16* c, const float* __restrict__ scale_a, const float* __restrict__ scale_b,
                         float* parts, int* tickets, bool by_row, int m, int n, int k, int pitch, int columns,
                         int stages, int tiles_m, int outer, int hints) {
  using Room = Ring<A, B, GROUPS, SIDES, ROWS, SLICES, SHARE>;
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[64];
  Room ring(raw, barriers, columns, stages);
  if (threadIdx.x == Room::kThreads) {
    fetch_map(&b);
    fetch_map(&a);
  }

  const int rank = static_cast<int>(hopper::cluster_rank()), share = rank % SHARE, split = rank / SHARE;
  const int cluster = blockIdx.x / (SPLIT * SHARE), tile = cluster / outer, part = cluster % outer;
  const int first_row = tile % tiles_m * Room::kTileRows, first_column = (tile / tiles_m * SHARE + share) * columns;
  const long long every = (static_cast<long long>(k) + SLICES * kDepth - 1) / (SLICES * kDepth);
  const int blocks = outer * SPLIT, number = part * SPLIT + split;
  const int first = static_cast<int>(every * number / blocks);
  const int last = static_cast<int>(every * (number + 1) / blocks);
  float* const staged = reinterpret_cast<float*>(raw + (ring.ring - hopper::shared_address(raw)));

  ring.init();
  if (Room::feeds()) {
    if (Room::kMoves) hopper::give_registers<Room::kFewer>();
    const hopper::Policy of_a = policy_for(hints / 4), of_b = policy_for(hints % 4);
    const auto feed = [&](int from, int to) {
      if (threadIdx.x == Room::kThreads)
        for (int s = from; s < to; ++s)
          ring.load(a, b, s * SLICES * kDepth, first_row, first_column, share, split * SHARE, of_a, of_b);
      __syncwarp();
    };
    const int full = min(first + stages, last);  // what the ring holds is asked for at once
    feed(first, full);
    __syncthreads();
    feed(full, last);
    if (Room::kMoves) hopper::take_registers<Room::kEqual>();
  } else {
    if (Room::kMoves) hopper::take_registers<Room::kMore>();
    fetch_scales(scale_a, scale_b, by_row, first_row, first_column, Room::kTileRows, columns, m, n, threadIdx.x);
    float sums[ROWS / 2];
    __syncthreads();
    ring.multiply(sums, last - first, split * SHARE);
    hopper::named_barrier(1, Room::kThreads);  // nobody reads the ring any more
    Room::stage_rows(staged, sums);
    if (Room::kMoves) hopper::give_registers<Room::kEqual>();
  }
  // Each of the SPLIT blocks adds and writes every SPLIT-th row of the tile, four columns a thread.
  constexpr int kQuads = GROUPS * 16, kStep = Room::kThreads / kQuads;
  const int quad = threadIdx.x % kQuads * 4, column = first_column + quad, left = min(columns - quad, n - column);
  const int begin = threadIdx.x / kQuads * SPLIT + split;
  const int rows = Room::feeds() || left <= 0 ? 0 : min(Room::kTileRows, m - first_row);
  float of_column[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) of_column[e] = scale_b[by_row ? min(column + e, n - 1) : 0];
  const float of_all = by_row ? 1.0f : *scale_a;
  if (SPLIT > 1)
    hopper::cluster_sync();
  else
    __syncthreads();

  const auto of_part = [&](int which, int row) {
    return reinterpret_cast<float4*>(parts + (static_cast<long long>(which) * m + first_row + row) * pitch + column);
  };
  if (SPLIT > 1 || outer > 1) {
    for (int row = begin; row < rows; row += kStep * SPLIT) {
      float sum[4] = {};
#pragma unroll
      for (int other = 0; other < SPLIT; ++other) {
        float more[4];
        hopper::load_of_block(more, ring.ring + (row * Room::kStaged + quad) * 4, other * SHARE + share);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[e] += more[e];
      }
      const float4 four = make_float4(sum[0], sum[1], sum[2], sum[3]);
      *reinterpret_cast<float4*>(staged + row * Room::kStaged + quad) = four;  // a row that no other block reads
      if (outer > 1) *of_part(part, row) = four;
    }
  }
  if (outer == 1 || warpwise::is_last_of(tickets + tile * SPLIT * SHARE + rank, outer)) {
    const bool fours = n % 4 == 0;
    for (int row = begin; row < rows; row += kStep * SPLIT) {
      float4 sum = {};
      for (int which = 0; which < outer; ++which) {
        const float4 more = which == part ? *reinterpret_cast<const float4*>(staged + row * Room::kStaged + quad)
                                          : __ldcg(of_part(which, row));
        sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
      }
      float values[4] = {sum.x, sum.y, sum.z, sum.w};
      const float of_row = by_row ? scale_a[first_row + row] : of_all;
#pragma unroll
      for (int e = 0; e < 4; ++e) values[e] *= of_row * of_column[e];
      __nv_bfloat16* const to = c + static_cast<long long>(first_row + row) * n + column;
      if (fours)
        warpwise::store4<true>(to, values, left);
      else
        warpwise::store4<false>(to, values, left);
    }
  }
  if (SPLIT * SHARE > 1) hopper::cluster_sync();  // nobody leaves while another may read its sums or arrive here
}
