// Double precision: DADD, DMUL, DFMA, DMNMX, DSETP, DSET. A value is a register pair, low word first.
#include "floats.h"

namespace ww::machine {
namespace {

struct Doubles {
  double lane[kLanes];
};

// Immediates are encoded as the upper word only.
void load(Warp& w, const Instruction& n, unsigned i, Doubles& to) {
  const Operand& operand = n.operands[i];
  if (operand.kind == Kind::kImmediate) {
    for (unsigned l = 0; l < kLanes; l++) to.lane[l] = as_double(static_cast<u64>(operand.value) << 32);
  } else {
    Vector ta, tb;
    const Vector &low = source(w, n, i, ta), &high = source_high(w, n, i, tb);
    const FloatSign sign(operand);
    for (unsigned l = 0; l < kLanes; l++)
      to.lane[l] = as_double(low.lane[l] | static_cast<u64>(sign(high.lane[l])) << 32);
  }
  Rounding::keep(to);
}

enum class What : u64 { kSum, kProduct, kFused };

template <What kWhat>
void arithmetic(Warp& w, const Instruction& n, Mask lanes) {
  Doubles a, b, c, made;
  load(w, n, 1, a);
  load(w, n, 2, b);
  if (kWhat == What::kFused) load(w, n, 3, c);
  {
    const Rounding rounding(static_cast<Round>(n.scratch[0]));
    for (unsigned l = 0; l < kLanes; l++)
      made.lane[l] = kWhat == What::kSum       ? a.lane[l] + b.lane[l]
                     : kWhat == What::kProduct ? a.lane[l] * b.lane[l]
                                               : __builtin_fma(a.lane[l], b.lane[l], c.lane[l]);
    Rounding::keep(made);
  }
  map_wide(destination(w, n, 0), destination(w, n, 0, 1), lanes, [&](unsigned l) { return as_bits(made.lane[l]); });
}

template <What kWhat>
Handler decode(Instruction& n) {
  const unsigned count = kWhat == What::kFused ? 4 : 3;
  if (n.operands.size() != count || !has_only(n, {"RN", "RM", "RP", "RZ"})) return nullptr;
  n.scratch[0] = static_cast<u64>(round_of(n));
  return arithmetic<kWhat>;
}

bool first_is_smaller(double a, double b) { return a < b || (a == b && as_bits(a) >> 63) || b != b; }

void dmnmx(Warp& w, const Instruction& n, Mask lanes) {
  Doubles a, b;
  load(w, n, 1, a);
  load(w, n, 2, b);
  const Mask smallest = predicate(w, n.operands[3]);
  map_wide(destination(w, n, 0), destination(w, n, 0, 1), lanes, [&](unsigned l) {
    const u64 flip = is_active(smallest, l) ? 0 : u64{1} << 63;
    const double x = as_double(as_bits(a.lane[l]) ^ flip), y = as_double(as_bits(b.lane[l]) ^ flip);
    const bool first = x == x && first_is_smaller(x, y);
    return as_bits(first ? a.lane[l] : b.lane[l]);
  });
}

Handler decode_dmnmx(Instruction& n) {
  const bool fits = n.operands.size() == 4 && is_predicate(n.operands[3]) && has_only(n, {});
  return fits ? dmnmx : nullptr;
}

// ---- Comparisons

constexpr u64 kMinimum = 16, kMaximum = 17;

// .MIN and .MAX: the predicates are 'the first operand is selected' and 'both operands are NaN'.
void dsetp_extreme(Warp& w, const Instruction& n, Mask lanes) {
  Doubles a, b;
  load(w, n, 2, a);
  load(w, n, 3, b);
  const u64 flip = n.scratch[0] == kMaximum ? u64{1} << 63 : 0;
  const Mask first = lanes_where([&](unsigned l) {
    const double x = as_double(as_bits(a.lane[l]) ^ flip), y = as_double(as_bits(b.lane[l]) ^ flip);
    return x == x && first_is_smaller(x, y);
  });
  const Mask neither = lanes_where([&](unsigned l) { return a.lane[l] != a.lane[l] && b.lane[l] != b.lane[l]; });
  const Mask given = predicate(w, n.operands[4]);
  set_predicate(w, n.operands[0], lanes, first & given);
  set_predicate(w, n.operands[1], lanes, neither & given);
}

Mask compared(Warp& w, const Instruction& n, unsigned i) {
  Doubles a, b;
  load(w, n, i, a);
  load(w, n, i + 1, b);
  return compare(n.scratch[0] & 15, [&](unsigned l) { return a.lane[l]; }, [&](unsigned l) { return b.lane[l]; });
}

void dsetp(Warp& w, const Instruction& n, Mask lanes) {
  const Mask found = compared(w, n, 2), given = predicate(w, n.operands[4]);
  const Logic logic = static_cast<Logic>(n.scratch[1] & 3);
  set_predicate(w, n.operands[0], lanes, combine(logic, found, given));
  set_predicate(w, n.operands[1], lanes, combine(logic, ~found, given));
}

void dset(Warp& w, const Instruction& n, Mask lanes) {
  const Mask found = combine(static_cast<Logic>(n.scratch[1] & 3), compared(w, n, 1), predicate(w, n.operands[3]));
  const u32 truth = n.scratch[1] & 4 ? 0x3f800000u : ~u32{0};
  map(destination(w, n, 0), lanes, [&](unsigned l) { return is_active(found, l) ? truth : 0; });
}

bool decode_comparison(Instruction& n) {
  if (!has_only(n, {"F",   "LT",  "EQ",  "LE",  "GT", "NE",  "GE",  "NUM", "NAN", "LTU", "EQU",
                    "LEU", "GTU", "NEU", "GEU", "T",  "MIN", "MAX", "AND", "OR",  "XOR", "BF"}))
    return false;
  n.scratch[1] = static_cast<u64>(logic_of(n)) | n.has("BF") * 4u;
  n.scratch[0] = n.has("MIN") ? kMinimum : n.has("MAX") ? kMaximum : float_relation(n);
  return n.scratch[0] != kNoRelation;
}

Handler decode_dsetp(Instruction& n) {
  if (n.operands.size() != 5 || predicates_at(n, 0) != 2 || !is_predicate(n.operands[4]) || n.has("BF")) return nullptr;
  if (!decode_comparison(n)) return nullptr;
  if (n.scratch[0] < kMinimum) return dsetp;
  return n.has("AND") ? dsetp_extreme : nullptr;
}

Handler decode_dset(Instruction& n) {
  if (n.operands.size() != 4 || !is_predicate(n.operands[3])) return nullptr;
  return decode_comparison(n) && n.scratch[0] < kMinimum ? dset : nullptr;
}

const Opcode kDadd("DADD", kFp64, decode<What::kSum>), kDmul("DMUL", kFp64, decode<What::kProduct>);
const Opcode kDfma("DFMA", kFp64, decode<What::kFused>), kDmnmx("DMNMX", kFp64, decode_dmnmx);
const Opcode kDsetp("DSETP", kFp64, decode_dsetp), kDset("DSET", kFp64, decode_dset);

}  // namespace
}  // namespace ww::machine
