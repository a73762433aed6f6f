// Shared by the arithmetic handlers: operands as vectors, signs as bit masks, loops over 32 lanes that vectorise, and
// masked stores.
#pragma once
#include <initializer_list>

#include "machine.h"

namespace ww::machine {

// ---- Operands

// The lanes to write: all lanes for uniform destinations, which are stored as broadcast vectors.
inline Mask destination_lanes(const Instruction& instruction, Mask lanes) {
  const Kind kind = instruction.operands[0].kind;
  return kind == Kind::kUniform || kind == Kind::kUniformPredicate ? ~Mask{0} : lanes;
}

inline bool is_active(Mask lanes, unsigned l) { return lanes >> l & 1; }

inline bool is_predicate(const Operand& operand) {
  return operand.kind == Kind::kPredicate || operand.kind == Kind::kUniformPredicate;
}

// Number of consecutive predicate operands from `first` on.
inline unsigned predicates_at(const Instruction& instruction, unsigned first) {
  unsigned found = 0;
  while (first + found < instruction.operands.size() && is_predicate(instruction.operands[first + found])) found++;
  return found;
}

// True if every modifier is in `known`.
bool has_only(const Instruction& instruction, std::initializer_list<const char*> known);

// ---- Signs

// An integer operand is (x ^ flip) + one: -x if negated, ~x if inverted.
struct IntegerSign {
  u32 flip = 0, one = 0;
  IntegerSign() = default;
  explicit IntegerSign(const Operand& operand)
      : flip(operand.negated || operand.inverted ? ~u32{0} : 0), one(operand.negated ? 1 : 0) {}
};

// The bits of a float operand are (x & keep) ^ flip.
struct FloatSign {
  u32 keep, flip;
  explicit FloatSign(const Operand& operand)
      : keep(operand.absolute ? 0x7fffffffu : ~u32{0}), flip(operand.negated ? 0x80000000u : 0) {}
  u32 operator()(u32 bits) const { return (bits & keep) ^ flip; }
};

inline float as_float(u32 bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
inline u32 as_bits(float value) {
  u32 bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}
inline double as_double(u64 bits) {
  double value;
  __builtin_memcpy(&value, &bits, 8);
  return value;
}
inline u64 as_bits(double value) {
  u64 bits;
  __builtin_memcpy(&bits, &value, 8);
  return bits;
}

// condition ? yes : no, without a branch, so that loops over lanes vectorise.
inline u32 choose(bool condition, u32 yes, u32 no) { return no ^ ((yes ^ no) & -static_cast<u32>(condition)); }

// ---- Loops over lanes

inline void blend(Vector& to, const Vector& from, Mask lanes) {
  if (lanes == ~Mask{0}) {
    to = from;
  } else {
    for (unsigned l = 0; l < kLanes; l++) to.lane[l] = choose(is_active(lanes, l), from.lane[l], to.lane[l]);
  }
}

// to[l] = f(l) in `lanes`. f runs for all 32 lanes and must not trap; `to` is written last, so it can be a source of f.
template <class F>
inline __attribute__((always_inline)) void map(Vector& to, Mask lanes, F&& f) {
  Vector made;
  for (unsigned l = 0; l < kLanes; l++) made.lane[l] = f(l);
  blend(to, made, lanes);
}

// The same for a 64-bit f(l) in a register pair.
template <class F>
inline __attribute__((always_inline)) void map_wide(Vector& low, Vector& high, Mask lanes, F&& f) {
  Vector below, above;
  for (unsigned l = 0; l < kLanes; l++) {
    const u64 value = f(l);
    below.lane[l] = static_cast<u32>(value);
    above.lane[l] = static_cast<u32>(value >> 32);
  }
  blend(low, below, lanes);
  blend(high, above, lanes);
}

// The mask of lanes in which f(l) is true.
template <class F>
inline __attribute__((always_inline)) Mask lanes_where(F&& f) {
  Mask found = 0;
  for (unsigned l = 0; l < kLanes; l++) found |= (f(l) ? Mask{1} : Mask{0}) << l;
  return found;
}

// Like map, but skips inactive lanes: for an expensive f.
template <class F>
inline __attribute__((always_inline)) void map_active(Vector& to, Mask lanes, F&& f) {
  Vector made;
  for_lanes(lanes, [&](unsigned l) { made.lane[l] = f(l); });
  for_lanes(lanes, [&](unsigned l) { to.lane[l] = made.lane[l]; });
}

inline u64 pair(const Vector& low, const Vector& high, unsigned l) {
  return low.lane[l] | static_cast<u64>(high.lane[l]) << 32;
}

// ---- Combination of a comparison with a predicate, in SETP instructions

enum class Logic : u8 { kAnd, kOr, kXor };
inline Logic logic_of(const Instruction& instruction) {
  return instruction.has("OR") ? Logic::kOr : instruction.has("XOR") ? Logic::kXor : Logic::kAnd;
}
inline Mask combine(Logic logic, Mask a, Mask b) {
  return logic == Logic::kAnd ? a & b : logic == Logic::kOr ? a | b : a ^ b;
}

}  // namespace ww::machine
