// Single precision: FADD, FMUL, FFMA, their packed forms, FMNMX, FSETP, FSET, FCHK.
#include "floats.h"

namespace ww::machine {
namespace {

struct Sum {
  static constexpr unsigned kSources = 2;
  static float of(float a, float b, float) { return a + b; }
};
struct Product {
  static constexpr unsigned kSources = 2;
  static float of(float a, float b, float) { return a * b; }
};
struct Fused {
  static constexpr unsigned kSources = 3;
  static float of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
};

// scratch[0]: rounding mode, then flags: flush subnormal operands and results to zero, saturate to [0, 1].
constexpr u64 kFlush = 4, kSaturate = 8;

u64 float_form(const Instruction& n) {
  return static_cast<u64>(round_of(n)) | n.has("FTZ") * kFlush | n.has("SAT") * kSaturate;
}

template <class Operation>
void plain(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb, tc;
  constexpr unsigned last = Operation::kSources;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb), &c = source(w, n, last, tc);
  const FloatSign sa(n.operands[1]), sb(n.operands[2]), sc(n.operands[last]);
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    return canonical(Operation::of(as_float(sa(a.lane[l])), as_float(sb(b.lane[l])), as_float(sc(c.lane[l]))));
  });
}

template <class Operation>
inline void compute(Vector& made, const Vector& a, const Vector& b, const Vector& c, u64 form) {
  const Rounding rounding(static_cast<Round>(form & 3));
  const u32 flush = form & kFlush ? 0x80000000u : ~u32{0};
  const auto flushing = [flush](u32 bits) { return bits & 0x7f800000u ? bits : bits & flush; };
  const bool saturate = form & kSaturate;
  for (unsigned l = 0; l < kLanes; l++) {
    const float x = as_float(flushing(a.lane[l])), y = as_float(flushing(b.lane[l])), z = as_float(flushing(c.lane[l]));
    const float value = Operation::of(x, y, z);
    made.lane[l] = flushing(saturate ? as_bits(saturated(value)) : canonical(value));
  }
  Rounding::keep(made);
}

template <class Operation>
void general(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb, tc, made;
  constexpr unsigned last = Operation::kSources;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb), &c = source(w, n, last, tc);
  const FloatSign sa(n.operands[1]), sb(n.operands[2]), sc(n.operands[last]);
  Vector x, y, z;
  for (unsigned l = 0; l < kLanes; l++) {
    x.lane[l] = sa(a.lane[l]);
    y.lane[l] = sb(b.lane[l]);
    z.lane[l] = sc(c.lane[l]);
  }
  Rounding::keep(x), Rounding::keep(y), Rounding::keep(z);
  compute<Operation>(made, x, y, z, n.scratch[0]);
  blend(destination(w, n, 0), made, destination_lanes(n, lanes));
}

template <class Operation>
Handler decode(Instruction& n) {
  if (n.operands.size() != Operation::kSources + 1 || !has_only(n, {"FTZ", "SAT", "RN", "RM", "RP", "RZ"}))
    return nullptr;
  n.scratch[0] = float_form(n);
  return n.scratch[0] ? general<Operation> : plain<Operation>;
}

// ---- Packed floats in a register pair: R4.F32x2.HI_LO; R4.F32 is broadcast to both

template <class Operation>
void packed(Warp& w, const Instruction& n, Mask lanes) {
  constexpr unsigned count = Operation::kSources;
  Vector made[2];
  for (unsigned half = 0; half < 2; half++) {
    Vector x[3];
    for (unsigned k = 0; k < count; k++) {
      const Operand& operand = n.operands[k + 1];
      Vector temporary;
      const bool upper = half && operand.suffix != "F32" && operand.kind != Kind::kImmediate;
      const Vector& from = upper ? source_high(w, n, k + 1, temporary) : source(w, n, k + 1, temporary);
      const FloatSign sign(operand);
      for (unsigned l = 0; l < kLanes; l++) x[k].lane[l] = sign(from.lane[l]);
    }
    if (count < 3) x[2] = kZeroVector;
    Rounding::keep(x);
    compute<Operation>(made[half], x[0], x[1], x[2], n.scratch[0]);
  }
  blend(destination(w, n, 0), made[0], lanes);
  blend(destination(w, n, 0, 1), made[1], lanes);
}

template <class Operation>
Handler decode_packed(Instruction& n) {
  if (n.operands.size() != Operation::kSources + 1 || !has_only(n, {"FTZ", "RN", "RM", "RP", "RZ"})) return nullptr;
  for (unsigned k = 1; k < n.operands.size(); k++) {
    const Operand& operand = n.operands[k];
    if (operand.kind == Kind::kImmediate) continue;  // broadcast to both
    if (operand.suffix != "F32x2.HI_LO" && operand.suffix != "F32" && operand.index != kRegisterZero) return nullptr;
  }
  n.scratch[0] = float_form(n);
  return packed<Operation>;
}

// ---- Minimum if the last operand (a predicate) is true, else maximum

enum : u64 { kFlushInputs = 1, kNanWins = 2, kSignsMultiply = 4, kThree = 8 };

void fmnmx(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb);
  const FloatSign sa(n.operands[1]), sb(n.operands[2]);
  const Mask smallest = predicate(w, n.operands[3]);
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    const u32 flip = (~smallest >> l) << 31, value = float_minimum(sa(a.lane[l]) ^ flip, sb(b.lane[l]) ^ flip, 0);
    return value ^ (flip & -static_cast<u32>(value != kCanonicalNan));
  });
}

void fmnmx_any(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb, tc;
  const u64 form = n.scratch[0];
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb);
  const Vector& c = form & kThree ? source(w, n, 3, tc) : a;
  const FloatSign sa(n.operands[1]), sb(n.operands[2]), sc(n.operands[form & kThree ? 3 : 1]);
  const Mask smallest = predicate(w, n.operands.back());
  const u32 keep = form & kFlushInputs ? 0x80000000u : ~u32{0}, strict = form & kNanWins ? 1 : 0;
  const u32 signs = form & kSignsMultiply ? 0x80000000u : 0;
  const auto flushing = [keep](u32 bits) { return choose((bits & 0x7f800000u) != 0, bits, bits & keep); };
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    const u32 flip = (~smallest >> l) << 31;
    const u32 x = flushing(sa(a.lane[l])) ^ flip, y = flushing(sb(b.lane[l])) ^ flip,
              z = flushing(sc(c.lane[l])) ^ flip;
    const u32 value = float_minimum(float_minimum(x, y, strict), z, strict);
    return value ^ ((flip ^ ((a.lane[l] ^ b.lane[l]) & signs)) & -static_cast<u32>(value != kCanonicalNan));
  });
}

Handler decode_fmnmx(Instruction& n) {
  if (!has_only(n, {"FTZ", "NAN", "XORSIGN"}) || !is_predicate(n.operands.back())) return nullptr;
  const bool three = n.opcode == "FMNMX3" || n.opcode == "UFMNMX3";
  if (n.operands.size() != (three ? 5 : 4) || (three && n.has("XORSIGN"))) return nullptr;
  n.scratch[0] =
      n.has("FTZ") * kFlushInputs | n.has("NAN") * kNanWins | n.has("XORSIGN") * kSignsMultiply | three * kThree;
  return n.scratch[0] ? fmnmx_any : fmnmx;
}

// ---- Comparisons

Mask compared(Warp& w, const Instruction& n, unsigned i) {
  Vector ta, tb;
  const Vector &a = source(w, n, i, ta), &b = source(w, n, i + 1, tb);
  const FloatSign sa(n.operands[i]), sb(n.operands[i + 1]);
  const u64 relation = n.scratch[0] & 15;
  if (n.scratch[0] & 16)
    return compare(
        relation, [&](unsigned l) { return as_float(flushed(sa(a.lane[l]))); },
        [&](unsigned l) { return as_float(flushed(sb(b.lane[l]))); });
  return compare(
      relation, [&](unsigned l) { return as_float(sa(a.lane[l])); },
      [&](unsigned l) { return as_float(sb(b.lane[l])); });
}

void fsetp(Warp& w, const Instruction& n, Mask lanes) {
  lanes = destination_lanes(n, lanes);
  const Mask found = compared(w, n, 2), given = predicate(w, n.operands[4]);
  const Logic logic = static_cast<Logic>(n.scratch[1]);
  set_predicate(w, n.operands[0], lanes, combine(logic, found, given));
  set_predicate(w, n.operands[1], lanes, combine(logic, ~found, given));
}

void fset(Warp& w, const Instruction& n, Mask lanes) {
  const Mask found = combine(static_cast<Logic>(n.scratch[1] & 3), compared(w, n, 1), predicate(w, n.operands[3]));
  const u32 truth = n.scratch[1] & 4 ? 0x3f800000u : ~u32{0};
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) { return is_active(found, l) ? truth : 0; });
}

bool decode_comparison(Instruction& n) {
  if (!has_only(n, {"F",   "LT",  "EQ",  "LE",  "GT", "NE",  "GE",  "NUM", "NAN", "LTU", "EQU",
                    "LEU", "GTU", "NEU", "GEU", "T",  "FTZ", "AND", "OR",  "XOR", "BF"}))
    return false;
  const u64 relation = float_relation(n);
  n.scratch[0] = relation | n.has("FTZ") * 16u;
  n.scratch[1] = static_cast<u64>(logic_of(n)) | n.has("BF") * 4u;
  return relation != kNoRelation;
}

Handler decode_fsetp(Instruction& n) {
  if (n.operands.size() != 5 || predicates_at(n, 0) != 2 || !is_predicate(n.operands[4]) || n.has("BF")) return nullptr;
  return decode_comparison(n) ? fsetp : nullptr;
}

Handler decode_fset(Instruction& n) {
  if (n.operands.size() != 4 || !is_predicate(n.operands[3])) return nullptr;
  return decode_comparison(n) ? fset : nullptr;
}

// ---- FCHK: true if a / b needs the slow path instead of a reciprocal and Newton iterations

// The fast path is exact if 1 / b, the quotient q and the remainder a - q b are normal numbers.
bool needs_slow_path(u32 a, u32 b) {
  const int ea = static_cast<int>(a >> 23 & 255), eb = static_cast<int>(b >> 23 & 255);
  const bool operands = ea == 0 || ea == 255 || eb == 0 || eb >= 253;
  return operands || ea < 25 || ea - eb > 125 || ea - eb < -124;
}

void fchk(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb);
  set_predicate(w, n.operands[0], lanes,
                lanes_where([&](unsigned l) { return needs_slow_path(a.lane[l], b.lane[l]); }));
}

Handler decode_fchk(Instruction& n) {
  return n.operands.size() == 3 && has_only(n, {"DIVIDE"}) && is_predicate(n.operands[0]) ? fchk : nullptr;
}

const Opcode kFadd("FADD", kFma, decode<Sum>), kFmul("FMUL", kFma, decode<Product>), kFfma("FFMA", kFma, decode<Fused>);
const Opcode kFadd2("FADD2", kFma, decode_packed<Sum>), kFmul2("FMUL2", kFma, decode_packed<Product>);
const Opcode kFfma2("FFMA2", kFma, decode_packed<Fused>);
const Opcode kUfadd("UFADD", kUniformPipe, decode<Sum>), kUfmul("UFMUL", kUniformPipe, decode<Product>);
const Opcode kUffma("UFFMA", kUniformPipe, decode<Fused>), kUfmnmx("UFMNMX", kUniformPipe, decode_fmnmx);
const Opcode kFmnmx("FMNMX", kAlu, decode_fmnmx), kFmnmx3("FMNMX3", kAlu, decode_fmnmx);
const Opcode kFsetp("FSETP", kAlu, decode_fsetp), kFset("FSET", kAlu, decode_fset);
const Opcode kUfsetp("UFSETP", kUniformPipe, decode_fsetp), kUfset("UFSET", kUniformPipe, decode_fset);
const Opcode kFchk("FCHK", kXu, decode_fchk);

}  // namespace
}  // namespace ww::machine
