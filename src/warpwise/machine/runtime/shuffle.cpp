// SHFL, MATCH and MOVM: data exchange between lanes.
#include "access.h"

namespace ww::machine {

namespace {

enum Direction : unsigned { kIdx, kUp, kDown, kBfly };

// SHFL.<mode> P, R, source, b, c. c: clamp in bits 0..4, segment mask in bits 8..12. The predicate is true if the
// source lane is in the segment; otherwise the lane keeps its own value.
template <Direction D>
void shuffle(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector room_b, room_c, room;
  const Vector value = source(warp, instruction, 2, room);
  const Vector& b = source(warp, instruction, 3, room_b);
  const Vector& c = source(warp, instruction, 4, room_c);
  u32 result[kLanes];
  Mask inside = 0;
  for_lanes(lanes, [&](unsigned l) {
    const int lane = static_cast<int>(l), step = static_cast<int>(b.lane[l] & 31);
    const int clamp = static_cast<int>(c.lane[l] & 31), segment = static_cast<int>(c.lane[l] >> 8 & 31);
    const int last = (lane & segment) | (clamp & ~segment);
    int from;
    bool in;
    if constexpr (D == kUp) from = lane - step, in = from >= last;
    if constexpr (D == kDown) from = lane + step, in = from <= last;
    if constexpr (D == kBfly) from = lane ^ step, in = from <= last;
    if constexpr (D == kIdx) from = (lane & segment) | (step & ~segment), in = from <= last;
    if (!in) from = lane;
    inside |= static_cast<Mask>(in) << l;
    result[l] = value.lane[from];
  });
  Vector& to = destination(warp, instruction, 1);
  for_lanes(lanes, [&](unsigned l) { to.lane[l] = result[l]; });
  set_predicate(warp, instruction.operands[0], lanes, inside);
}
Opcode SHFL_opcode("SHFL", kLsu, [](Instruction& i) -> Handler {
  if (i.operands.size() != 5 || i.modifiers.size() != 1) return nullptr;
  return i.has("IDX")    ? shuffle<kIdx>
         : i.has("UP")   ? shuffle<kUp>
         : i.has("DOWN") ? shuffle<kDown>
         : i.has("BFLY") ? shuffle<kBfly>
                         : nullptr;
});

// MATCH.ANY R, source: mask of lanes with the same value. MATCH.ALL P, R, source: all lanes, or 0 if values differ.
template <bool Wide, bool All>
void match(Warp& warp, const Instruction& instruction, Mask lanes) {
  constexpr unsigned kTo = All ? 1 : 0;
  const Operand& operand = instruction.operands[kTo + 1];
  u64 value[kLanes];
  const Vector &low = source_word(warp, operand, 0), &high = Wide ? source_word(warp, operand, 1) : kZeroVector;
  for (unsigned l = 0; l < kLanes; l++) value[l] = low.lane[l] | u64{high.lane[l]} << 32;
  Mask same[kLanes];
  for_lanes(lanes, [&](unsigned l) {
    same[l] = 0;
    for_lanes(lanes, [&](unsigned other) { same[l] |= static_cast<Mask>(value[other] == value[l]) << other; });
  });
  const unsigned some = static_cast<unsigned>(__builtin_ctz(lanes));
  const Mask everyone = same[some] == lanes ? lanes : 0;
  Vector& to = destination(warp, instruction, kTo);
  for_lanes(lanes, [&](unsigned l) { to.lane[l] = All ? everyone : same[l]; });
  if (All) set_predicate(warp, instruction.operands[0], lanes, everyone);
}
Opcode MATCH_opcode("MATCH", kAdu, [](Instruction& i) -> Handler {
  const bool wide = i.has("U64"), all = i.has("ALL");
  if (i.operands.size() != (all ? 3u : 2u) || i.operands.back().kind != Kind::kRegister) return nullptr;
  if (!all && !i.has("ANY")) return nullptr;
  return all ? (wide ? match<true, true> : match<false, true>) : (wide ? match<true, false> : match<false, false>);
});

// MOVM.16.MT88: transposes an 8 x 8 matrix of 16-bit elements; lane l holds elements 2 (l mod 4) and 2 (l mod 4) + 1 of
// row l / 4.
void transpose(Warp& warp, const Instruction& instruction, Mask lanes) {
  const Vector from = source_word(warp, instruction.operands[1], 0);
  const auto element = [&](unsigned row, unsigned column) {
    return from.lane[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
  };
  Vector& to = destination(warp, instruction, 0);
  for_lanes(lanes, [&](unsigned l) {
    const unsigned row = l / 4, column = l % 4 * 2;
    to.lane[l] = element(column, row) | element(column + 1, row) << 16;
  });
}
Opcode MOVM_opcode("MOVM", kLsu, [](Instruction& i) -> Handler {
  const bool known = i.modifiers.size() == 2 && i.has("16") && i.has("MT88") && i.operands.size() == 2;
  return known && i.operands[1].kind == Kind::kRegister ? transpose : nullptr;
});

}  // namespace

}  // namespace ww::machine
