// PTX matrix instructions: ldmatrix, stmatrix, movmatrix, mma.sync. Lane L has group g = L / 4 and place q = L % 4.
#pragma once
#include "ptx_warp.h"

namespace ptx {
inline int matrix_count(const Instruction& i) { return i.has("x4") ? 4 : i.has("x2") ? 2 : 1; }
inline const Operand& element(const Operand& operand, size_t index) {
  return operand.kind == Kind::vector ? operand.parts[index] : operand;
}

// Matrix m's row r is at the address that lane 8 m + r gives: 8 halves, of which lane 4 r + k gets number 2 k and 2 k
// + 1.
inline void ldmatrix(Context& c, const Instruction& i) {
  const int count = matrix_count(i);
  struct Row {
    unsigned short halves[8];
  } own = {};
  if (!i.has("b16")) c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is not emulated");
  if (ww_lane() < static_cast<unsigned>(8 * count)) {
    const char* row = address_of(c, i, i.operands[1]);
    check_aligned(c, i, row, 16);
    ww_touch(row, 16, 0, c.line);
    __builtin_memcpy(&own, row, 16);
  }
  const ww_exchange table = ww_warp_exchange(0xffffffffu, &own, sizeof own, "ldmatrix", c.line);
  const unsigned g = ww_lane() / 4, q = ww_lane() % 4;
  const bool turned = i.has("trans");
  for (int m = 0; m < count; ++m) {
    unsigned value = 0;
    for (unsigned j = 0; j < 2; ++j) {
      const unsigned row = turned ? 2 * q + j : g, column = turned ? g : 2 * q + j;
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
  ww_touch(to, 16, 1, c.line);
  __builtin_memcpy(to, row, 16);
}
inline void movmatrix(Context& c, const Instruction& i) {
  const u64 own = c.u32(i.operands[1]);
  const ww_exchange table = ww_warp_exchange(0xffffffffu, &own, sizeof own, "movmatrix", c.line);
  const unsigned g = ww_lane() / 4, q = ww_lane() % 4;
  unsigned value = 0;
  for (unsigned j = 0; j < 2; ++j)  // element (g, 2q + j) of the transpose is (2q + j, g)
    value |= static_cast<unsigned>(deposit(table, (2 * q + j) * 4 + g / 2) >> (16 * (g % 2)) & 0xffff) << (16 * j);
  c.set_bits(i.operands[0], value, 4);
}

// mma.sync.aligned.m16n8kK.row.col.D.A.B.C. A register holds 32 / width elements (one of f64). Register r of A is row
// g + 8 (r % 2), columns from e q + 4 e (r / 2); register r of B is column g, rows from e q + 4 e r; C and D hold
// rows g and g + 8, columns 2 q and 2 q + 1.
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
      break;
  }
  return static_cast<int>(bits >> (4 * index) & 15);
}

inline bool read_element(const Word& type, Element& element) {
  static constexpr const char* names[] = {"f16", "bf16", "tf32", "f64", "s8", "u8", "s4", "u4"};
  for (int which = 0; which < 8; ++which)
    if (std::strcmp(type.text, names[which]) == 0) {
      element = static_cast<Element>(which);
      return true;
    }
  return false;
}

// What an mma's name says; not `known` where it is not emulated.
inline Product product_of(const Instruction& i) {
  Product product;
  product.saturates = i.has("satfinite");
  const size_t end = i.parts.size() - (!i.parts.empty() && i.parts.back() == "satfinite" ? 1 : 0);
  if (end < 4 || i.has("sp") || i.has("block_scale") || !i.has("row") || !i.has("col")) return product;
  if (!read_element(i.parts[end - 3], product.a) || !read_element(i.parts[end - 2], product.b)) return product;
  product.d = i.parts[end - 4];
  product.c = i.parts[end - 1];
  int m = 0, n = 0;
  for (const Word& part : i.parts) std::sscanf(part.text, "m%dn%dk%d", &m, &n, &product.k);
  static constexpr int widths[] = {16, 16, 32, 64, 8, 8, 4, 4};
  const bool f64_tile = product.a == Element::f64 && m == 8 && n == 8 && product.k == 4;
  if (n != 8 || (m != 16 && !f64_tile)) return product;
  const int width = widths[static_cast<int>(product.a)];
  product.per_register = width == 64 ? 1 : 32 / width;
  product.tall = m == 16;
  product.b_registers = product.k / (4 * product.per_register);
  product.a_registers = product.b_registers * (product.tall ? 2 : 1);
  product.known = product.k % (4 * product.per_register) == 0 && product.b_registers >= 1 && product.a_registers <= 8;
  return product;
}

inline void mma(Context& c, const Instruction& i) {
  const Product& product = i.product;
  if (!product.known) {
    unsupported(c, i);
    return;
  }
  struct Deposit {
    u64 a[8], b[4];
  } own = {};
  for (int r = 0; r < product.a_registers; ++r) own.a[r] = c.bits(element(i.operands[1], static_cast<size_t>(r)));
  for (int r = 0; r < product.b_registers; ++r) own.b[r] = c.bits(element(i.operands[2], static_cast<size_t>(r)));
  const ww_exchange table = ww_warp_exchange(0xffffffffu, &own, sizeof own, "mma.sync", c.line);
  const unsigned g = ww_lane() / 4, q = ww_lane() % 4;
  const int e = product.per_register, rows = product.tall ? 2 : 1;
  double a[2][64] = {}, b[2][64] = {};  // this lane's two rows of A and two columns of B
  for (unsigned place = 0; place < 4; ++place) {
    Deposit row, column[2];
    __builtin_memcpy(&row, table.data + (4 * g + place) * table.stride, sizeof row);
    for (unsigned j = 0; j < 2; ++j)
      __builtin_memcpy(&column[j], table.data + (4 * (2 * q + j) + place) * table.stride, sizeof row);
    for (int r = 0; r < product.b_registers; ++r)
      for (int j = 0; j < e; ++j) {
        const int k = e * static_cast<int>(place) + 4 * e * r + j;
        for (int half = 0; half < rows; ++half) a[half][k] = element_value(row.a[rows * r + half], product.a, j);
        for (int n = 0; n < 2; ++n) b[n][k] = element_value(column[n].b[r], product.b, j);
      }
  }
  u64 results[4] = {};
  const bool narrow = product.d == "f16";  // two results of one row in a register
  const bool adds_to_narrow = product.c == "f16", whole = product.d == "s32", wide = product.d == "f64";
  for (int half = 0; half < rows; ++half)
    for (int n = 0; n < 2; ++n) {
      const size_t at = static_cast<size_t>(2 * half + n);
      const u64 start = adds_to_narrow ? c.bits(element(i.operands[3], at / 2)) >> (16 * (at % 2)) & 0xffff
                                       : c.bits(element(i.operands[3], at));
      if (whole) {
        long long sum = static_cast<int>(start);
        for (int k = 0; k < product.k; ++k) sum += static_cast<long long>(a[half][k] * b[n][k]);
        if (product.saturates) sum = std::min<long long>(std::max<long long>(sum, INT_MIN), INT_MAX);
        results[at] = static_cast<unsigned>(sum);
      } else if (wide) {
        double sum = ww::bits<double>(start);
        for (int k = 0; k < product.k; ++k) sum = fma(a[half][k], b[n][k], sum);
        results[at] = ww::bits<u64>(sum);
      } else {  // products of 16-bit and tf32 values are exact in double
        float sum = adds_to_narrow ? ww::half_value(static_cast<unsigned short>(start))
                                   : ww::bits<float>(static_cast<unsigned>(start));
        for (int k = 0; k < product.k; ++k) sum = static_cast<float>(sum + a[half][k] * b[n][k]);
        results[at] = narrow ? ww::half_bits(sum) : ww::bits<unsigned>(sum);
      }
    }
  for (size_t at = 0; at < static_cast<size_t>(2 * rows); at += narrow ? 2 : 1) {
    if (narrow)
      c.set_bits(element(i.operands[0], at / 2), results[at] | results[at + 1] << 16, 4);
    else
      c.set_bits(element(i.operands[0], at), results[at]);
  }
}
}  // namespace ptx
