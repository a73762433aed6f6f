// What conversions share: operands of any floating-point type as doubles, and back with one rounding.
#pragma once
#include "narrow.h"

namespace ww::machine {

enum class Type : u8 { kNone, kF16, kBf16, kF32, kF64, kS8, kU8, kS16, kU16, kS32, kU32, kS64, kU64 };

// The floating-point types among the modifiers, in their order; false if there are more than `count`.
bool float_types(const Instruction& n, Type* types, unsigned count);

// Source i of a floating-point type, its sign, its half (R5.H1) and flushing of subnormal floats applied: 32 values.
void load(Warp& w, const Instruction& n, unsigned i, Type type, bool flush, double* to);
bool known_suffix(const Operand& operand);

// 32 values, which Rounding::keep has seen, to the destination in a floating-point type.
void store(Warp& w, const Instruction& n, Mask lanes, const double* values, Type type, Round round, bool flush);

}  // namespace ww::machine
