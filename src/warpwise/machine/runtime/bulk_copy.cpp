// UBLKCP (cp.async.bulk) and UBLKRED (cp.reduce.async.bulk) of contiguous bytes, a multiple of 16. A copy completes
// when it is issued.
#include <cstring>

#include "bulk.h"
#include "mbarrier.h"

namespace ww::machine {

void reduce(u8* to, const u8* from, unsigned bytes, Reduction reduction) {
  const unsigned size = bytes_of(reduction.element);
  for (unsigned at = 0; at < bytes; at += size)
    apply_update(to + at, from + at, reduction.update, reduction.element, false);
}

void Units::add(u64 global, u32 shared, unsigned bytes) {
  if (count_ == kLanes || (count_ && bytes != bytes_)) flush();
  bytes_ = bytes;
  global_.lane[count_] = global;
  shared_[count_++] = shared;
}

void Units::flush() {
  if (!count_) return;
  const Mask lanes = count_ == kLanes ? ~Mask{0} : (Mask{1} << count_) - 1;
  const LanePointers pointers(warp_, instruction_, Space::kGlobal, lanes, global_, bytes_);
  for_lanes(lanes, [&](unsigned l) {
    u8* here = shared_memory(shared_[l], bytes_, warp_, instruction_);
    if (reduction_.reduces)
      reduce(pointers(l), here, bytes_, reduction_);
    else
      std::memcpy(loads_ ? here : pointers(l), loads_ ? pointers(l) : here, bytes_);
  });
  const Action action = reduction_.reduces ? Action::kReduction : loads_ ? Action::kLoad : Action::kStore;
  record_access(warp_, instruction_, Space::kGlobal, action, bytes_, lanes, global_);
  count_ = 0;
}

void multicast(Warp& warp, const Instruction& instruction, u32 shared, u32 barrier, u32 bytes, u32 blocks) {
  const u32 first = static_cast<u32>(__builtin_ctz(blocks)), offset = shared & 0xffffff;
  const u8* from = shared_memory(first << 24 | offset, bytes, warp, instruction);
  for (u32 rest = blocks; rest; rest &= rest - 1) {
    const u32 rank = static_cast<u32>(__builtin_ctz(rest)) << 24;
    if (rank >> 24 != first) std::memcpy(shared_memory(rank | offset, bytes, warp, instruction), from, bytes);
    complete_transactions(warp, instruction, rank | (barrier & 0xffffff), bytes);
  }
}

namespace {

// Decoded form of the instruction, in scratch[1].
struct Form {
  bool to_shared, from_shared, to_several;
  Reduction reduction;
};
static_assert(sizeof(Form) <= sizeof(u64));

// UBLKCP.S.G [UR shared], [UR global], UR, and .G.S and .S.S: one copy per warp. The lower half of the last operand is
// the size in units of 16 bytes; the upper half is the mask of destination blocks of a .MULTICAST. For a copy to shared
// memory, the register after the destination register holds the address of the mbarrier.
void copy_bulk(Warp& warp, const Instruction& instruction, Mask) {
  Form form;
  std::memcpy(&form, &instruction.scratch[1], sizeof form);
  const Operand &to = instruction.operands[0], &from = instruction.operands[1];
  const u32 given = source_word(warp, instruction.operands[2], 0).lane[0], bytes = (given & 0xffff) * 16;
  const u32 blocks = form.to_several ? given >> 16 : 0;
  if (form.to_several && !blocks) return;
  Addresses target, source;
  (form.to_shared ? narrow_addresses : wide_addresses)(warp, to, target);
  (form.from_shared ? narrow_addresses : wide_addresses)(warp, from, source);
  const u32 own = (static_cast<u32>(source.lane[0]) & 0xffffff) | warp.block->rank << 24;  // of a source in this block
  u32 shared = form.to_shared ? static_cast<u32>(target.lane[0]) : own;
  if (form.to_several) shared = in_lowest_block(shared, blocks);
  if (form.to_shared && form.from_shared) {
    for (u32 done = 0; done < bytes; done += 16) {
      u8* there = shared_memory(shared + done, 16, warp, instruction);
      const u8* here = shared_memory(own + done, 16, warp, instruction);
      if (form.reduction.reduces)
        reduce(there, here, 16, form.reduction);
      else
        std::memcpy(there, here, 16);
    }
  } else {
    const u64 global = form.to_shared ? source.lane[0] : target.lane[0];
    Units units(warp, instruction, form.to_shared, form.reduction);
    for (u32 done = 0; done < bytes; done += 16) units.add(global + done, shared + done, 16);
    units.flush();
  }
  if (!form.to_shared) return;
  const u32 barrier = warp.uniforms[to.uniform_base + 1].lane[0];
  if (form.to_several)
    multicast(warp, instruction, shared, barrier, bytes, blocks);
  else
    complete_transactions(warp, instruction, barrier, bytes);
}

constexpr struct {
  const char* modifier;
  Element element;
} kElements[] = {{"S32", Element::kS32}, {"U64", Element::kU64}, {"S64", Element::kS64},  {"F32", Element::kF32},
                 {"F64", Element::kF64}, {"F16", Element::kF16}, {"BF16", Element::kBF16}};

template <bool Reduces>
Handler decode(Instruction& i) {
  if (i.operands.size() < 3 || i.modifiers.size() < 2) return nullptr;
  if (i.operands[0].kind != Kind::kMemory || i.operands[1].kind != Kind::kMemory) return nullptr;
  Form form{i.modifiers[0] == "S", i.modifiers[1] == "S", false, {Reduces}};
  if (!form.to_shared && (i.modifiers[0] != "G" || !form.from_shared)) return nullptr;
  if (!form.from_shared && i.modifiers[1] != "G") return nullptr;
  bool updates = false;
  for (size_t k = 2; k < i.modifiers.size(); k++) {
    const std::string& modifier = i.modifiers[k];
    bool known = Reduces && modifier == "RN";
    if (!Reduces && modifier == "MULTICAST" && form.to_shared && !form.from_shared) known = form.to_several = true;
    if (Reduces && read_update(modifier, form.reduction.update)) known = updates = true;
    for (const auto& each : kElements)
      if (Reduces && modifier == each.modifier) form.reduction.element = each.element, known = true;
    if (!known) return nullptr;
  }
  if (Reduces != updates) return nullptr;
  std::memcpy(&i.scratch[1], &form, sizeof form);
  set_caching(i, kBypassL1);
  return copy_bulk;
}
constexpr const char* kRequests =
    "data are exact; a copy completes at once, and the number of requests differs from a GPU's";
Opcode UBLKCP_opcode("UBLKCP", kLsu, decode<false>, kRequests);
Opcode UBLKRED_opcode("UBLKRED", kLsu, decode<true>, kRequests);
void nothing(Warp&, const Instruction&, Mask) {}
Opcode UBLKPF_opcode("UBLKPF", kLsu, [](Instruction&) -> Handler { return nothing; });
Opcode UTMAPF_opcode("UTMAPF", kLsu, [](Instruction&) -> Handler { return nothing; });
Opcode UTMACMDFLUSH_opcode("UTMACMDFLUSH", kLsu, [](Instruction&) -> Handler { return nothing; });

}  // namespace

}  // namespace ww::machine
