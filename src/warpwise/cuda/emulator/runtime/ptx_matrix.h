// The handlers of PTX matrix instructions: ldmatrix, stmatrix, movmatrix and mma.sync. For lane L, g = L / 4 is PTX's
// groupID and q = L % 4 its threadID_in_group.
#pragma once
#include "ptx_warp.h"

namespace ptx {
inline int matrix_count(const Instruction& i) { return i.has("x4") ? 4 : i.has("x2") ? 2 : 1; }
inline const Operand& element(const Operand& operand, size_t index) {
  return operand.kind == Kind::vector ? operand.parts[index] : operand;
}

// Row r of matrix m is 8 16-bit elements at the address passed by lane 8m + r. Lane 4r + k receives its elements 2k and
// 2k + 1.
inline void ldmatrix(Context& c, const Instruction& i) {
  const int count = matrix_count(i);
  struct Row {
    unsigned short halves[8];
  } own = {};
  if (!i.has("b16")) c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is not emulated");
  if (ww_lane() < static_cast<unsigned>(8 * count)) {
    const char* row = address_of(c, i, i.operands[1]);
    check_aligned(c, i, row, 16);
    ww_check_access(row, 16, 0, c.line);
    __builtin_memcpy(&own, row, 16);
  }
  const ww_exchange table = ww_warp_exchange(0xffffffffu, &own, sizeof own, "ldmatrix", c.line);
  const unsigned g = ww_lane() / 4, q = ww_lane() % 4;
  const bool transposed = i.has("trans");
  for (int m = 0; m < count; ++m) {
    unsigned value = 0;
    for (unsigned j = 0; j < 2; ++j) {
      const unsigned row = transposed ? 2 * q + j : g, column = transposed ? g : 2 * q + j;
      Row from;
      __builtin_memcpy(&from, table.data + (8 * static_cast<unsigned>(m) + row) * table.stride, sizeof from);
      value |= static_cast<unsigned>(from.halves[column]) << (16 * j);
    }
    c.set_bits(element(i.operands[0], static_cast<size_t>(m)), value, 4);
  }
}
inline void stmatrix(Context& c, const Instruction& i) {
  const unsigned count = static_cast<unsigned>(matrix_count(i)), lane = ww_lane();
  unsigned own[4] = {};
  for (unsigned m = 0; m < count; ++m) own[m] = c.u32(element(i.operands[1], m));
  const ww_exchange table = ww_warp_exchange(0xffffffffu, own, sizeof own, "stmatrix", c.line);
  if (lane >= 8 * count) return;
  const unsigned m = lane / 8, r = lane % 8;
  unsigned short row[8];
  for (unsigned column = 0; column < 8; ++column) {
    const unsigned from = i.has("trans") ? column * 4 + r / 2 : r * 4 + column / 2,
                   half = i.has("trans") ? r % 2 : column % 2;
    unsigned value;
    __builtin_memcpy(&value, table.data + from * table.stride + 4 * m, sizeof value);
    row[column] = static_cast<unsigned short>(value >> (16 * half));
  }
  char* to = address_of(c, i, i.operands[0]);
  check_aligned(c, i, to, 16);
  ww_check_access(to, 16, 1, c.line);
  __builtin_memcpy(to, row, 16);
}
inline void movmatrix(Context& c, const Instruction& i) {
  const u64 own = c.u32(i.operands[1]);
  const ww_exchange table = ww_warp_exchange(0xffffffffu, &own, sizeof own, "movmatrix", c.line);
  const unsigned g = ww_lane() / 4, q = ww_lane() % 4;
  unsigned value = 0;
  for (unsigned j = 0; j < 2; ++j)  // element (g, 2q + j) of the transpose is (2q + j, g)
    value |= static_cast<unsigned>(lane_value(table, (2 * q + j) * 4 + g / 2) >> (16 * (g % 2)) & 0xffff) << (16 * j);
  c.set_bits(i.operands[0], value, 4);
}

// mma.sync.aligned.m16n8kK.row.col.D.A.B.C, and m8n8kK, which has only the rows g: a register r of A holds e columns
// from e q + 4 e r on. A register holds e = 32 / width elements (one element of f64).
//   Register r of A: row g + 8 (r % 2), e columns from e q + 4 e (r / 2) on.
//   Register r of B: column g, e rows from e q + 4 e r on.
//   C and D: rows g and g + 8, columns 2q and 2q + 1.
inline double element_value(u64 bits, Element type, int index) {
  switch (type) {
    case Element::f16:
      return ww::half_value(static_cast<unsigned short>(bits >> (16 * index)));
    case Element::bf16:
      return ww::bfloat16_value(static_cast<unsigned short>(bits >> (16 * index)));
    case Element::tf32:
      return ww::bits<float>(static_cast<unsigned>(bits) & 0xffffe000u);
    case Element::f64:
      return ww::bits<double>(bits);
    case Element::s8:
      return static_cast<signed char>(bits >> (8 * index));
    case Element::u8:
      return static_cast<unsigned char>(bits >> (8 * index));
    case Element::s4:
      return static_cast<int>(static_cast<unsigned>(bits >> (4 * index)) << 28) >> 28;
    case Element::u4:
    case Element::b1:
      break;
  }
  return static_cast<int>(bits >> (4 * index) & 15);
}

inline bool read_element(const NamePart& type, Element& element) {
  static constexpr const char* names[] = {"f16", "bf16", "tf32", "f64", "s8", "u8", "s4", "u4", "b1"};
  for (int which = 0; which < 9; ++which)
    if (std::strcmp(type.text, names[which]) == 0) {
      element = static_cast<Element>(which);
      return true;
    }
  return false;
}

// The shape and types of an mma instruction, from its name; `known` is false if it is not emulated.
inline MmaShape mma_shape_of(const Instruction& i) {
  MmaShape shape;
  shape.satfinite = i.has("satfinite");
  shape.conjunction = i.has("and");
  const size_t end = i.parts.size() - (i.has("popc") ? 2 : i.parts.back() == "satfinite" ? 1 : 0);
  if (end < 4 || i.has("sp") || i.has("block_scale") || !i.has("row") || !i.has("col")) return shape;
  if (!read_element(i.parts[end - 3], shape.a) || !read_element(i.parts[end - 2], shape.b)) return shape;
  shape.d = i.parts[end - 4];
  shape.c = i.parts[end - 1];
  int m = 0, n = 0;
  for (const NamePart& part : i.parts) std::sscanf(part.text, "m%dn%dk%d", &m, &n, &shape.k);
  static constexpr int widths[] = {16, 16, 32, 64, 8, 8, 4, 4, 1};
  const int width = widths[static_cast<int>(shape.a)];
  const bool small_tile = m == 8 && (width == 64 || width <= 8) && shape.k == (width == 64 ? 4 : 128 / width);
  if (n != 8 || (m != 16 && !small_tile)) return shape;
  shape.elements_per_register = width == 64 ? 1 : 32 / width;
  shape.m16 = m == 16;
  shape.b_registers = shape.k / (4 * shape.elements_per_register);
  shape.a_registers = shape.b_registers * (shape.m16 ? 2 : 1);
  shape.known = shape.k % (4 * shape.elements_per_register) == 0 && shape.b_registers >= 1 && shape.a_registers <= 8;
  return shape;
}

inline void mma(Context& c, const Instruction& i) {
  const MmaShape& shape = i.shape;
  if (!shape.known) {
    unsupported(c, i);
    return;
  }
  struct Fragments {
    u64 a[8], b[4];
  } own = {};
  for (int r = 0; r < shape.a_registers; ++r) own.a[r] = c.bits(element(i.operands[1], static_cast<size_t>(r)));
  for (int r = 0; r < shape.b_registers; ++r) own.b[r] = c.bits(element(i.operands[2], static_cast<size_t>(r)));
  const ww_exchange table = ww_warp_exchange(0xffffffffu, &own, sizeof own, "mma.sync", c.line);
  const unsigned g = ww_lane() / 4, q = ww_lane() % 4;
  const int e = shape.elements_per_register, rows = shape.m16 ? 2 : 1;
  double a[2][64] = {}, b[2][64] = {};  // this lane's two rows of A and two columns of B
  int ones[2][2] = {};                  // of b1, the set bits of a xor b, or of a and b
  for (unsigned member = 0; member < 4; ++member) {
    Fragments row, column[2];
    __builtin_memcpy(&row, table.data + (4 * g + member) * table.stride, sizeof row);
    for (unsigned j = 0; j < 2; ++j)
      __builtin_memcpy(&column[j], table.data + (4 * (2 * q + j) + member) * table.stride, sizeof row);
    for (int r = 0; r < shape.b_registers && shape.a == Element::b1; ++r)
      for (int half = 0; half < rows; ++half)
        for (int n = 0; n < 2; ++n) {
          const u64 x = row.a[rows * r + half], y = column[n].b[r];
          ones[half][n] += __builtin_popcountll(shape.conjunction ? x & y : x ^ y);
        }
    for (int r = 0; r < shape.b_registers && shape.a != Element::b1; ++r)
      for (int j = 0; j < e; ++j) {
        const int k = e * static_cast<int>(member) + 4 * e * r + j;
        for (int half = 0; half < rows; ++half) a[half][k] = element_value(row.a[rows * r + half], shape.a, j);
        for (int n = 0; n < 2; ++n) b[n][k] = element_value(column[n].b[r], shape.b, j);
      }
  }
  u64 results[4] = {};
  const bool is_f16 = shape.d == "f16";  // a register holds two results of one row
  const bool c_is_f16 = shape.c == "f16", is_s32 = shape.d == "s32", is_f64 = shape.d == "f64";
  for (int half = 0; half < rows; ++half)
    for (int n = 0; n < 2; ++n) {
      const size_t at = static_cast<size_t>(2 * half + n);
      const u64 start = c_is_f16 ? c.bits(element(i.operands[3], at / 2)) >> (16 * (at % 2)) & 0xffff
                                 : c.bits(element(i.operands[3], at));
      if (shape.a == Element::b1) {
        results[at] = static_cast<unsigned>(start) + static_cast<unsigned>(ones[half][n]);
      } else if (is_s32) {
        long long sum = static_cast<int>(start);
        for (int k = 0; k < shape.k; ++k) sum += static_cast<long long>(a[half][k] * b[n][k]);
        if (shape.satfinite) sum = std::min<long long>(std::max<long long>(sum, INT_MIN), INT_MAX);
        results[at] = static_cast<unsigned>(sum);
      } else if (is_f64) {
        double sum = ww::bits<double>(start);
        for (int k = 0; k < shape.k; ++k) sum = fma(a[half][k], b[n][k], sum);
        results[at] = ww::bits<u64>(sum);
      } else {  // the product of two 16-bit or tf32 values is exact in double
        float sum = c_is_f16 ? ww::half_value(static_cast<unsigned short>(start))
                             : ww::bits<float>(static_cast<unsigned>(start));
        for (int k = 0; k < shape.k; ++k) sum = static_cast<float>(sum + a[half][k] * b[n][k]);
        results[at] = is_f16 ? ww::half_bits(sum) : ww::bits<unsigned>(sum);
      }
    }
  for (size_t at = 0; at < static_cast<size_t>(2 * rows); at += is_f16 ? 2 : 1) {
    if (is_f16)
      c.set_bits(element(i.operands[0], at / 2), results[at] | results[at + 1] << 16, 4);
    else
      c.set_bits(element(i.operands[0], at), results[at]);
  }
}

// mma.sync.aligned.m8n8k4.ALAYOUT.BLAYOUT.D.f16.f16.C: four products of 8 x 4 and 4 x 8 matrices, each by the lanes
// 4 p ... 4 p + 3 and 4 p + 16 ... 4 p + 19. The lane of index l in {0 ... 3}, plus 4 in the upper half, holds
//   A: row l of .row, else column l % 4 and the four rows of its half; B: column l of .col, else row l % 4 and the four
//   columns of its half; C and D of f16: row l;
//   register i of C and D of f32: row l % 2 + i / 2 % 2 * 2, plus 4 in the upper half, and column
//   i / 4 * 4 + l / 2 % 2 * 2 + i % 2.
inline void mma_quad_pairs(Context& c, const Instruction& i) {
  struct Fragments {
    u64 a[2], b[2], c[8];
  } own = {};
  const auto& parts = i.parts;
  const size_t end = parts.size();
  if (end < 6 || !(parts[end - 2] == "f16") || i.has("sp")) return unsupported(c, i);
  const bool a_rows = parts[end - 6] == "row", b_rows = parts[end - 5] == "row";
  const bool d_is_f16 = parts[end - 4] == "f16", c_is_f16 = parts[end - 1] == "f16";
  for (size_t r = 0; r < 2; ++r)
    own.a[r] = c.bits(element(i.operands[1], r)), own.b[r] = c.bits(element(i.operands[2], r));
  for (size_t r = 0; r < (c_is_f16 ? 4u : 8u); ++r) own.c[r] = c.bits(element(i.operands[3], r));
  const ww_exchange table = ww_warp_exchange(0xffffffffu, &own, sizeof own, "mma.sync", c.line);
  const unsigned first = ww_lane() % 16 / 4 * 4;
  // The fragments of the lane with index l in the half of row or column `place`.
  const auto of = [&](unsigned place, unsigned l) {
    Fragments other;
    __builtin_memcpy(&other, table.data + (first + l + (place >= 4 ? 16 : 0)) * table.stride, sizeof other);
    return other;
  };
  const auto half = [](const u64* registers, unsigned index) {
    return ww::half_value(static_cast<unsigned short>(registers[index / 2] >> (16 * (index % 2))));
  };
  u64 results[8] = {};
  const unsigned lane = ww_lane(), l = lane % 4, upper = lane / 16 * 4;
  for (unsigned at = 0; at < 8; ++at) {
    const unsigned row = upper + (d_is_f16 ? l : l % 2 + (at & 2)), column = d_is_f16 ? at : (at & 5) + (l & 2);
    float sum =
        c_is_f16
            ? half(of(row, row % 4).c, column)
            : ww::bits<float>(static_cast<unsigned>(of(row, (row & 1) | (column & 2)).c[(row & 2) | (column & 5)]));
    for (unsigned k = 0; k < 4; ++k) {
      const float a = a_rows ? half(of(row, row % 4).a, k) : half(of(row, k).a, row % 4);
      const float b = b_rows ? half(of(column, k).b, column % 4) : half(of(column, column % 4).b, k);
      sum = static_cast<float>(sum + static_cast<double>(a) * b);
    }
    results[at] = d_is_f16 ? ww::half_bits(sum) : ww::bits<unsigned>(sum);
  }
  for (size_t at = 0; at < 8; at += d_is_f16 ? 2 : 1)
    c.set_bits(element(i.operands[0], d_is_f16 ? at / 2 : at),
               d_is_f16 ? results[at] | results[at + 1] << 16 : results[at], 4);
}
}  // namespace ptx
