// HGMMA, QGMMA and IGMMA (wgmma): D = A B + C by a warpgroup of four warps; each warp computes 16 of the 64 rows.
//
// B, and A unless it is in registers, are in shared memory, given by a matrix descriptor: address, two strides and the
// swizzle mode. A tile consists of core matrices of 8 rows x 16 bytes; a swizzle permutes the 16-byte units of each 32,
// 64 or 128 bytes by the row. Source: PTX ISA, "Asynchronous warpgroup level matrix instructions".
#include <cstdio>
#include <cstring>

#include "access.h"
#include "formats.h"

namespace ww::machine {

namespace {

enum class Element : u8 { kF16, kBF16, kTF32, kE4M3, kE5M2, kS8, kU8 };
enum class Total : u8 { kF32, kF16, kS32 };

// Decoded form of the instruction, in scratch[1].
struct Form {
  u8 columns_by_8, k;
  Element a, b;
  Total total;
  bool a_in_registers;
  u8 predicate;  // index of the scale-d predicate (adds C if true), or 0
};
Form form_of(const Instruction& instruction) {
  Form form;
  std::memcpy(&form, &instruction.scratch[1], sizeof form);
  return form;
}

constexpr unsigned bytes_of(Element element) {
  return element == Element::kTF32 ? 4 : element == Element::kF16 || element == Element::kBF16 ? 2 : 1;
}

double value_of(Element element, u32 bits) {
  switch (element) {
    case Element::kF16:
      return half_to_float(bits);
    case Element::kBF16:
      return bfloat_to_float(bits);
    case Element::kTF32:
      return float_of_bits(bits & 0xffffe000);  // TF32 ignores the lower 13 bits
    case Element::kE4M3:
      return small_to_float(bits, 4, 3, false);
    case Element::kE5M2:
      return small_to_float(bits, 5, 2, true);
    case Element::kS8:
      return static_cast<int8_t>(bits);
    default:
      return bits;
  }
}

// A matrix in shared memory: element (outer, k), where `outer` is a row of A or a column of B.
class Tile {
 public:
  Tile(u64 descriptor, unsigned element_bytes, bool transposed)
      : start_(static_cast<u32>(descriptor & 0x3fff) << 4),
        leading_(static_cast<u32>(descriptor >> 16 & 0x3fff) << 4),
        stride_(static_cast<u32>(descriptor >> 32 & 0x3fff) << 4),
        layout_(static_cast<unsigned>(descriptor >> 62)),
        row_bytes_(layout_ ? 256u >> layout_ : 16u),
        element_bytes_(element_bytes),
        transposed_(transposed) {}

  u32 address(unsigned outer, unsigned k) const {
    u32 at = start_;
    if (!transposed_) {
      const u32 k_bytes = k * element_bytes_;
      at += outer / 8 * stride_ + outer % 8 * row_bytes_;
      at += layout_ ? k_bytes : k_bytes / 16 * leading_ + k_bytes % 16;
    } else {
      const u32 outer_bytes = outer * element_bytes_;
      at += k % 8 * row_bytes_ + outer_bytes % row_bytes_;
      at += layout_ ? outer_bytes / row_bytes_ * leading_ + k / 8 * stride_
                    : outer_bytes / row_bytes_ * stride_ + k / 8 * leading_;
    }
    const u32 mask = layout_ ? (8u >> (layout_ - 1)) - 1 : 0;  // of 8, 4 or 2 units of 16 bytes
    return at ^ (at >> 7 & mask) << 4;
  }

 private:
  u32 start_, leading_, stride_;
  unsigned layout_;  // 0: no swizzle, 1: 128 bytes, 2: 64, 3: 32
  u32 row_bytes_;
  unsigned element_bytes_;
  bool transposed_;
};

u64 read_descriptor(const Warp& warp, unsigned index) {
  return warp.uniforms[index].lane[0] | u64{warp.uniforms[index + 1].lane[0]} << 32;
}

u32 element_bits(const Warp& warp, const Instruction& instruction, u32 address, unsigned bytes) {
  u32 bits = 0;
  std::memcpy(&bits, shared_memory(address, bytes, warp, instruction), bytes);
  return bits;
}

constexpr unsigned kMostK = 32, kMostColumns = 256;

void multiply(Warp& warp, const Instruction& instruction, Mask lanes) {
  const Form form = form_of(instruction);
  const unsigned columns = form.columns_by_8 * 8u, a_bytes = bytes_of(form.a), b_bytes = bytes_of(form.b);
  double a[16][kMostK];
  static thread_local double b[kMostK][kMostColumns], d[16][kMostColumns];

  const Operand& descriptor_operand = instruction.operands[form.a_in_registers ? 2 : 1];
  const bool a_transposed = descriptor_operand.suffix.find("tnspA") != std::string::npos;
  const bool b_transposed = descriptor_operand.suffix.find("tnspB") != std::string::npos;
  if (form.a_in_registers) {
    const unsigned each = 4 / a_bytes, across = 4 * each;
    for (unsigned word = 0; word < 2 * form.k / across; word++)
      for (unsigned l = 0; l < kLanes; l++)
        for (unsigned i = 0; i < each; i++) {
          const u32 bits = source_word(warp, instruction.operands[1], word).lane[l] >> (8 * a_bytes * i);
          const u32 ones = a_bytes == 4 ? ~u32{0} : (u32{1} << 8 * a_bytes) - 1;
          a[word % 2 * 8 + l / 4][word / 2 * across + l % 4 * each + i] = value_of(form.a, bits & ones);
        }
  } else {
    const Tile tile(read_descriptor(warp, descriptor_operand.index), a_bytes, a_transposed);
    for (unsigned row = 0; row < 16; row++)
      for (unsigned k = 0; k < form.k; k++)
        a[row][k] =
            value_of(form.a, element_bits(warp, instruction, tile.address(warp.number % 4 * 16 + row, k), a_bytes));
  }
  const Tile tile(read_descriptor(warp, descriptor_operand.index + 2u), b_bytes, b_transposed);
  for (unsigned k = 0; k < form.k; k++)
    for (unsigned column = 0; column < columns; column++)
      b[k][column] = value_of(form.b, element_bits(warp, instruction, tile.address(column, k), b_bytes));

  const Operand& c = instruction.operands[form.a_in_registers ? 3 : 2];
  const bool adds = !form.predicate || predicate(warp, instruction.operands[form.predicate]);
  const bool half = form.total == Total::kF16;
  const auto register_index = [&](unsigned block, unsigned row_half, unsigned i) {
    return half ? 2 * block + row_half : 4 * block + 2 * row_half + i;
  };
  for (unsigned block = 0; block < form.columns_by_8; block++)
    for (unsigned row_half = 0; row_half < 2; row_half++)
      for (unsigned i = 0; i < 2; i++) {
        const Vector& from = source_word(warp, c, register_index(block, row_half, i));
        for (unsigned l = 0; l < kLanes; l++) {
          const u32 bits = adds ? from.lane[l] : 0;
          d[row_half * 8 + l / 4][block * 8 + l % 4 * 2 + i] = form.total == Total::kS32
                                                                   ? static_cast<double>(static_cast<i32>(bits))
                                                               : half ? half_to_float(bits >> (16 * i) & 0xffff)
                                                                      : float_of_bits(bits);
        }
      }
  // Products and sums in double precision, rounded once per instruction.
  for (unsigned row = 0; row < 16; row++)
    for (unsigned k = 0; k < form.k; k++)
      for (unsigned column = 0; column < columns; column++) d[row][column] += a[row][k] * b[k][column];
  for (unsigned block = 0; block < form.columns_by_8; block++)
    for (unsigned row_half = 0; row_half < 2; row_half++)
      for_lanes(lanes, [&](unsigned l) {
        const double* pair = &d[row_half * 8 + l / 4][block * 8 + l % 4 * 2];
        for (unsigned i = 0; i < 2; i++) {
          const float rounded = static_cast<float>(pair[i]);
          u32& to = destination(warp, instruction, 0, register_index(block, row_half, i)).lane[l];
          if (form.total == Total::kS32)
            to = static_cast<u32>(static_cast<i64>(pair[i]));
          else if (half)
            to = i ? (to & 0xffff) | float_to_half(rounded) << 16 : float_to_half(rounded);
          else
            to = bits_of_float(rounded);
        }
      });
}

bool element_of(const std::string& name, Element& element) {
  const struct {
    const char* name;
    Element element;
  } known[] = {{"BF16", Element::kBF16}, {"TF32", Element::kTF32}, {"E4M3", Element::kE4M3},
               {"E5M2", Element::kE5M2}, {"S8", Element::kS8},     {"U8", Element::kU8}};
  for (const auto& each : known)
    if (name == each.name) {
      element = each.element;
      return true;
    }
  return false;
}

// HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8].tnspB, R24, !UPT, gsb0. Modifiers: shape, accumulator type, element types
// (default float16). Operands: D, A and B, C, scale-d predicate, scoreboard.
Handler decode(Instruction& instruction) {
  Form form{};
  unsigned rows = 0, columns = 0, k = 0;
  if (instruction.modifiers.empty() || sscanf(instruction.modifiers[0].c_str(), "%ux%ux%u", &rows, &columns, &k) != 3 ||
      rows != 64 || columns > kMostColumns || columns % 8 || k > kMostK)
    return nullptr;
  form.columns_by_8 = static_cast<u8>(columns / 8), form.k = static_cast<u8>(k);
  form.a = form.b = Element::kF16;
  form.total = instruction.opcode == "IGMMA" ? Total::kS32 : Total::kF32;
  unsigned named = 0;
  for (size_t i = 1; i < instruction.modifiers.size(); i++) {
    const std::string& modifier = instruction.modifiers[i];
    if (modifier == "F32" || modifier == "S32") continue;
    if (modifier == "F16")
      form.total = Total::kF16;
    else if (named == 2 || !element_of(modifier, named++ ? form.b : form.a))
      return nullptr;
  }
  if (named == 1) form.b = form.a;
  const auto& operands = instruction.operands;
  if (operands.size() < 3) return nullptr;
  form.a_in_registers = operands[1].kind == Kind::kRegister;
  const size_t descriptor_operand = form.a_in_registers ? 2 : 1;
  if (operands.size() < descriptor_operand + 2 || operands[descriptor_operand].name != "gdesc" ||
      operands[descriptor_operand + 1].kind != Kind::kRegister || operands[descriptor_operand + 1].negated)
    return nullptr;
  for (size_t i = descriptor_operand + 2; i < operands.size(); i++) {
    if (operands[i].kind == Kind::kPredicate || operands[i].kind == Kind::kUniformPredicate)
      form.predicate = static_cast<u8>(i);
    else if (operands[i].name.rfind("gsb", 0) != 0)
      return nullptr;
  }
  static_assert(sizeof form <= sizeof instruction.scratch[1]);
  std::memcpy(&instruction.scratch[1], &form, sizeof form);
  return multiply;
}

constexpr const char* kDifference =
    "products are exact; the sum over K is rounded once, where the hardware truncates the terms";
const Opcode kHgmma("HGMMA", kTensor, decode, kDifference), kQgmma("QGMMA", kTensor, decode, kDifference),
    kIgmma("IGMMA", kTensor, decode);

}  // namespace
}  // namespace ww::machine
