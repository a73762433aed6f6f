// The handlers of PTX warp operations (shfl, vote, match, redux, elect), barriers, fences and branches.
#pragma once
#include "ptx_tensor_map.h"

namespace ptx {
inline u64 lane_value(const ww_exchange& table, unsigned lane) {
  u64 value = 0;
  __builtin_memcpy(&value, table.data + lane * table.stride, sizeof value);
  return value;
}

// shfl.sync.{up,down,bfly,idx}.b32 d{|p}, a, b, c, mask: c holds the clamp value in bits 0 to 4 and the
// segment mask in bits 8 to 12.
inline void shuffle(Context& c, const Instruction& i) {
  const u64 own = c.bits(i.operands[1]);
  const unsigned b = c.u32(i.operands[2]) & 31, control = c.u32(i.operands[3]), mask = c.u32(i.operands[4]);
  const unsigned clamp = control & 31, segment = control >> 8 & 31, lane = ww_lane();
  const unsigned top = (lane & segment) | (clamp & ~segment), bottom = lane & segment;
  unsigned source = lane;
  bool inside = true;
  if (i.has("up")) {
    source = lane - b;
    inside = static_cast<int>(source) >= static_cast<int>(top);
  } else if (i.has("down")) {
    source = lane + b;
    inside = source <= top;
  } else if (i.has("bfly")) {
    source = lane ^ b;
    inside = source <= top;
  } else {
    source = bottom | (b & ~segment);
    inside = source <= top;
  }
  if (!inside) source = lane;
  const ww_exchange table = ww_warp_exchange(mask, &own, sizeof own, "shfl.sync", c.line);
  u64 value = own;
  if (table.present >> source & 1)
    value = lane_value(table, source);
  else
    ww_warn(WW_WARP, "shfl.sync reads the value of a lane that does not participate: the result is undefined", c.line);
  c.set_bits(i.operands[0], value, 4);
  if (i.operands[0].pair) c.set_bits(i.operands[0].parts[0], inside, 4);
}
inline void vote(Context& c, const Instruction& i) {
  const u64 own = c.predicate(i.operands[1]);
  const ww_exchange table = ww_warp_exchange(c.u32(i.operands[2]), &own, sizeof own, "vote.sync", c.line);
  unsigned yes = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (table.present >> lane & 1) yes |= static_cast<unsigned>(lane_value(table, lane) != 0) << lane;
  u64 result = yes;
  if (i.has("all")) result = yes == table.present;
  if (i.has("any")) result = yes != 0;
  if (i.has("uni")) result = yes == table.present || yes == 0;
  c.set_bits(i.operands[0], result, 4);
}
inline void match(Context& c, const Instruction& i) {
  const u64 own = truncated(c.bits(i.operands[1]), type_bytes(i.type));
  const unsigned mask = c.u32(i.operands[2]);
  const ww_exchange table = ww_warp_exchange(mask, &own, sizeof own, "match.sync", c.line);
  unsigned same = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (table.present >> lane & 1) same |= static_cast<unsigned>(lane_value(table, lane) == own) << lane;
  const bool all = same == table.present;
  c.set_bits(i.operands[0], i.has("all") && !all ? 0 : same, 4);
  if (i.operands[0].pair) c.set_bits(i.operands[0].parts[0], all, 4);
}
inline void redux(Context& c, const Instruction& i) {
  const u64 own = truncated(c.bits(i.operands[1]), 4);
  const ww_exchange table = ww_warp_exchange(c.u32(i.operands[2]), &own, sizeof own, "redux.sync", c.line);
  u64 result = 0;
  bool first = true;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(table.present >> lane & 1)) continue;
    result = first ? lane_value(table, lane) : truncated(atomic_result(c, i, result, lane_value(table, lane), 0), 4);
    first = false;
  }
  c.set_bits(i.operands[0], result, 4);
}
inline void active_mask(Context& c, const Instruction& i) { c.set_bits(i.operands[0], ww_activemask(), 4); }
inline void elect(Context& c, const Instruction& i) {
  const u64 own = 0;
  const ww_exchange table = ww_warp_exchange(c.u32(i.operands[1]), &own, sizeof own, "elect.sync", c.line);
  const unsigned leader = static_cast<unsigned>(__builtin_ctz(table.present));
  c.set_bits(i.operands[0], leader, 4);
  if (i.operands[0].pair) c.set_bits(i.operands[0].parts[0], leader == ww_lane(), 4);
}

// bar.sync a{, b}; barrier{.cta}.sync{.aligned} a{, b}; ...arrive a, b; ...red.{popc,and,or}
inline void barrier(Context& c, const Instruction& i) {
  if (i.has("cluster")) {
    if (i.has("arrive"))
      ww_cluster_arrive(!i.has("relaxed"), c.line);
    else
      ww_cluster_wait(c.line);
    return;
  }
  if (i.parts[0] == "bar" && i.has("warp")) {
    ww_syncwarp(c.u32(i.operands[0]), c.line);
    return;
  }
  if (i.has("red")) {
    const size_t source = i.operands.size() - 1;
    const int kind = i.has("popc") ? 1 : i.has("and") ? 2 : 3;
    if (c.u32(i.operands[1]) != 0 || i.operands.size() > 3)
      c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is emulated only for barrier 0 with all threads of the block");
    c.set_bits(i.operands[0], static_cast<u64>(ww_syncthreads(kind, c.predicate(i.operands[source]), c.line)), 4);
    return;
  }
  const unsigned id = i.operands.empty() ? 0 : c.u32(i.operands[0]);
  const unsigned threads = i.operands.size() > 1 ? c.u32(i.operands[1]) : 0;
  if (id == 0 && threads == 0 && !i.has("arrive"))
    ww_syncthreads(WW_BAR_SYNC, 0, c.line);
  else
    ww_named_barrier(id, threads, i.has("arrive"), c.line);
}
inline void fence(Context& c, const Instruction& i) {
  if (i.name.find("tensormap") != std::string::npos)
    fence_of_maps(c, i);
  else if (i.has("proxy") && i.has("async"))
    ww_proxy_fence();
  else if (i.has("mbarrier_init"))
    ww_mbarrier_init_fence();
  else if (!i.has("proxy"))
    ww_fence(i.has("cta") ? 0 : i.has("sys") ? 2 : 1);
}
inline void sleep(Context& c, const Instruction&) { ww_yield(c.line); }
inline void trap(Context& c, const Instruction&) { c.fail(WW_ASSERT, "inline PTX: trap is executed"); }
inline void branch(Context& c, const Instruction& i) {
  if (i.operands[0].index < c.next)
    ww_yield(c.line);  // a backward branch: the loop may poll for another thread's write
  c.next = i.operands[0].index;
}
inline void unsupported_hardware(Context& c, const Instruction& i) {
  c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is not emulated");
}
inline void unsupported(Context& c, const Instruction& i) {
  c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is not emulated");
}
}  // namespace ptx
