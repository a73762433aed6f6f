// Packed half2 and bfloat162 (.BF16_V2) arithmetic: HADD2, HMUL2, HFMA2, HMNMX2, HSET2, HSETP2.
#include "narrow.h"

namespace ww::machine {
namespace {

// ---- Operands

// The half of the register and the sign that an operand's suffix selects for the lower [0] and upper [1] half.
struct Swizzle {
  bool upper[2] = {false, true}, negated[2] = {false, false};
};

// The suffix names the upper half first: "H1_H0" (the default), "H0_H0", "H0_NH1" ...
bool parse(const std::string& suffix, Swizzle& swizzle) {
  size_t at = 0;
  for (unsigned k = 2; k-- > 0 && !suffix.empty();) {
    if (!k && (at >= suffix.size() || suffix[at++] != '_')) return false;
    swizzle.negated[k] = at < suffix.size() && suffix[at] == 'N';
    at += swizzle.negated[k];
    if (at + 1 >= suffix.size() || suffix[at] != 'H' || (suffix[at + 1] != '0' && suffix[at + 1] != '1')) return false;
    swizzle.upper[k] = suffix[at + 1] == '1';
    at += 2;
  }
  return suffix.empty() || at == suffix.size();
}

// scratch[0]: a byte per operand (bits upper[0], upper[1], negated[0], negated[1], is a float R5.F32); scratch[1]:
// flags.
enum : u64 {
  kBfloat16 = 1,
  kFlush = 2,
  kSaturate = 4,
  kRelu = 8,
  kSingle = 16,
  kPropagateNan = 32,
  kXorSign = 64,
  kOnes = 128
};

// A packed immediate is printed as two immediates, upper half first: joins them to one 32-bit immediate.
bool join_immediates(Instruction& n) {
  const bool bfloat = n.scratch[1] & kBfloat16;
  for (unsigned i = 0; i < n.operands.size(); i++) {
    if (n.operands[i].kind != Kind::kImmediate) continue;
    if (i + 1 >= n.operands.size() || n.operands[i + 1].kind != Kind::kImmediate) return false;
    u32 halves[2];
    for (unsigned k = 0; k < 2; k++) {
      const float value = as_float(static_cast<u32>(n.operands[i + k].value));
      halves[k] = bfloat ? float_to_bfloat(value) : float_to_half(value);
    }
    Operand& joined = n.operands[i];
    joined.value = halves[0] << 16 | halves[1];
    for (unsigned l = 0; l < kLanes; l++) joined.broadcast.lane[l] = static_cast<u32>(joined.value);
    n.operands.erase(n.operands.begin() + i + 1);
  }
  return true;
}

bool decode_operands(Instruction& n, unsigned first, unsigned count) {
  n.scratch[1] = n.has("BF16_V2") * kBfloat16 | n.has("FTZ") * kFlush | n.has("SAT") * kSaturate |
                 n.has("RELU") * kRelu | n.has("F32") * kSingle | n.has("NAN") * kPropagateNan |
                 n.has("XORSIGN") * kXorSign | n.has("BF") * kOnes;
  n.scratch[0] = 0;
  if (!join_immediates(n) || n.operands.size() < first + count) return false;
  for (unsigned i = first; i < first + count; i++) {
    Swizzle swizzle;
    const bool single = n.operands[i].suffix == "F32";
    if (!single && !parse(n.operands[i].suffix, swizzle)) return false;
    const u64 byte = swizzle.upper[0] * 1u | swizzle.upper[1] * 2u | swizzle.negated[0] * 4u | swizzle.negated[1] * 8u |
                     single * 16u;
    n.scratch[0] |= byte << (8 * i);
  }
  return true;
}

struct Floats {
  float lane[kLanes];
};

u32 flushed_half(u32 bits, u32 exponent) { return choose((bits & exponent) != 0, bits, bits & 0x8000); }

// The lower (half = 0) or upper halves of source i, with signs applied.
void load(Warp& w, const Instruction& n, unsigned i, unsigned half, Floats& to) {
  Vector t;
  const Vector& a = source(w, n, i, t);
  const Operand& operand = n.operands[i];
  const u64 byte = n.scratch[0] >> (8 * i);
  if (byte & 16) {
    // Truncation to half: on sm_75 this is the only conversion that rounds toward zero.
    const FloatSign sign(operand);
    for (unsigned l = 0; l < kLanes; l++)
      to.lane[l] = half_to_float(encode(kHalf, as_float(sign(a.lane[l])), Round::kZero, false));
    return;
  }
  const unsigned by = byte >> half & 1 ? 16 : 0;
  const u32 keep = operand.absolute ? 0x7fff : 0xffff;
  const u32 flip = operand.negated != static_cast<bool>(byte >> (2 + half) & 1) ? 0x8000 : 0;
  const bool bfloat = n.scratch[1] & kBfloat16;
  const u32 exponent = n.scratch[1] & kFlush ? bfloat ? 0x7f80 : 0x7c00 : 0xffff;
  if (bfloat) {
    for (unsigned l = 0; l < kLanes; l++)
      to.lane[l] = bfloat_to_float(flushed_half(((a.lane[l] >> by) & keep) ^ flip, exponent));
  } else {
    for (unsigned l = 0; l < kLanes; l++)
      to.lane[l] = half_to_float(flushed_half(((a.lane[l] >> by) & keep) ^ flip, exponent));
  }
}

u32 store_one(float value, u64 form) {
  float clamped = form & kSaturate ? saturated(value) : value;
  if (form & kRelu) clamped = as_float(positive(as_bits(clamped)));
  const bool bfloat = form & kBfloat16;
  const u32 bits = bfloat ? float_to_bfloat(clamped) : float_to_half(clamped);
  return flushed_half(bits, form & kFlush ? bfloat ? 0x7f80 : 0x7c00 : 0xffff);
}

// ---- Arithmetic: computed in single precision with rounding to odd, then rounded to the format

struct Sum {
  static constexpr unsigned kSources = 2;
  static float of(float a, float b, float) {
    const float sum = a + b;
    return to_odd(sum, error_of_sum(a, b, sum));
  }
  static float wide(float a, float b, float c) { return of(a, b, c); }
};

struct Product {
  static constexpr unsigned kSources = 2;
  static float of(float a, float b, float) { return a * b; }  // exact: 22 bits
  static float wide(float a, float b, float) { return narrowed_to_odd(static_cast<double>(a) * b); }
};

struct Fused {
  static constexpr unsigned kSources = 3;
  static float of(float a, float b, float c) { return Sum::of(a * b, c, 0.0f); }
  // A product of bfloat16 values can overflow or underflow single precision.
  static float wide(float a, float b, float c) {
    const double product = static_cast<double>(a) * b, addend = c, sum = product + addend;
    return narrowed_to_odd(to_odd(sum, error_of_sum(product, addend, sum)));
  }
};

template <class Operation, bool kBfloat>
void arithmetic(Warp& w, const Instruction& n, Mask lanes) {
  const u64 form = n.scratch[1];
  Vector made = kZeroVector;
  for (unsigned half = 0; half < 2; half++) {
    Floats a, b, c = {};
    load(w, n, 1, half, a);
    load(w, n, 2, half, b);
    if (Operation::kSources == 3) load(w, n, 3, half, c);
    Floats value;
    for (unsigned l = 0; l < kLanes; l++)
      value.lane[l] =
          kBfloat ? Operation::wide(a.lane[l], b.lane[l], c.lane[l]) : Operation::of(a.lane[l], b.lane[l], c.lane[l]);
    if (form & (kSaturate | kRelu | kFlush)) {
      for (unsigned l = 0; l < kLanes; l++) made.lane[l] |= store_one(value.lane[l], form) << (16 * half);
    } else {
      for (unsigned l = 0; l < kLanes; l++)
        made.lane[l] |= (kBfloat ? float_to_bfloat(value.lane[l]) : float_to_half(value.lane[l])) << (16 * half);
    }
  }
  blend(destination(w, n, 0), made, destination_lanes(n, lanes));
}

// HADD2.F32: half to float conversion.
void sum_to_float(Warp& w, const Instruction& n, Mask lanes) {
  Floats a, b;
  load(w, n, 1, 0, a);
  load(w, n, 2, 0, b);
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) { return canonical(a.lane[l] + b.lane[l]); });
}

// HFMA2 R0, -RZ, RZ, 1.875, 0 loads a constant.
void constant(Warp& w, const Instruction& n, Mask lanes) {
  Vector t;
  blend(destination(w, n, 0), source(w, n, 3, t), destination_lanes(n, lanes));
}

bool is_zero(const Operand& operand) { return operand.kind == Kind::kRegister && operand.index == kRegisterZero; }

template <class Operation>
Handler decode(Instruction& n) {
  if (!has_only(n, {"MMA", "BF16_V2", "FTZ", "SAT", "RELU", "F32"})) return nullptr;
  if (!decode_operands(n, 1, Operation::kSources) || n.operands.size() != Operation::kSources + 1) return nullptr;
  if (n.has("MMA")) n.pipe = kTensor;  // on an H200 counted in sm__inst_executed_pipe_tensor
  if (n.has("F32")) return n.opcode == "HADD2" && !n.has("SAT") && !n.has("RELU") ? sum_to_float : nullptr;
  if (Operation::kSources == 3 && is_zero(n.operands[1]) && is_zero(n.operands[2]) &&
      n.operands[1].negated != n.operands[2].negated && n.operands[3].kind == Kind::kImmediate && !n.has("FTZ") &&
      !n.has("SAT") && !n.has("RELU"))
    return constant;
  return n.has("BF16_V2") ? arithmetic<Operation, true> : arithmetic<Operation, false>;
}

// ---- Minimum if the last operand (a predicate) is true, else maximum

void hmnmx2(Warp& w, const Instruction& n, Mask lanes) {
  const u64 form = n.scratch[1];
  const Mask smallest = predicate(w, n.operands[3]);
  // Shifted to the upper half of a word, halves have the same order of bits as floats.
  const u32 exponent = form & kBfloat16 ? 0x7f800000u : 0x7c000000u, keep = form & kFlush ? 0x80000000u : ~u32{0};
  const u32 strict = form & kPropagateNan ? 1 : 0, signs = form & kXorSign ? 0x80000000u : 0;
  Vector ta, tb, made = kZeroVector;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb);
  const FloatSign sa(n.operands[1]), sb(n.operands[2]);
  const auto nan = [exponent](u32 bits) { return static_cast<u32>((bits & 0x7fffffffu) > exponent); };
  const auto flushing = [=](u32 bits) { return choose((bits & exponent) != 0, bits, bits & keep); };
  for (unsigned half = 0; half < 2; half++) {
    const unsigned up_a = n.scratch[0] >> (8 + half) & 1 ? 0 : 16, up_b = n.scratch[0] >> (16 + half) & 1 ? 0 : 16;
    for (unsigned l = 0; l < kLanes; l++) {
      const u32 flip = (~smallest >> l) << 31, p = a.lane[l] << up_a & 0xffff0000u, q = b.lane[l] << up_b & 0xffff0000u;
      const u32 x = flushing(sa(p)) ^ flip, y = flushing(sb(q)) ^ flip;
      const u32 number = choose(nan(x) != 0, y, choose(nan(y) != 0, x, choose(order(x) < order(y), x, y)));
      const u32 bad = nan(number) | (strict & (nan(x) | nan(y)));
      const u32 value = choose(bad != 0, kHalfNan << 16, number ^ flip ^ ((p ^ q) & signs));
      made.lane[l] |= value >> 16 << (16 * half);
    }
  }
  blend(destination(w, n, 0), made, lanes);
}

Handler decode_hmnmx2(Instruction& n) {
  if (!has_only(n, {"BF16_V2", "FTZ", "NAN", "XORSIGN"}) || !decode_operands(n, 1, 2)) return nullptr;
  return n.operands.size() == 4 && is_predicate(n.operands[3]) ? hmnmx2 : nullptr;
}

// ---- Comparisons

Mask compared(Warp& w, const Instruction& n, unsigned i, unsigned half) {
  Floats a, b;
  load(w, n, i, half, a);
  load(w, n, i + 1, half, b);
  return compare(
      n.scratch[1] >> 8 & 0xff, [&](unsigned l) { return a.lane[l]; }, [&](unsigned l) { return b.lane[l]; });
}

void hset2(Warp& w, const Instruction& n, Mask lanes) {
  const u64 form = n.scratch[1];
  const u32 truth = form & kOnes ? form & kBfloat16 ? 0x3f80 : 0x3c00 : 0xffff;
  const Mask given = predicate(w, n.operands[3]);
  const Logic logic = static_cast<Logic>(n.scratch[1] >> 32);
  const Mask low = combine(logic, compared(w, n, 1, 0), given), high = combine(logic, compared(w, n, 1, 1), given);
  map(destination(w, n, 0), lanes,
      [&](unsigned l) { return (is_active(low, l) ? truth : 0) | (is_active(high, l) ? truth << 16 : 0); });
}

void hsetp2(Warp& w, const Instruction& n, Mask lanes) {
  const Mask given = predicate(w, n.operands[4]);
  const Logic logic = static_cast<Logic>(n.scratch[1] >> 32);
  const Mask low = compared(w, n, 2, 0), high = compared(w, n, 2, 1);
  set_predicate(w, n.operands[0], lanes, combine(logic, low, given));
  set_predicate(w, n.operands[1], lanes, combine(logic, high, given));
}

bool decode_comparison(Instruction& n, unsigned first) {
  if (!has_only(n, {"F",   "LT",  "EQ",  "LE",  "GT", "NE",      "GE",  "NUM", "NAN", "LTU", "EQU",
                    "LEU", "GTU", "NEU", "GEU", "T",  "BF16_V2", "FTZ", "AND", "OR",  "XOR", "BF"}))
    return false;
  const u64 relation = float_relation(n);
  if (relation == kNoRelation || !decode_operands(n, first, 2)) return false;
  n.scratch[1] |= relation << 8 | static_cast<u64>(logic_of(n)) << 32;
  return n.operands.size() == first + 3 && is_predicate(n.operands[first + 2]);
}

Handler decode_hset2(Instruction& n) { return decode_comparison(n, 1) ? hset2 : nullptr; }
Handler decode_hsetp2(Instruction& n) {
  return predicates_at(n, 0) == 2 && decode_comparison(n, 2) && !n.has("BF") ? hsetp2 : nullptr;
}

const Opcode kHadd2("HADD2", kFp16, decode<Sum>), kHmul2("HMUL2", kFp16, decode<Product>);
const Opcode kHfma2("HFMA2", kFp16, decode<Fused>), kHmnmx2("HMNMX2", kAlu, decode_hmnmx2);
const Opcode kHset2("HSET2", kFp16, decode_hset2), kHsetp2("HSETP2", kFp16, decode_hsetp2);

}  // namespace
}  // namespace ww::machine
