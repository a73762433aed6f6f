// Shared by the handlers of memory instructions: lane addresses, host pointers, modifiers.
#pragma once
#include <cstring>
#include <initializer_list>

#include "traffic.h"

namespace ww::machine {

struct alignas(64) Addresses {
  u64 lane[kLanes];
};
// Lane addresses of a memory operand with 64-bit addresses (modifier E): a register pair, a uniform register pair, or a
// uniform register pair plus a register pair or a 32-bit register.
void wide_addresses(const Warp& warp, const Operand& operand, Addresses& out);
// Lane addresses of shared and local memory, 32 bits: register x (1, 4, 8 or 16) + uniform register + displacement.
void narrow_addresses(const Warp& warp, const Operand& operand, Addresses& out);

// Lowest and highest address of the active lanes.
struct Extent {
  u64 low, high;
};
// Faults if an address is not a multiple of `bytes`.
Extent extent_of(const Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& addresses,
                 unsigned bytes);

// Host pointers of the lanes' addresses: one offset if all lanes access one segment, otherwise a look-up per lane.
class LanePointers {
 public:
  LanePointers(const Warp& warp, const Instruction& instruction, Space space, Mask lanes, const Addresses& addresses,
               unsigned bytes);
  u8* operator()(unsigned lane) const {
    return direct_ ? reinterpret_cast<u8*>(addresses_.lane[lane] + offset_) : look_up(lane);
  }

 private:
  u8* look_up(unsigned lane) const;
  const Warp& warp_;
  const Instruction& instruction_;
  const Addresses& addresses_;
  Space space_;
  unsigned bytes_;
  bool direct_ = false;
  u64 offset_ = 0;  // from an address to its host pointer
};

// Lanes by state space of their generic address. split_generic converts addresses in the shared and local windows to
// offsets.
struct Generic {
  Mask global, shared, local;
};
Generic split_generic(Mask lanes, Addresses& addresses);

// Word `word` of a source operand of several registers; RZ reads 0.
inline const Vector& source_word(const Warp& warp, const Operand& operand, unsigned word) {
  if (operand.kind == Kind::kUniform)
    return operand.index == kUniformZero ? kZeroVector : warp.uniforms[operand.index + word];
  return operand.index == kRegisterZero ? kZeroVector : warp.registers[operand.index + word];
}

template <class T>
inline T read_as(const u8* pointer) {
  T value;
  std::memcpy(&value, pointer, sizeof value);
  return value;
}
template <class T>
inline void write_as(u8* pointer, T value) {
  std::memcpy(pointer, &value, sizeof value);
}

// Calls record_request and sets the instruction's latency.
void record_access(Warp& warp, const Instruction& instruction, Space space, Action action, unsigned bytes, Mask lanes,
                   const Addresses& addresses);

// True for modifiers without effect on the data: scopes, cache hints, E.
bool is_hint(const std::string& modifier);
// True if every modifier is a hint or in `known`.
bool only_modifiers(const Instruction& instruction, std::initializer_list<const char*> known);
// kBypassL1 and kNoAllocate of the modifiers. Strong loads of GPU or system scope bypass L1, which is not coherent.
u8 caching_modifiers(const Instruction& instruction);
inline void set_caching(Instruction& instruction, unsigned caching) {
  instruction.scratch[0] = (instruction.scratch[0] & ~(u64{0xff} << 32)) | u64{caching} << 32;
}

}  // namespace ww::machine
