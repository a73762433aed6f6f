// Conversions from and to integers: I2F, I2FP, F2I, I2I, I2IP, F2IP.
#include <cmath>

#include "convert.h"

namespace ww::machine {
namespace {

struct Integer {
  unsigned bits;
  bool is_signed;
};

// The integer type among the modifiers; default: signed 32 bits.
Integer integer_of(const Instruction& n) {
  static const struct {
    const char* name;
    Integer type;
  } known[] = {{"S8", {8, true}},    {"U8", {8, false}},  {"S16", {16, true}}, {"U16", {16, false}},
               {"U32", {32, false}}, {"S64", {64, true}}, {"U64", {64, false}}};
  for (const auto& each : known)
    if (n.has(each.name)) return each.type;
  return {32, true};
}

u64 packed(Integer type) { return type.bits | type.is_signed * 256u; }
Integer unpacked(u64 word) { return {static_cast<unsigned>(word & 255), (word & 256) != 0}; }

// Bit offset of a sub-register operand: R5.B2, R5.H1.
bool bit_offset_of(const Operand& operand, unsigned& by) {
  const std::string& suffix = operand.suffix;
  by = 0;
  if (suffix.empty()) return true;
  if (suffix.size() != 2 || (suffix[0] != 'B' && suffix[0] != 'H') || suffix[1] < '0' || suffix[1] > '3') return false;
  by = (suffix[0] == 'B' ? 8u : 16u) * static_cast<unsigned>(suffix[1] - '0');
  return by < 32;
}

i64 field(u64 word, unsigned by, Integer type) {
  if (type.bits == 64) return static_cast<i64>(word);
  const u64 high = word >> by << (64 - type.bits);
  return type.is_signed ? static_cast<i64>(high) >> (64 - type.bits) : static_cast<i64>(high >> (64 - type.bits));
}

// ---- I2F. scratch[0]: integer type and bit offset; scratch[1]: float type and rounding mode

void word_to_float(Warp& w, const Instruction& n, Mask lanes) {
  Vector t;
  const Vector& a = source(w, n, 1, t);
  const bool is_signed = unpacked(n.scratch[0]).is_signed;
  if (is_signed)
    map(destination(w, n, 0), destination_lanes(n, lanes),
        [&](unsigned l) { return as_bits(static_cast<float>(static_cast<i32>(a.lane[l]))); });
  else
    map(destination(w, n, 0), destination_lanes(n, lanes),
        [&](unsigned l) { return as_bits(static_cast<float>(a.lane[l])); });
}

// 64-bit integer to double, rounded to odd, so that the second rounding to a narrower format is exact.
double to_odd(i64 value, bool is_signed) {
  const bool negative = is_signed && value < 0;
  u64 magnitude = negative ? -static_cast<u64>(value) : static_cast<u64>(value);
  if (magnitude >> 53) magnitude = (magnitude & ~u64{0x7ff}) | ((magnitude & 0x7ff) != 0) * u64{0x800};
  const double exact = static_cast<double>(magnitude);
  return negative ? -exact : exact;
}

void i2f(Warp& w, const Instruction& n, Mask lanes) {
  const Integer type = unpacked(n.scratch[0]);
  const unsigned by = static_cast<unsigned>(n.scratch[0] >> 16);
  const Type to = static_cast<Type>(n.scratch[1] & 255);
  const Round round = static_cast<Round>(n.scratch[1] >> 8);
  const Operand& operand = n.operands[1];
  Vector ta, tb;
  const Vector& low = source(w, n, 1, ta);
  const Vector& high = type.bits == 64 ? source_high(w, n, 1, tb) : kZeroVector;
  const bool is_signed = type.is_signed || type.bits < 64;
  double made[kLanes];
  {
    const Rounding rounding(to == Type::kF64 ? round : Round::kNearest);
    for (unsigned l = 0; l < kLanes; l++) {
      i64 value = field(pair(low, high, l), by, type);
      if (operand.absolute && value < 0) value = -value;
      if (operand.negated) value = -value;
      if (type.bits < 64)
        made[l] = static_cast<double>(value);
      else if (to != Type::kF64)
        made[l] = to_odd(value, is_signed);
      else
        made[l] = is_signed ? static_cast<double>(value) : static_cast<double>(static_cast<u64>(value));
    }
    Rounding::keep(made);
  }
  store(w, n, lanes, made, to, round, false);
}

Handler decode_i2f(Instruction& n) {
  if (!has_only(n, {"S8", "U8", "S16", "U16", "S32", "U32", "S64", "U64", "F16", "F32", "F64", "BF16", "RN", "RM", "RP",
                    "RZ"}))
    return nullptr;
  Type to = Type::kF32;
  unsigned by;
  if (n.operands.size() != 2 || !float_types(n, &to, 1) || !bit_offset_of(n.operands[1], by)) return nullptr;
  const Integer from = integer_of(n);
  const Round round = round_of(n);
  n.scratch[0] = packed(from) | static_cast<u64>(by) << 16;
  n.scratch[1] = static_cast<u64>(to) | static_cast<u64>(round) << 8;
  const bool plain = !n.operands[1].negated && !n.operands[1].absolute && by == 0;
  return from.bits == 32 && to == Type::kF32 && round == Round::kNearest && plain ? word_to_float : i2f;
}

// ---- F2I: saturating; NaN converts to 0 with .NTZ, otherwise to the value with only the sign bit set

u64 to_integer(double value, Integer type, Round round, bool nan_to_zero) {
  if (value != value) return nan_to_zero ? 0 : u64{1} << (type.bits - 1);
  const double whole = round == Round::kDown   ? std::floor(value)
                       : round == Round::kUp   ? std::ceil(value)
                       : round == Round::kZero ? std::trunc(value)
                                               : std::nearbyint(value);
  const int bits = static_cast<int>(type.bits) - type.is_signed;
  const double limit = std::ldexp(1.0, bits);
  const u64 largest = ~u64{0} >> (64 - bits);
  if (whole >= limit) return largest;
  if (!type.is_signed) return whole <= 0.0 ? 0 : static_cast<u64>(whole);
  return whole < -limit ? ~largest : static_cast<u64>(static_cast<i64>(whole));
}

enum : u64 { kFlush = 4, kNanToZero = 8 };

// to_integer for 32 bits, as a loop that vectorises.
void to_words(const double* values, u32* made, bool is_signed, Round round, bool nan_to_zero) {
  double whole[kLanes];
  for (unsigned l = 0; l < kLanes; l++)
    whole[l] = round == Round::kDown   ? __builtin_floor(values[l])
               : round == Round::kUp   ? __builtin_ceil(values[l])
               : round == Round::kZero ? __builtin_trunc(values[l])
                                       : __builtin_nearbyint(values[l]);
  const double low = is_signed ? -2147483648.0 : 0.0, high = is_signed ? 2147483647.0 : 4294967295.0;
  const u32 nan = nan_to_zero ? 0 : 0x80000000u;
  for (unsigned l = 0; l < kLanes; l++) {
    const double above = whole[l] > low ? whole[l] : low, bounded = above < high ? above : high;  // NaN: low
    const double moved = is_signed ? bounded : bounded - 2147483648.0;
    const u32 bits = static_cast<u32>(static_cast<i32>(moved)) ^ (is_signed ? 0 : 0x80000000u);
    made[l] = values[l] != values[l] ? nan : bits;
  }
}

void f2i(Warp& w, const Instruction& n, Mask lanes) {
  const Integer type = unpacked(n.scratch[0]);
  const Type from = static_cast<Type>(n.scratch[1] >> 8);
  const Round round = static_cast<Round>(n.scratch[1] & 3);
  const bool nan_to_zero = n.scratch[1] & kNanToZero;
  lanes = destination_lanes(n, lanes);
  double value[kLanes];
  load(w, n, 1, from, n.scratch[1] & kFlush, value);
  if (type.bits == 32) {
    Vector words;
    to_words(value, words.lane, type.is_signed, round, nan_to_zero);
    blend(destination(w, n, 0), words, destination_lanes(n, lanes));
    return;
  }
  u64 made[kLanes] = {};
  for_lanes(lanes, [&](unsigned l) { made[l] = to_integer(value[l], type, round, nan_to_zero); });
  if (type.bits == 64)
    map_wide(destination(w, n, 0), destination(w, n, 0, 1), lanes, [&](unsigned l) { return made[l]; });
  else
    map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) { return static_cast<u32>(made[l]); });
}

Handler decode_f2i(Instruction& n) {
  if (!has_only(n, {"S8", "U8", "S16", "U16", "S32", "U32", "S64", "U64", "F16", "F32", "F64", "BF16", "FTZ", "NTZ",
                    "FLOOR", "CEIL", "TRUNC", "ROUND"}))
    return nullptr;
  Type from = Type::kF32;
  if (n.operands.size() != 2 || !float_types(n, &from, 1) || !known_suffix(n.operands[1])) return nullptr;
  if (n.operands[1].kind == Kind::kImmediate && from != Type::kF32) return nullptr;
  n.scratch[0] = packed(integer_of(n));
  n.scratch[1] =
      static_cast<u64>(round_of(n)) | n.has("FTZ") * kFlush | n.has("NTZ") * kNanToZero | static_cast<u64>(from) << 8;
  return f2i;
}

// ---- I2I, and packed conversion of two integers: saturating

i64 clamped(i64 value, Integer type) {
  const i64 least = type.is_signed ? -(i64{1} << (type.bits - 1)) : 0;
  const i64 most = (i64{1} << (type.bits - type.is_signed)) - 1;
  return value < least ? least : value > most ? most : value;
}

bool named(const std::string& name, Integer& type) {
  if (name.size() < 2 || (name[0] != 'S' && name[0] != 'U')) return false;
  const std::string digits = name.substr(1);
  type.is_signed = name[0] == 'S';
  type.bits = digits == "8" ? 8 : digits == "16" ? 16 : digits == "32" ? 32 : 0;
  return type.bits != 0;
}

void i2i(Warp& w, const Instruction& n, Mask lanes) {
  const Integer to = unpacked(n.scratch[0]), from = unpacked(n.scratch[1]);
  Vector t;
  const Vector& a = source(w, n, 1, t);
  map_active(destination(w, n, 0), lanes,
             [&](unsigned l) { return static_cast<u32>(clamped(field(a.lane[l], 0, from), to)); });
}

// Result: the lower part of c, then b, then a, from the most significant bits.
void i2ip(Warp& w, const Instruction& n, Mask lanes) {
  const Integer to = unpacked(n.scratch[0]), from = unpacked(n.scratch[1]);
  Vector ta, tb, tc;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb), &c = source(w, n, 3, tc);
  const u32 mask = (u32{1} << to.bits) - 1;
  map_active(destination(w, n, 0), lanes, [&](unsigned l) {
    const u32 above = static_cast<u32>(clamped(field(a.lane[l], 0, from), to)) & mask;
    const u32 below = static_cast<u32>(clamped(field(b.lane[l], 0, from), to)) & mask;
    const u32 two = above << to.bits | below;
    return to.bits == 16 ? two : two | c.lane[l] << 16;
  });
}

Handler decode_i2i(Instruction& n) {
  const bool pack = n.opcode == "I2IP";
  Integer to{}, from{};
  if (n.operands.size() != (pack ? 4 : 2) || n.modifiers.size() != 3 || n.modifiers[2] != "SAT") return nullptr;
  if (!named(n.modifiers[0], to) || !named(n.modifiers[1], from)) return nullptr;
  for (const Operand& operand : n.operands)
    if (!operand.suffix.empty() || operand.negated || operand.absolute) return nullptr;
  if (pack && to.bits == 32) return nullptr;
  n.scratch[0] = packed(to);
  n.scratch[1] = packed(from);
  return pack ? i2ip : i2i;
}

// F2IP: two floats to two bytes, in the lower half of c.
void f2ip(Warp& w, const Instruction& n, Mask lanes) {
  const Integer to = unpacked(n.scratch[0]);
  const Round round = static_cast<Round>(n.scratch[1] & 3);
  const bool nan_to_zero = n.scratch[1] & kNanToZero;
  double a[kLanes], b[kLanes];
  load(w, n, 1, Type::kF32, n.scratch[1] & kFlush, a);
  load(w, n, 2, Type::kF32, n.scratch[1] & kFlush, b);
  Vector tc;
  const Vector& c = source(w, n, 3, tc);
  map_active(destination(w, n, 0), lanes, [&](unsigned l) {
    const u32 above = static_cast<u32>(to_integer(a[l], to, round, nan_to_zero)) & 255;
    const u32 below = static_cast<u32>(to_integer(b[l], to, round, nan_to_zero)) & 255;
    return above << 8 | below | c.lane[l] << 16;
  });
}

Handler decode_f2ip(Instruction& n) {
  if (!has_only(n, {"U8", "S8", "F32", "NTZ", "FTZ", "TRUNC", "FLOOR", "CEIL"}) || n.operands.size() != 4)
    return nullptr;
  if (!n.has("U8") && !n.has("S8")) return nullptr;
  for (const Operand& operand : n.operands)
    if (!operand.suffix.empty()) return nullptr;
  n.scratch[0] = packed(integer_of(n));
  n.scratch[1] = static_cast<u64>(round_of(n)) | n.has("FTZ") * kFlush | n.has("NTZ") * kNanToZero;
  return f2ip;
}

const Opcode kI2f("I2F", kXu, decode_i2f), kI2fp("I2FP", kAlu, decode_i2f), kF2i("F2I", kXu, decode_f2i);
const Opcode kUi2f("UI2F", kUniformPipe, decode_i2f), kUi2fp("UI2FP", kUniformPipe, decode_i2f),
    kUf2i("UF2I", kUniformPipe, decode_f2i);
const Opcode kI2i("I2I", kXu, decode_i2i), kI2ip("I2IP", kAlu, decode_i2i), kF2ip("F2IP", kAlu, decode_f2ip);

}  // namespace
}  // namespace ww::machine
