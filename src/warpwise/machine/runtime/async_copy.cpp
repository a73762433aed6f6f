// LDGSTS (cp.async), LDGDEPBAR and DEPBAR (cp.async groups), UBLKCP (cp.async.bulk). Copies complete immediately.
#include <algorithm>

#include "access.h"
#include "mbarrier.h"

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

// LDGDEPBAR: commits a group; the cycle at which its copies complete is known.
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

// UBLKCP.S.G [UR shared], [UR global], UR (size in 16-byte units), and UBLKCP.G.S in the other direction: one copy per
// warp. For a copy to shared memory the register after the destination's holds the mbarrier address.
template <bool IntoShared>
void copy_bulk(Warp& warp, const Instruction& instruction, Mask) {
  const Operand &to = instruction.operands[0], &from = instruction.operands[1];
  Addresses shared, global;
  narrow_addresses(warp, IntoShared ? to : from, shared);
  wide_addresses(warp, IntoShared ? from : to, global);
  const u32 units = source_word(warp, instruction.operands[2], 0).lane[0] & 0xffff;
  for (u32 done = 0; done < units; done += kLanes) {
    const unsigned now = std::min(kLanes, units - done);
    const Mask lanes = now == kLanes ? ~Mask{0} : (Mask{1} << now) - 1;
    Addresses here, there;
    for (unsigned l = 0; l < kLanes; l++) {
      here.lane[l] = shared.lane[0] + 16 * (done + l);
      there.lane[l] = global.lane[0] + 16 * (done + l);
    }
    const LanePointers shared_pointers(warp, instruction, Space::kShared, lanes, here, 16);
    const LanePointers global_pointers(warp, instruction, Space::kGlobal, lanes, there, 16);
    for_lanes(lanes, [&](unsigned l) {
      std::memcpy(IntoShared ? shared_pointers(l) : global_pointers(l),
                  IntoShared ? global_pointers(l) : shared_pointers(l), 16);
    });
  }
  if (IntoShared) {
    const u32 barrier = warp.uniforms[to.uniform_base + 1].lane[0];
    complete_transactions(warp, instruction, barrier, units * 16);
  }
}
Opcode UBLKCP_opcode("UBLKCP", kLsu, [](Instruction& i) -> Handler {
  if (i.operands.size() != 3 || i.modifiers.size() != 2) return nullptr;
  if (i.operands[0].kind != Kind::kMemory || i.operands[1].kind != Kind::kMemory) return nullptr;
  return i.modifiers[0] == "S" && i.modifiers[1] == "G"   ? copy_bulk<true>
         : i.modifiers[0] == "G" && i.modifiers[1] == "S" ? copy_bulk<false>
                                                          : nullptr;
});
void nothing(Warp&, const Instruction&, Mask) {}
Opcode UBLKPF_opcode("UBLKPF", kLsu, [](Instruction&) -> Handler { return nothing; });
Opcode UTMACMDFLUSH_opcode("UTMACMDFLUSH", kLsu, [](Instruction&) -> Handler { return nothing; });

}  // namespace

}  // namespace ww::machine
