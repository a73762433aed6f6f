// HMMA, QMMA, IMMA, DMMA and BMMA: D = A B + C on fragments spread over a warp.
//
// Fragments are those of PTX mma. With lane l = 4 g + t and e elements per 32-bit register: a register of A holds
// columns t * e ... t * e + e - 1 of row g; consecutive registers alternate between rows g and g + 8, then go to the
// next block of columns. B is the same with rows and columns exchanged. C and D: columns 2 t and 2 t + 1 of rows g and
// g + 8.
#include <algorithm>
#include <cstring>

#include "access.h"
#include "formats.h"

namespace ww::machine {

namespace {

enum class Format : u8 { kF16, kBF16, kTF32, kE4M3, kE5M2, kS8, kU8, kS4, kU4, kB1, kF64 };
enum class Sum : u8 { kF32, kF16, kS32, kXorPopc, kAndPopc, kF64 };

// Decoded form of the instruction, in scratch[1].
struct AddressPattern {
  u8 m, n;
  u16 k;
  Format a, b;
  Sum sum;
  bool saturates;
};
static_assert(sizeof(AddressPattern) == sizeof(u64));
AddressPattern pattern_of(const Instruction& instruction) {
  AddressPattern shape;
  std::memcpy(&shape, &instruction.scratch[1], sizeof shape);
  return shape;
}

constexpr unsigned bits_of(Format format) {
  switch (format) {
    case Format::kF16:
    case Format::kBF16:
      return 16;
    case Format::kTF32:
      return 32;
    case Format::kS4:
    case Format::kU4:
      return 4;
    case Format::kB1:
      return 1;
    case Format::kF64:
      return 64;
    default:
      return 8;
  }
}

struct SmallFloats {
  float e4m3[256], e5m2[256];
  SmallFloats() {
    for (u32 bits = 0; bits < 256; bits++)
      e4m3[bits] = small_to_float(bits, 4, 3, false), e5m2[bits] = small_to_float(bits, 5, 2, true);
  }
};

float value_of(Format format, u32 bits) {
  static const SmallFloats small;
  switch (format) {
    case Format::kF16:
      return half_to_float(bits);
    case Format::kBF16:
      return bfloat_to_float(bits);
    case Format::kTF32:
      return float_of_bits(bits & 0xffffe000);  // TF32 ignores the lower 13 bits
    case Format::kE4M3:
      return small.e4m3[bits];
    default:
      return small.e5m2[bits];
  }
}
i32 integer_of(Format format, u32 bits) {
  switch (format) {
    case Format::kS8:
      return static_cast<int8_t>(bits);
    case Format::kS4:
      return static_cast<i32>(bits << 28) >> 28;
    default:
      return static_cast<i32>(bits);
  }
}

// Calls store(row of A or column of B, k, bits) for each element of a fragment whose outer size is `outer` (8 or 16).
template <class F>
void unpack(const Warp& warp, const Operand& operand, unsigned outer, unsigned k, unsigned bits, F&& store) {
  const unsigned each = 32 / bits;   // elements per register
  const unsigned across = 4 * each;  // columns in the four lanes of a row
  const unsigned halves = outer / 8;
  const u32 ones = bits == 32 ? ~u32{0} : (u32{1} << bits) - 1;
  for (unsigned block = 0; block * across < k; block++)
    for (unsigned half = 0; half < halves; half++) {
      const Vector& from = source_word(warp, operand, block * halves + half);
      for (unsigned l = 0; l < kLanes; l++)
        for (unsigned i = 0; i < each; i++)
          store(half * 8 + l / 4, block * across + l % 4 * each + i, from.lane[l] >> (i * bits) & ones);
    }
}

constexpr unsigned kMaxK = 64;

// Products are exact in double precision and are added in order of k; each sum is rounded to float32, as in the
// emulator. Tensor cores add several products at once, a number that depends on the architecture, and truncate.
void multiply_floats(Warp& warp, const Instruction& instruction, Mask lanes) {
  const AddressPattern shape = pattern_of(instruction);
  double a[16][kMaxK], b[kMaxK][8];
  float d[16][8];
  unpack(warp, instruction.operands[1], shape.m, shape.k, bits_of(shape.a),
         [&](unsigned row, unsigned k, u32 bits) { a[row][k] = value_of(shape.a, bits); });
  unpack(warp, instruction.operands[2], shape.n, shape.k, bits_of(shape.b),
         [&](unsigned column, unsigned k, u32 bits) { b[k][column] = value_of(shape.b, bits); });
  const Operand& c = instruction.operands[3];
  const bool half = shape.sum == Sum::kF16;
  for (unsigned r = 0; r < shape.m / 8; r++)
    for (unsigned l = 0; l < kLanes; l++)
      for (unsigned i = 0; i < 2; i++) {
        const u32 bits =
            half ? source_word(warp, c, r).lane[l] >> (16 * i) & 0xffff : source_word(warp, c, 2 * r + i).lane[l];
        d[r * 8 + l / 4][l % 4 * 2 + i] = half ? half_to_float(bits) : float_of_bits(bits);
      }
  for (unsigned row = 0; row < shape.m; row++)
    for (unsigned k = 0; k < shape.k; k++)
      for (unsigned column = 0; column < 8; column++)
        d[row][column] = static_cast<float>(d[row][column] + a[row][k] * b[k][column]);
  for (unsigned r = 0; r < shape.m / 8; r++)
    for_lanes(lanes, [&](unsigned l) {
      const float* pair = &d[r * 8 + l / 4][l % 4 * 2];
      if (half) {
        destination(warp, instruction, 0, r).lane[l] = float_to_half(pair[0]) | float_to_half(pair[1]) << 16;
      } else {
        destination(warp, instruction, 0, 2 * r).lane[l] = bits_of_float(pair[0]);
        destination(warp, instruction, 0, 2 * r + 1).lane[l] = bits_of_float(pair[1]);
      }
    });
}

void multiply_integers(Warp& warp, const Instruction& instruction, Mask lanes) {
  const AddressPattern shape = pattern_of(instruction);
  i32 a[16][kMaxK], b[kMaxK][8];
  i64 d[16][8];
  unpack(warp, instruction.operands[1], shape.m, shape.k, bits_of(shape.a),
         [&](unsigned row, unsigned k, u32 bits) { a[row][k] = integer_of(shape.a, bits); });
  unpack(warp, instruction.operands[2], shape.n, shape.k, bits_of(shape.b),
         [&](unsigned column, unsigned k, u32 bits) { b[k][column] = integer_of(shape.b, bits); });
  const Operand& c = instruction.operands[3];
  for (unsigned r = 0; r < shape.m / 8; r++)
    for (unsigned l = 0; l < kLanes; l++)
      for (unsigned i = 0; i < 2; i++)
        d[r * 8 + l / 4][l % 4 * 2 + i] = static_cast<i32>(source_word(warp, c, 2 * r + i).lane[l]);
  for (unsigned row = 0; row < shape.m; row++)
    for (unsigned k = 0; k < shape.k; k++)
      for (unsigned column = 0; column < 8; column++) d[row][column] += a[row][k] * b[k][column];
  for (unsigned r = 0; r < shape.m / 8; r++)
    for_lanes(lanes, [&](unsigned l) {
      for (unsigned i = 0; i < 2; i++) {
        i64 value = d[r * 8 + l / 4][l % 4 * 2 + i];
        if (shape.saturates) value = std::clamp<i64>(value, INT32_MIN, INT32_MAX);
        destination(warp, instruction, 0, 2 * r + i).lane[l] = static_cast<u32>(value);
      }
    });
}

// 1-bit elements, a register at a time: popcount of A xor B, or of A and B.
void multiply_bits(Warp& warp, const Instruction& instruction, Mask lanes) {
  const AddressPattern shape = pattern_of(instruction);
  u32 a[16][8], b[8][8];
  const auto words = [&](const Operand& operand, unsigned outer, auto&& store) {
    for (unsigned block = 0; block * 128 < shape.k; block++)
      for (unsigned half = 0; half < outer / 8; half++)
        for (unsigned l = 0; l < kLanes; l++)
          store(half * 8 + l / 4, block * 4 + l % 4, source_word(warp, operand, block * (outer / 8) + half).lane[l]);
  };
  words(instruction.operands[1], shape.m, [&](unsigned row, unsigned word, u32 bits) { a[row][word] = bits; });
  words(instruction.operands[2], shape.n, [&](unsigned column, unsigned word, u32 bits) { b[column][word] = bits; });
  Vector result[4];
  for (unsigned r = 0; r < shape.m / 8; r++)
    for (unsigned l = 0; l < kLanes; l++)
      for (unsigned i = 0; i < 2; i++) {
        u32 sum = source_word(warp, instruction.operands[3], 2 * r + i).lane[l];
        for (unsigned word = 0; word < shape.k / 32u; word++) {
          const u32 left = a[r * 8 + l / 4][word], right = b[l % 4 * 2 + i][word];
          sum += __builtin_popcount(shape.sum == Sum::kXorPopc ? left ^ right : left & right);
        }
        result[2 * r + i].lane[l] = sum;
      }
  for (unsigned word = 0; word < shape.m / 4u; word++) {
    Vector& to = destination(warp, instruction, 0, word);
    for_lanes(lanes, [&](unsigned l) { to.lane[l] = result[word].lane[l]; });
  }
}

// 64-bit elements: lane 4 g + t holds A[g][t + 4 j] and A[g + 8][t + 4 j], B[t + 4 j][g].
void multiply_doubles(Warp& warp, const Instruction& instruction, Mask lanes) {
  const AddressPattern shape = pattern_of(instruction);
  double a[16][16], b[16][8], d[16][8];
  const auto number = [&](const Operand& operand, unsigned i, unsigned l) {
    const u64 bits = source_word(warp, operand, 2 * i).lane[l] | u64{source_word(warp, operand, 2 * i + 1).lane[l]}
                                                                     << 32;
    double value;
    std::memcpy(&value, &bits, 8);
    return value;
  };
  const unsigned halves = shape.m / 8;
  for (unsigned l = 0; l < kLanes; l++) {
    for (unsigned j = 0; j < shape.k / 4u; j++) {
      for (unsigned half = 0; half < halves; half++)
        a[half * 8 + l / 4][l % 4 + 4 * j] = number(instruction.operands[1], j * halves + half, l);
      b[l % 4 + 4 * j][l / 4] = number(instruction.operands[2], j, l);
    }
    for (unsigned r = 0; r < halves; r++)
      for (unsigned i = 0; i < 2; i++) d[r * 8 + l / 4][l % 4 * 2 + i] = number(instruction.operands[3], 2 * r + i, l);
  }
  for (unsigned row = 0; row < shape.m; row++)
    for (unsigned column = 0; column < 8; column++)
      for (unsigned k = 0; k < shape.k; k++) d[row][column] = __builtin_fma(a[row][k], b[k][column], d[row][column]);
  for_lanes(lanes, [&](unsigned l) {
    for (unsigned i = 0; i < 2 * halves; i++) {
      u64 bits;
      std::memcpy(&bits, &d[i / 2 * 8 + l / 4][l % 4 * 2 + i % 2], 8);
      destination(warp, instruction, 0, 2 * i).lane[l] = static_cast<u32>(bits);
      destination(warp, instruction, 0, 2 * i + 1).lane[l] = static_cast<u32>(bits >> 32);
    }
  });
}

constexpr struct {
  const char* name;
  u8 m, n;
  u16 k;
} kShapes[] = {{"1684", 16, 8, 4},     {"1688", 16, 8, 8},     {"16816", 16, 8, 16},  {"16832", 16, 8, 32},
               {"16864", 16, 8, 64},   {"8816", 8, 8, 16},     {"8832", 8, 8, 32},    {"88128", 8, 8, 128},
               {"168128", 16, 8, 128}, {"168256", 16, 8, 256}, {"884", 8, 8, 4},      {"8x8x4", 8, 8, 4},
               {"16x8x4", 16, 8, 4},   {"16x8x8", 16, 8, 8},   {"16x8x16", 16, 8, 16}};
constexpr struct {
  const char* name;
  Format format;
} kFormats[] = {{"BF16", Format::kBF16}, {"TF32", Format::kTF32}, {"E4M3", Format::kE4M3}, {"E5M2", Format::kE5M2},
                {"S8", Format::kS8},     {"U8", Format::kU8},     {"S4", Format::kS4},     {"U4", Format::kU4}};
constexpr struct {
  const char* name;
  Sum sum;
} kSums[] = {{"F32", Sum::kF32}, {"F16", Sum::kF16}, {"XOR", Sum::kXorPopc}, {"AND", Sum::kAndPopc}};

// The formats of A and B follow the shape; a single format is that of both.
Handler decode(Instruction& i, Format format, Sum sum, Handler run) {
  AddressPattern shape{0, 0, 0, format, format, sum, false};
  unsigned formats = 0;
  for (const std::string& modifier : i.modifiers) {
    bool known = modifier == "POPC" || modifier == "SAT";
    for (const auto& each : kShapes)
      if (modifier == each.name) shape.m = each.m, shape.n = each.n, shape.k = each.k, known = true;
    for (const auto& each : kFormats)
      if (modifier == each.name) (formats++ ? shape.b : shape.a) = each.format, known = true;
    for (const auto& each : kSums)
      if (modifier == each.name) shape.sum = each.sum, known = true;
    if (!known) return nullptr;
  }
  if (formats == 1) shape.b = shape.a;
  if (shape.m == 0 || i.operands.size() != 4) return nullptr;
  for (const Operand& operand : i.operands)
    if (operand.kind != Kind::kRegister || operand.negated) return nullptr;
  if (run == multiply_floats && shape.m != 16) return nullptr;  // HMMA.884 has other fragment layouts
  shape.saturates = i.has("SAT");
  std::memcpy(&i.scratch[1], &shape, sizeof shape);
  return run;
}

constexpr const char* kDifference = "products are exact; sums are rounded, where the hardware truncates the terms";
Opcode HMMA_opcode(
    "HMMA", kTensor, [](Instruction& i) { return decode(i, Format::kF16, Sum::kF32, multiply_floats); }, kDifference);
Opcode QMMA_opcode(
    "QMMA", kTensor, [](Instruction& i) { return decode(i, Format::kE4M3, Sum::kF32, multiply_floats); }, kDifference);
Opcode IMMA_opcode("IMMA", kTensor,
                   [](Instruction& i) { return decode(i, Format::kS8, Sum::kS32, multiply_integers); });
Opcode BMMA_opcode("BMMA", kTensor,
                   [](Instruction& i) { return decode(i, Format::kB1, Sum::kXorPopc, multiply_bits); });
Opcode DMMA_opcode(
    "DMMA", kTensor, [](Instruction& i) { return decode(i, Format::kF64, Sum::kF64, multiply_doubles); },
    "the order of the additions may differ");

}  // namespace

}  // namespace ww::machine
