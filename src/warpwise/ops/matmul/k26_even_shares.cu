// No round of tiles is left partly empty: the tiles that fill none are shared by all clusters first; then whole tiles.
//
// k20 gives whole tiles, so that 1024 of them take 66 clusters 16 rounds for 15.5 rounds of products. Here 34 clusters
// own one of the 34 tiles that are left each, and multiply the first slices of it; the other 32 take what remains, from
// tile to tile, all of them at nearly the same depth, so that L2 still serves many for one read of DRAM. Their sums go
// to global memory, half of them under the products of the next piece, and from there through the owner's ring of
// slices, as if they were slices, into its sums.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/sm90/gemm.cuh>

#include "shares.cuh"

namespace sm90 = warpwise::sm90;

// a: (m, k) or, MN_MAJOR, (k, m); b: (n, k) or, MN_MAJOR, (k, n); c: (m, n): maps with boxes of 64 x 64. rows, columns:
// C in tiles of a cluster; group_of_rows: of the tiles' order; cut, parts, edge: Shares. sums: BM x BN floats a block,
// flags: an int a block and warpgroup, 0 before and after; of each as many as blocks in the grid. GemmConfig says what
// the other parameters are, and sm90::gemm how the ring turns. Grid: clusters that the GPU holds all at once.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) __cluster_dims__(CM* CN, 1, 1)
    matmul_even_shares(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                       const __grid_constant__ sm90::TensorMap c, float* sums, int* flags, int slices, int rows,
                       int columns, int group_of_rows, int cut, int parts, int edge) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  constexpr unsigned kBoxBytes = sm90::kBoxBytes;
  extern __shared__ unsigned char raw[];
  const unsigned base = (warpwise::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned slices_a = base, slices_b = slices_a + P::stages * P::bytes_a;
  const unsigned leaving = slices_b + P::stages * P::bytes_b;
  const unsigned full = leaving + P::groups * P::boxes * kBoxBytes,
                 empty = full + 8 * P::stages;  // barriers: arrived, read
  const int rank = static_cast<int>(sm90::cluster_ctarank()), cluster_m = rank % P::cm, cluster_n = rank / P::cm;
  const sm90::TileScheduler order{rows, columns, group_of_rows};
  // Sums pass from block to block in turns, each through a stage's room for B, where a warpgroup has kQuads of a
  // thread.
  constexpr int kTurns = BM / 32, kQuads = P::wgmmas * P::width / 8 / kTurns;
  static_assert(kTurns * P::bytes_b == BM * BN * sizeof(float), "all of a block's sums");
  const auto sums_of = [&](int share, int turn) {
    return reinterpret_cast<float4*>(sums) + ((share * P::cluster + rank) * kTurns + turn) * (BM * BN / 4 / kTurns);
  };
  const auto flag_of = [&](int share, int group) { return flags + (share * P::cluster + rank) * P::groups + group; };
  const Shares shares{slices, cut, static_cast<int>(gridDim.x) / P::cluster, parts, edge};

  const int cluster = blockIdx.x / P::cluster;
  if (threadIdx.x == 0) {
    for (int s = 0; s < P::stages; ++s) {
      sm90::mbarrier_init(full + 8 * s, 1);
      sm90::mbarrier_init(empty + 8 * s, P::groups * (P::cm + P::cn - 1));  // by all readers of what this block loads
    }
    sm90::fence_mbarrier_init();
  }
  sm90::cluster_sync_relaxed();

  if (threadIdx.x < sm90::kWarpgroupThreads) {
    if constexpr (P::groups > 1) sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      sm90::Producer<P> feeder(&a, &b, slices_a, slices_b, full, empty, cluster_m, cluster_n);
      Pieces pieces(shares, order.tiles(), cluster);
      while (pieces.next()) {
        const int row = (order.row(pieces.tile) * P::cm + cluster_m) * P::bm;
        const int column = (order.column(pieces.tile) * P::cn + cluster_n) * P::bn;
#pragma unroll 1
        for (int s = pieces.from; s < pieces.to; ++s) feeder.load(row, column, s);
        pieces.each_other([&](int other) {
          for (int g = 0; g < P::groups; ++g) lower_once_raised(flag_of(other, g));
          global_proxy_fence();
          sm90::PipelineState<P::stages>& at = feeder.at;
          for (int turn = 0; turn < kTurns; ++turn, at.next()) {
            const unsigned arrived = full + 8 * at.stage;
            sm90::mbarrier_wait(empty + 8 * at.stage, at.phase);
            sm90::mbarrier_arrive_expect_tx(arrived, P::bytes_b);
            load_bytes(slices_b + at.stage * P::bytes_b, sums_of(other, turn), P::bytes_b, arrived);
          }
        });
      }
    }
    const int warp = threadIdx.x / 32;
    if (warp >= 1 && warp <= P::groups) {
      for (Pieces pieces(shares, order.tiles(), cluster); pieces.next() && pieces.from > 0;) {
        sm90::named_barrier_sync(2 + warp, sm90::kWarpgroupThreads + 32);
        if (threadIdx.x % 32 == 0) raise(flag_of(pieces.slot, warp - 1));
        __syncwarp();
      }
    }
  } else {
    if constexpr (P::groups > 1) sm90::warpgroup_reg_alloc<232>();
    const int group = threadIdx.x / sm90::kWarpgroupThreads - 1, group_m = group % P::gm, group_n = group / P::gm;
    const int thread = threadIdx.x % sm90::kWarpgroupThreads;
    const unsigned own_a = slices_a + group_m * P::wgmmas * kBoxBytes,
                   own_b = slices_b + group_n * (P::width / 64) * kBoxBytes;
    const bool releases = thread < P::cluster && (thread % P::cm == cluster_m || thread / P::cm == cluster_n);
    sm90::PipelineState<P::stages> at;
    unsigned before = 0;  // the barrier of the slice whose products may still run
    float d[P::wgmmas][P::width / 2];
    unsigned kept[P::parts][16];  // the last tile, rounded, and where it belongs
    int kept_row = 0, kept_column = 0, slot = 0, box = 0;
    bool keeps = false, leaves = false;  // the tile; half of the sums of a piece

    const auto slice = [&](int s) {
      sm90::mbarrier_wait(full + 8 * at.stage, at.phase);
      sm90::wgmma_fence();
#pragma unroll
      for (int i = 0; i < sm90::kTileK / 16; ++i) {
        const unsigned long long part_b = sm90::operand_descriptor<P::b_mn_major>(own_b + at.stage * P::bytes_b, i);
#pragma unroll
        for (int p = 0; p < P::wgmmas; ++p)
          sm90::wgmma<T, P::width, P::a_mn_major, P::b_mn_major>(
              d[p], sm90::operand_descriptor<P::a_mn_major>(own_a + at.stage * P::bytes_a + p * kBoxBytes, i), part_b,
              s || i);
      }
      sm90::wgmma_commit_group();
      sm90::wgmma_wait_group<1>();
      if (s > 0 && releases) sm90::mbarrier_arrive(before, thread);
      before = empty + 8 * at.stage;
      at.next();
    };
    const auto leave_kept = [&](int part) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = (P::parts + part) * 4 + j;
        const unsigned* const of = &kept[part][4 * j];
        __stcg(sums_of(slot, i / kQuads) + (group * kQuads + i % kQuads) * sm90::kWarpgroupThreads + thread,
               make_float4(__uint_as_float(of[0]), __uint_as_float(of[1]), __uint_as_float(of[2]),
                           __uint_as_float(of[3])));
      }
      if (part == P::parts - 1) {
        global_proxy_fence();
        sm90::named_barrier_sync(3 + group, sm90::kWarpgroupThreads + 32);
        leaves = false;
      }
    };
    const auto write = [&](int part) {
      if (thread == 0) sm90::tma_store_wait_read<P::boxes - 1>();
      sm90::named_barrier_sync(1 + group, sm90::kWarpgroupThreads);
      sm90::store_tile(leaving + (group * P::boxes + box) * kBoxBytes, kept[part], group, &c,
                       kept_row + part / (P::width / 64) * 64, kept_column + part % (P::width / 64) * 64);
      if (P::boxes == 2) box ^= 1;
    };
    Pieces pieces(shares, order.tiles(), cluster);
    while (pieces.next()) {
      const int count = pieces.to - pieces.from;
      slice(0);
      int row = ((order.row(pieces.tile) * P::cm + cluster_m) * P::gm + group_m) * P::wgmmas * 64;
      int column = ((order.column(pieces.tile) * P::cn + cluster_n) * P::gn + group_n) * P::width;
      asm volatile("" : "+r"(row), "+r"(column));  // known here, under the products, and not when the tile ends
      if (keeps) write(0);
      if (leaves) leave_kept(0);
#pragma unroll
      for (int part = 1; part < P::parts; ++part) {
        if (part < count) slice(part);
        if (keeps) write(part);
        if (leaves) leave_kept(part);
      }
      for (int s = P::parts; s < count; ++s) slice(s);
      sm90::wgmma_wait_group<0>();
      if (releases) sm90::mbarrier_arrive(before, thread);

      keeps = pieces.from == 0;
      if (!keeps) {
        slot = pieces.slot;
#pragma unroll
        for (int i = 0; i < kTurns * kQuads / 2; ++i) {
          const float* const of = &d[i / (P::width / 8)][i % (P::width / 8) * 4];
          __stcg(sums_of(slot, i / kQuads) + (group * kQuads + i % kQuads) * sm90::kWarpgroupThreads + thread,
                 make_float4(of[0], of[1], of[2], of[3]));
        }
        // A copy that the compiler cannot see through: else it shares D's registers, and products wait for each other.
#pragma unroll
        for (int i = 0; i < P::parts * 16; ++i) {
          const int at = P::parts * 16 + i;
          asm volatile("mov.b32 %0, %1;"
                       : "=r"(kept[i / 16][i % 16])
                       : "f"(d[at / (P::width / 2)][at % (P::width / 2)]));
        }
        leaves = true;
        continue;
      }
      pieces.each_other([&](int) {
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn, at.next()) {
          sm90::mbarrier_wait(full + 8 * at.stage, at.phase);
          const unsigned quads =
              slices_b + at.stage * P::bytes_b + (group * kQuads * sm90::kWarpgroupThreads + thread) * 16;
#pragma unroll
          for (int i = 0; i < kQuads; ++i) {
            float more[4];
            warpwise::ld_shared_v4(more, quads + i * sm90::kWarpgroupThreads * 16);
            float* const to = &d[(turn * kQuads + i) / (P::width / 8)][(turn * kQuads + i) % (P::width / 8) * 4];
            to[0] += more[0], to[1] += more[1], to[2] += more[2], to[3] += more[3];
            // Added now: registers of one turn at a time.
            asm volatile("" : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3]));
          }
          sm90::named_barrier_sync(1 + group, sm90::kWarpgroupThreads);
          if (releases) sm90::mbarrier_arrive(empty + 8 * at.stage, thread);
        }
      });
      kept_row = row;
      kept_column = column;
#pragma unroll
      for (int part = 0; part < P::parts; ++part) {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const float* const pair = &d[part / (P::width / 64)][part % (P::width / 64) * 32 + 2 * i];
          kept[part][i] = sm90::rounded(pair[0], pair[1], T());
        }
      }
    }
    if (keeps || leaves) {
#pragma unroll
      for (int part = 0; part < P::parts; ++part) {
        if (keeps) write(part);
        if (leaves) leave_kept(part);
      }
    }
    if (thread == 0) sm90::tma_store_wait_read<0>();  // the kernel's end waits for the rest
  }
  sm90::cluster_sync_relaxed();  // nobody leaves while another block may still arrive at its barriers
}
