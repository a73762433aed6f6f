// Conversions between floating-point formats: F2F, F2FP, FRND.
#include <cmath>

#include "convert.h"

namespace ww::machine {

u32 encode(const Format& format, double value, Round round, bool finite) {
  const u64 given = as_bits(value);
  const u32 sign = static_cast<u32>(given >> 63) << (format.exponent_bits + format.mantissa_bits);
  if (value != value) return format.nan;
  const double magnitude = std::fabs(value);
  const bool negative = sign != 0;
  const bool away = round == (negative ? Round::kDown : Round::kUp);
  const bool towards_zero = round == Round::kZero || round == (negative ? Round::kUp : Round::kDown);
  const u32 infinity = format.infinities ? format.largest + 1 : format.nan;
  if (std::isinf(magnitude)) return sign | (finite ? format.largest : infinity);
  if (magnitude == 0.0) return sign;
  int exponent = std::ilogb(magnitude);
  const bool subnormal = exponent < 1 - format.bias;
  if (subnormal) exponent = 1 - format.bias;
  const double scaled = std::ldexp(magnitude, format.mantissa_bits - exponent);
  const double whole = away ? std::ceil(scaled) : towards_zero ? std::floor(scaled) : std::nearbyint(scaled);
  const u32 hidden = u32{1} << format.mantissa_bits;
  // A carry out of the mantissa increments the exponent.
  const u64 bits = static_cast<u64>(whole) +
                   (subnormal ? 0 : (static_cast<u64>(exponent + format.bias) << format.mantissa_bits) - hidden);
  if (bits > format.largest) return sign | (finite || towards_zero ? format.largest : infinity);
  return sign | static_cast<u32>(bits);
}

double decode(const Format& format, u32 bits) {
  const u32 fields = (u32{1} << (format.exponent_bits + format.mantissa_bits)) - 1, magnitude = bits & fields;
  const double sign = bits > fields ? -1.0 : 1.0;
  if (magnitude > format.largest) return format.infinities && magnitude == format.largest + 1 ? sign * INFINITY : NAN;
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const u32 mantissa = magnitude & ((u32{1} << format.mantissa_bits) - 1), hidden = u32{1} << format.mantissa_bits;
  const double whole = exponent ? mantissa + hidden : mantissa;
  return sign * std::ldexp(whole, (exponent ? exponent : 1) - format.bias - format.mantissa_bits);
}

bool float_types(const Instruction& n, Type* types, unsigned count) {
  unsigned found = 0;
  for (const std::string& modifier : n.modifiers) {
    const Type type = modifier == "F32"    ? Type::kF32
                      : modifier == "F64"  ? Type::kF64
                      : modifier == "F16"  ? Type::kF16
                      : modifier == "BF16" ? Type::kBf16
                                           : Type::kNone;
    if (type == Type::kNone) continue;
    if (found == count) return false;
    types[found++] = type;
  }
  return true;
}

void load(Warp& w, const Instruction& n, unsigned i, Type type, bool flush, double* to) {
  const Operand& operand = n.operands[i];
  Vector ta, tb;
  const Vector& low = source(w, n, i, ta);
  const FloatSign sign(operand);
  const unsigned by = operand.suffix == "H1" || operand.suffix == "H1_H1" ? 16 : 0;
  if (type == Type::kF64) {
    const Vector& high = source_high(w, n, i, tb);
    for (unsigned l = 0; l < kLanes; l++) to[l] = as_double(low.lane[l] | static_cast<u64>(sign(high.lane[l])) << 32);
    return;
  }
  for (unsigned l = 0; l < kLanes; l++) {
    const u32 half = low.lane[l] >> by & 0xffff;
    u32 bits = type == Type::kF32   ? low.lane[l]
               : type == Type::kF16 ? as_bits(half_to_float(half))
                                    : as_bits(bfloat_to_float(half));
    bits = sign(bits);
    to[l] = as_float(flush && type == Type::kF32 ? flushed(bits) : bits);
  }
}

bool known_suffix(const Operand& operand) {
  const std::string& suffix = operand.suffix;
  return suffix.empty() || suffix == "H0" || suffix == "H1" || suffix == "H0_H0" || suffix == "H1_H1";
}

void store(Warp& w, const Instruction& n, Mask lanes, const double* values, Type type, Round round, bool flush) {
  Vector& low = destination(w, n, 0);
  lanes = destination_lanes(n, lanes);
  if (type == Type::kF64) {
    map_wide(low, destination(w, n, 0, 1), lanes, [&](unsigned l) { return as_bits(values[l]); });
  } else if (type == Type::kF32) {
    float made[kLanes];
    {
      const Rounding rounding(round);
      for (unsigned l = 0; l < kLanes; l++) made[l] = static_cast<float>(values[l]);
      Rounding::keep(made);
    }
    const u32 keep = flush ? 0x80000000u : ~u32{0};
    map(low, lanes, [&](unsigned l) {
      const u32 bits = canonical(made[l]);
      return bits & 0x7f800000u ? bits : bits & keep;
    });
  } else {
    const Format& format = type == Type::kF16 ? kHalf : kBfloat;
    map_active(low, lanes, [&](unsigned l) { return encode(format, values[l], round, false); });
  }
}

namespace {

// ---- F2F and FRND

// scratch[0]: the two types; scratch[1]: rounding mode (2 bits), then flags: flush to zero, saturate to [0, 1], round
// to integer.
enum : u64 { kFlush = 4, kSaturate = 8, kWhole = 16 };

double whole(double value, Round round) {
  switch (round) {
    case Round::kDown:
      return std::floor(value);
    case Round::kUp:
      return std::ceil(value);
    case Round::kZero:
      return std::trunc(value);
    default:
      return std::nearbyint(value);
  }
}

void convert(Warp& w, const Instruction& n, Mask lanes) {
  const Type to = static_cast<Type>(n.scratch[0] & 15), from = static_cast<Type>(n.scratch[0] >> 4);
  const u64 form = n.scratch[1];
  const Round round = static_cast<Round>(form & 3);
  double value[kLanes];
  load(w, n, 1, from, form & kFlush, value);
  if (form & (kWhole | kSaturate)) {
    for_lanes(lanes, [&](unsigned l) {
      const double x = form & kWhole ? whole(value[l], round) : value[l];
      value[l] = !(form & kSaturate) ? x : x > 0.0 ? x < 1.0 ? x : 1.0 : 0.0;
    });
  }
  Rounding::keep(value);
  store(w, n, lanes, value, to, form & kWhole ? Round::kNearest : round, form & kFlush);
}

Handler with_types(Instruction& n, Type to, Type from, u64 form) {
  if (n.operands.size() != 2 || !known_suffix(n.operands[1])) return nullptr;
  if (n.operands[1].kind == Kind::kImmediate && from != Type::kF32) return nullptr;
  n.scratch[0] = static_cast<u64>(to) | static_cast<u64>(from) << 4;
  n.scratch[1] = static_cast<u64>(round_of(n)) | n.has("FTZ") * kFlush | n.has("SAT") * kSaturate | form;
  return convert;
}

Handler decode_f2f(Instruction& n) {
  if (!has_only(n, {"F16", "F32", "F64", "BF16", "FTZ", "SAT", "RN", "RM", "RP", "RZ"})) return nullptr;
  Type types[2] = {Type::kNone, Type::kNone};
  if (!float_types(n, types, 2) || types[1] == Type::kNone) return nullptr;
  return with_types(n, types[0], types[1], 0);
}

Handler decode_frnd(Instruction& n) {
  if (!has_only(n, {"F16", "F32", "F64", "BF16", "FTZ", "FLOOR", "CEIL", "TRUNC", "ROUND"})) return nullptr;
  Type type = Type::kF32;
  return float_types(n, &type, 1) ? with_types(n, type, type, kWhole) : nullptr;
}

// ---- F2FP: packed conversion of two values

enum class Narrow : u64 { kHalf, kBfloat, kE4m3, kE5m2 };

const Format& format_of(Narrow narrow) {
  static const Format* const formats[] = {&kHalf, &kBfloat, &kE4m3, &kE5m2};
  return *formats[static_cast<unsigned>(narrow)];
}

// PACK_AB of floats: a in the upper half, b in the lower. MERGE_C: the two bytes replace the lower half of c.
template <class F>
inline __attribute__((always_inline)) void pack_with(Warp& w, const Instruction& n, Mask lanes, unsigned bits,
                                                     F&& narrowed) {
  Vector ta, tb, tc;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb);
  const Vector& c = bits == 8 ? source(w, n, 3, tc) : kZeroVector;
  const FloatSign sa(n.operands[1]), sb(n.operands[2]);
  const u32 upper = bits == 8 ? ~u32{0} : 0;
  const auto joined = [&](unsigned l, u32 x, u32 y) {
    return narrowed(as_float(x)) << bits | narrowed(as_float(y)) | (c.lane[l] << 16 & upper);
  };
  if (n.scratch[1] & 4)
    map(destination(w, n, 0), lanes,
        [&](unsigned l) { return joined(l, positive(sa(a.lane[l])), positive(sb(b.lane[l]))); });
  else
    map(destination(w, n, 0), lanes, [&](unsigned l) { return joined(l, sa(a.lane[l]), sb(b.lane[l])); });
}

void pack(Warp& w, const Instruction& n, Mask lanes) {
  const Narrow narrow = static_cast<Narrow>(n.scratch[0]);
  const Round round = static_cast<Round>(n.scratch[1] & 3);
  const bool finite = n.scratch[1] & 8, eight = narrow == Narrow::kE4m3 || narrow == Narrow::kE5m2;
  if (round != Round::kNearest || finite != eight) {
    const Format& format = format_of(narrow);
    pack_with(w, n, lanes, eight ? 8 : 16, [&](float x) { return encode(format, x, round, finite); });
  } else if (narrow == Narrow::kBfloat) {
    pack_with(w, n, lanes, 16, [](float x) { return float_to_bfloat(x); });
  } else if (narrow == Narrow::kHalf) {
    pack_with(w, n, lanes, 16, [](float x) { return float_to_half(x); });
  } else if (narrow == Narrow::kE4m3) {
    pack_with(w, n, lanes, 8, [](float x) { return float_to_byte<3, 7, 0x7e>(x); });
  } else {
    pack_with(w, n, lanes, 8, [](float x) { return float_to_byte<2, 15, 0x7b>(x); });
  }
}

// The half or bfloat16 value of each 8-bit pattern.
struct Table {
  u32 of[256];
  Table(const Format& from, const Format& to) {
    for (u32 bits = 0; bits < 256; bits++) of[bits] = encode(to, decode(from, bits), Round::kNearest, false);
  }
};

// Two 8-bit values to two halves.
void unpack(Warp& w, const Instruction& n, Mask lanes) {
  static const Table tables[] = {{kE4m3, kHalf}, {kE5m2, kHalf}, {kE4m3, kBfloat}, {kE5m2, kBfloat}};
  const bool five = static_cast<Narrow>(n.scratch[0]) == Narrow::kE5m2;
  const Table& table = tables[(n.scratch[1] & 1 ? 2 : 0) + five];
  Vector t;
  const Vector& a = source(w, n, 1, t);
  const unsigned from = n.scratch[1] & 2 ? 16 : 0;
  map_active(destination(w, n, 0), lanes, [&](unsigned l) {
    const u32 two = a.lane[l] >> from;
    return table.of[two & 255] | table.of[two >> 8 & 255] << 16;
  });
}

// Two halves to two 8-bit values, in the lower half of c.
void narrow_halves(Warp& w, const Instruction& n, Mask lanes) {
  const Format& format = format_of(static_cast<Narrow>(n.scratch[0]));
  const bool bfloat = n.scratch[1] & 1, finite = n.scratch[1] & 8, relu = n.scratch[1] & 4;
  Vector ta, tc;
  const Vector &a = source(w, n, 1, ta), &c = source(w, n, 2, tc);
  const auto one = [&](u32 half) {
    const double x = bfloat ? bfloat_to_float(half) : half_to_float(half);
    return encode(format, relu && x <= 0.0 ? 0.0 : x, Round::kNearest, finite);
  };
  map_active(destination(w, n, 0), lanes,
             [&](unsigned l) { return one(a.lane[l] & 0xffff) | one(a.lane[l] >> 16) << 8 | c.lane[l] << 16; });
}

Handler decode_f2fp(Instruction& n) {
  if (!has_only(n, {"F16", "BF16", "F32", "E4M3", "E5M2", "PACK_AB", "PACK_AB_MERGE_C", "UNPACK_B", "UNPACK_B_MERGE_C",
                    "SATFINITE", "RELU", "RZ", "RN"}))
    return nullptr;
  const bool eight = n.has("E4M3") || n.has("E5M2");
  const Narrow narrow = n.has("E4M3")   ? Narrow::kE4m3
                        : n.has("E5M2") ? Narrow::kE5m2
                        : n.has("BF16") ? Narrow::kBfloat
                                        : Narrow::kHalf;
  const std::string& suffix = n.operands.size() > 1 ? n.operands[1].suffix : std::string();
  n.scratch[0] = static_cast<u64>(narrow);
  n.scratch[1] = static_cast<u64>(round_of(n)) | n.has("RELU") * 4u | n.has("SATFINITE") * 8u;
  if (n.has("PACK_AB")) return n.operands.size() == 3 && !eight ? pack : nullptr;
  if (n.has("PACK_AB_MERGE_C")) return n.operands.size() == 4 && eight ? pack : nullptr;
  if (n.has("UNPACK_B_MERGE_C")) {
    n.scratch[1] = (n.scratch[1] & ~u64{3}) | n.has("BF16");
    return n.operands.size() == 3 && eight && suffix.empty() ? narrow_halves : nullptr;
  }
  n.scratch[1] = n.has("BF16") | (suffix == "H1" || suffix == "H1_H1") * 2u;
  return n.has("UNPACK_B") && n.operands.size() == 2 && eight && !n.has("RELU") && known_suffix(n.operands[1])
             ? unpack
             : nullptr;
}

const Opcode kF2f("F2F", kXu, decode_f2f), kFrnd("FRND", kXu, decode_frnd), kF2fp("F2FP", kAlu, decode_f2fp);

}  // namespace
}  // namespace ww::machine
