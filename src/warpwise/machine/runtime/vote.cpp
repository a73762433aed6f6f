// VOTE, VOTEU, REDUX, CREDUX and ELECT: warp-wide votes and reductions.
#include "access.h"
#include "floats.h"

namespace ww::machine {

namespace {

void write_all_lanes(Warp& warp, const Instruction& instruction, unsigned operand, Mask lanes, u32 value) {
  Vector& to = destination(warp, instruction, operand);
  if (instruction.operands[operand].kind == Kind::kUniform) lanes = ~Mask{0};
  for_lanes(lanes, [&](unsigned l) { to.lane[l] = value; });
}

// VOTE.<mode> [R,] [P,] source: R is the ballot, P the vote. The source is the last operand.
enum Mode : unsigned { kAll, kAny, kEq };
template <Mode M>
void vote(Warp& warp, const Instruction& instruction, Mask lanes) {
  const unsigned last = static_cast<unsigned>(instruction.operands.size()) - 1;
  const Mask ballot = predicate(warp, instruction.operands[last]) & lanes;
  const bool all = ballot == lanes, any = ballot != 0;
  const bool result = M == kAll ? all : M == kAny ? any : all || !any;
  for (unsigned i = 0; i < last; i++) {
    const Operand& to = instruction.operands[i];
    if (to.kind == Kind::kPredicate || to.kind == Kind::kUniformPredicate)
      set_predicate(warp, to, lanes, result ? ~Mask{0} : 0);
    else
      write_all_lanes(warp, instruction, i, lanes, ballot);
  }
}
Handler decode_vote(Instruction& i) {
  if (i.operands.size() < 2 || i.operands.size() > 3 || i.modifiers.size() != 1) return nullptr;
  const Kind last = i.operands.back().kind;
  if (last != Kind::kPredicate && last != Kind::kUniformPredicate) return nullptr;
  return i.has("ALL") ? vote<kAll> : i.has("ANY") ? vote<kAny> : i.has("EQ") ? vote<kEq> : nullptr;
}
Opcode VOTE_opcode("VOTE", kAlu, decode_vote);
Opcode VOTEU_opcode("VOTEU", kUniformPipe, decode_vote);

// REDUX.<operation> UR, R: reduction over the active lanes; the default operation is AND.
enum Operation : unsigned { kAnd, kOr, kXor, kSum, kMin, kMax };
template <Operation O, bool Signed>
void reduce(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector room;
  const Vector& from = source(warp, instruction, 1, room);
  u32 total = from.lane[__builtin_ctz(lanes)];
  const auto less = [](u32 a, u32 b) { return Signed ? static_cast<i32>(a) < static_cast<i32>(b) : a < b; };
  for_lanes(lanes & (lanes - 1), [&](unsigned l) {
    const u32 value = from.lane[l];
    if constexpr (O == kAnd) total &= value;
    if constexpr (O == kOr) total |= value;
    if constexpr (O == kXor) total ^= value;
    if constexpr (O == kSum) total += value;
    if constexpr (O == kMin) total = less(value, total) ? value : total;
    if constexpr (O == kMax) total = less(total, value) ? value : total;
  });
  write_all_lanes(warp, instruction, 0, lanes, total);
}
// CREDUX.MAX.F32 and .MIN.F32: NaN only if all lanes are NaN, or with .NAN if any lane is.
void reduce_floats(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector room;
  const Vector& from = source(warp, instruction, 1, room);
  const FloatSign sign(instruction.operands[1]);
  const u32 flip = instruction.has("MAX") ? 0x80000000u : 0, strict = instruction.has("NAN") ? 1 : 0;
  u32 total = sign(from.lane[__builtin_ctz(lanes)]) ^ flip;
  for_lanes(lanes, [&](unsigned l) { total = float_minimum(total, sign(from.lane[l]) ^ flip, strict); });
  write_all_lanes(warp, instruction, 0, lanes, is_nan(total) ? kCanonicalNan : total ^ flip);
}

Handler decode_reduce(Instruction& i) {
  if (i.operands.size() != 2) return nullptr;
  if (i.has("F32"))
    return (i.has("MIN") || i.has("MAX")) && has_only(i, {"F32", "MIN", "MAX", "NAN"}) ? reduce_floats : nullptr;
  for (const std::string& modifier : i.modifiers)
    if (modifier != "AND" && modifier != "OR" && modifier != "XOR" && modifier != "SUM" && modifier != "MIN" &&
        modifier != "MAX" && modifier != "S32" && modifier != "U32")
      return nullptr;
  const bool is_signed = i.has("S32");
  if (i.has("OR")) return reduce<kOr, false>;
  if (i.has("XOR")) return reduce<kXor, false>;
  if (i.has("SUM")) return reduce<kSum, false>;
  if (i.has("MIN")) return is_signed ? reduce<kMin, true> : reduce<kMin, false>;
  if (i.has("MAX")) return is_signed ? reduce<kMax, true> : reduce<kMax, false>;
  return reduce<kAnd, false>;
}
Opcode REDUX_opcode("REDUX", kAdu, decode_reduce);
Opcode CREDUX_opcode("CREDUX", kAlu, decode_reduce);

// ELECT P, UR, source: P is true in the first lane whose source predicate is true; UR is its lane index.
void elect(Warp& warp, const Instruction& instruction, Mask lanes) {
  const Mask candidates = predicate(warp, instruction.operands[2]) & lanes;
  const u32 leader = candidates ? static_cast<u32>(__builtin_ctz(candidates)) : 0;
  set_predicate(warp, instruction.operands[0], lanes, candidates ? Mask{1} << leader : 0);
  write_all_lanes(warp, instruction, 1, lanes, leader);
}
Opcode ELECT_opcode("ELECT", kAlu, [](Instruction& i) -> Handler {
  return i.operands.size() == 3 && i.modifiers.empty() ? elect : nullptr;
});

}  // namespace

}  // namespace ww::machine
