// The handlers of PTX instructions for clusters and mbarriers.
#pragma once
#include "ptx_warp.h"

namespace ptx {
inline bool named(const Instruction& i, const char* text) { return i.name.find(text) != std::string::npos; }

// mapa{.space}.u32/u64 d, a, rank: `a` is an address in the shared window, or a generic address without a space.
inline void map_shared(Context& c, const Instruction& i) {
  const u64 given = c.bits(i.operands[1]);
  const bool window = named(i, "shared");
  const void* from = window ? ww_from_shared(given) : reinterpret_cast<const void*>(given);
  void* there = ww_map_shared(from, c.u32(i.operands[2]), c.line);
  c.set_bits(i.operands[0], window ? ww_to_shared(there) : reinterpret_cast<u64>(there));
}
inline void block_rank(Context& c, const Instruction& i) {  // getctarank
  const u64 given = c.bits(i.operands[1]);
  const void* from = named(i, "shared") ? ww_from_shared(given) : reinterpret_cast<const void*>(given);
  const ww_dim3 shape = ww_cluster_shape();
  for (unsigned rank = 0; rank < shape.x * shape.y * shape.z; ++rank)
    if (ww_map_shared(from, rank, c.line) == from) c.set_bits(i.operands[0], rank, 4);
}

// mbarrier.{init, inval, arrive, arrive_drop, test_wait, try_wait, pending_count, expect_tx, complete_tx}
inline void mbarrier(Context& c, const Instruction& i) {
  const auto barrier_at = [&](const Operand& operand) {
    char* at = address_of(c, i, operand);
    check_aligned(c, i, at, 8);
    return at;
  };
  if (i.has("init")) return ww_mbarrier_init(barrier_at(i.operands[0]), c.u32(i.operands[1]), c.line);
  if (i.has("inval")) return ww_mbarrier_invalidate(barrier_at(i.operands[0]), c.line);
  if (i.has("pending_count")) {
    c.set_bits(i.operands[0], c.bits(i.operands[1]) >> 32, 4);
    return;
  }
  if (i.has("expect_tx") && !i.has("arrive") && !i.has("arrive_drop"))
    return ww_mbarrier_expect(barrier_at(i.operands[0]), c.u32(i.operands[1]), c.line);
  if (i.has("complete_tx"))
    return ww_mbarrier_expect(barrier_at(i.operands[0]), -static_cast<int64_t>(c.u32(i.operands[1])), c.line);
  if (i.has("arrive") || i.has("arrive_drop")) {
    const size_t first = i.operands[0].kind == Kind::address ? 0 : 1;  // without a state, or after it
    char* at = barrier_at(i.operands[first]);
    unsigned count = 1;
    if (i.has("expect_tx"))
      ww_mbarrier_expect(at, c.u32(i.operands[first + 1]), c.line);
    else if (i.operands.size() > first + 1)
      count = c.u32(i.operands[first + 1]);
    // The state holds the phase, and the arrivals that were pending before.
    const u64 pending = ww_mbarrier_pending(at, c.line),
              phase = ww_mbarrier_arrive(at, count, i.has("arrive_drop"), c.line);
    if (first) c.set_bits(i.operands[0], pending << 32 | (phase & 0xffffffffu));
    return;
  }
  if (!i.has("test_wait") && !i.has("try_wait")) return unsupported(c, i);
  const u64 state = c.bits(i.operands[2]);
  const int done = ww_mbarrier_wait(barrier_at(i.operands[1]), i.has("parity") ? state : state & 0xffffffffu,
                                    i.has("parity"), i.has("try_wait"), c.line);
  c.set_bits(i.operands[0], static_cast<u64>(done), 4);
}

// cp.async.mbarrier.arrive{.noinc}: an arrival once the thread's earlier cp.async copies are complete. Without .noinc
// it first adds one to the pending arrivals.
inline void copy_arrive(Context& c, const Instruction& i) {
  char* at = address_of(c, i, i.operands[0]);
  ww_barrier_track_copies(at);
  if (i.has("noinc")) ww_mbarrier_arrive(at, 1, 0, c.line);
}
inline void register_count(Context& c, const Instruction& i) {  // setmaxnreg
  const unsigned count = c.u32(i.operands[0]);
  if (count < 24 || count > 256 || count % 8)
    c.fail(WW_UNDEFINED,
           "inline PTX: " + i.name + " takes a multiple of 8 from 24 to 256, not " + std::to_string(count));
}
}  // namespace ptx
