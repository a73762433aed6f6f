// LDGSTS (cp.async), LDGDEPBAR and DEPBAR (cp.async groups). Copies complete immediately.
#include <algorithm>

#include "access.h"

namespace ww::machine {

namespace {

// LDGSTS [shared], [global], P: lanes whose predicate is false write zeros. With ZFILL the lower bits of the global
// address are the number of zero bytes at the end of the destination, and the remaining bits are the source address.
template <unsigned Bytes, bool Fills>
void copy(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses to, from;
  narrow_addresses(warp, instruction.operands[0], to);
  wide_addresses(warp, instruction.operands[1], from);
  Mask reads = lanes;
  if (instruction.operands.size() > 2) reads &= predicate(warp, instruction.operands[2]);
  unsigned valid[kLanes];
  for (unsigned l = 0; l < kLanes; l++) {
    valid[l] = Bytes;
    if (Fills) {
      valid[l] -= static_cast<unsigned>(from.lane[l] % Bytes);
      from.lane[l] &= ~u64{Bytes - 1};
    }
  }
  u8 data[kLanes][Bytes] = {};
  if (reads) {
    const LanePointers source(warp, instruction, Space::kGlobal, reads, from, Bytes);
    for_lanes(reads, [&](unsigned l) { std::memcpy(data[l], source(l), Fills ? valid[l] : Bytes); });
  }
  const LanePointers target(warp, instruction, Space::kShared, lanes, to, Bytes);
  for_lanes(lanes, [&](unsigned l) { std::memcpy(target(l), data[l], Bytes); });
  if (reads) {
    record_access(warp, instruction, Space::kGlobal, Action::kAsyncCopy, Bytes, reads, from);
    warp.copies.open = std::max(warp.copies.open, warp.cycle + warp.latency);
  }
  record_copy_to_shared(instruction, Bytes, reads, from.lane, lanes, to.lane);
}
Opcode LDGSTS_opcode("LDGSTS", kLsu, [](Instruction& i) -> Handler {
  if (i.operands.size() < 2 || i.operands.size() > 3 || !only_modifiers(i, {"64", "128", "ZFILL", "BYPASS", "ACCESS"}))
    return nullptr;
  if (i.operands[0].kind != Kind::kMemory || i.operands[1].kind != Kind::kMemory) return nullptr;
  set_caching(i, caching_modifiers(i));
  const bool fills = i.has("ZFILL");
  if (i.has("128")) return fills ? copy<16, true> : copy<16, false>;
  if (i.has("64")) return fills ? copy<8, true> : copy<8, false>;
  return fills ? copy<4, true> : copy<4, false>;
});

// LDGDEPBAR: commits a group and records the cycle at which its copies complete.
void commit(Warp& warp, const Instruction&, Mask) {
  CopyGroups& copies = warp.copies;
  copies.landed[copies.count++ % CopyGroups::kMaxGroups] = copies.open;
}
Opcode LDGDEPBAR_opcode("LDGDEPBAR", kLsu, [](Instruction&) -> Handler { return commit; });

// DEPBAR.LE SB0, n: waits until at most the n latest groups are pending.
void wait_for_groups(Warp& warp, const Instruction& instruction, Mask) {
  const CopyGroups& copies = warp.copies;
  const u32 left = static_cast<u32>(instruction.operands[1].value);
  if (copies.count <= left || left >= CopyGroups::kMaxGroups) return;
  warp.ready = std::max(warp.ready, copies.landed[(copies.count - 1 - left) % CopyGroups::kMaxGroups]);
}
void no_operation(Warp&, const Instruction&, Mask) {}
Opcode DEPBAR_opcode("DEPBAR", kLsu, [](Instruction& i) -> Handler {
  const bool groups = i.operands.size() == 2 && i.operands[0].kind == Kind::kBarrier && i.operands[0].index == 0 &&
                      i.operands[1].kind == Kind::kImmediate;
  return groups ? wait_for_groups : no_operation;
});

}  // namespace

}  // namespace ww::machine
