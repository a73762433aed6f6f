// What handlers of memory instructions share: addresses of lanes, the way to their bytes, modifiers.
#pragma once
#include <cstring>
#include <initializer_list>

#include "traffic.h"

namespace ww::machine {

struct alignas(64) Addresses {
  u64 lane[kLanes];
};
// Of a memory operand with 64-bit addresses (modifier E): a register pair, a uniform register pair, or the sum of a
// uniform pair with a pair or a 32-bit register.
void wide_addresses(const Warp& warp, const Operand& operand, Addresses& out);
// Of one with 32-bit addresses, shared and local memory: register x 1, 4, 8 or 16, uniform register, displacement.
void narrow_addresses(const Warp& warp, const Operand& operand, Addresses& out);

// Smallest and largest address of the lanes that are on.
struct Extent {
  u64 low, high;
};
// Faults if an address is no multiple of `bytes`.
Extent extent_of(const Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& addresses,
                 unsigned bytes);

// Where the bytes at an address are, for the lanes of one instruction: all of one buffer, or each looked up by itself.
class Way {
 public:
  Way(const Warp& warp, const Instruction& instruction, Space space, Mask lanes, const Addresses& addresses,
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

// Generic addresses: lanes whose address lies in the window of shared or of local memory, addresses there made
// relative.
struct Generic {
  Mask global, shared, local;
};
Generic split_generic(Mask lanes, Addresses& addresses);

// Registers of a source operand of several words; RZ is 0 in each.
inline const Vector& source_word(const Warp& warp, const Operand& operand, unsigned word) {
  if (operand.kind == Kind::kUniform)
    return operand.index == kUniformZero ? kZeroVector : warp.uniforms[operand.index + word];
  return operand.index == kRegisterZero ? kZeroVector : warp.registers[operand.index + word];
}

template <class T>
inline T read_as(const u8* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}
template <class T>
inline void write_as(u8* place, T value) {
  std::memcpy(place, &value, sizeof value);
}

// note_request, whose latency becomes the instruction's.
void account(Warp& warp, const Instruction& instruction, Space space, Action action, unsigned bytes, Mask lanes,
             const Addresses& addresses);

// Modifiers that change nothing about the data: scopes, cache hints, E.
bool is_hint(const std::string& modifier);
// Whether each modifier is one of these or a hint.
bool only_modifiers(const Instruction& instruction, std::initializer_list<const char*> known);
// kBypassL1 and kNoAllocate from the modifiers: strong loads of wider scope than the SM must see what others wrote.
u8 caching_modifiers(const Instruction& instruction);
inline void set_caching(Instruction& instruction, unsigned caching) {
  instruction.scratch[0] = (instruction.scratch[0] & ~(u64{0xff} << 32)) | u64{caching} << 32;
}

}  // namespace ww::machine
