// Shared by the conversions: operands of any floating-point type as doubles, and back with one rounding.
#pragma once
#include "narrow.h"

namespace ww::machine {

enum class Type : u8 { kNone, kF16, kBf16, kF32, kF64, kS8, kU8, kS16, kU16, kS32, kU32, kS64, kU64 };

// Returns the floating-point types among the modifiers in `types`; false if there are more than `count`.
bool float_types(const Instruction& n, Type* types, unsigned count);

// Source i as 32 doubles, with its sign, half selection (R5.H1) and flush to zero applied.
void load(Warp& w, const Instruction& n, unsigned i, Type type, bool flush, double* to);
bool known_suffix(const Operand& operand);

// Stores 32 values in a floating-point type. Pass the values through Rounding::keep first.
void store(Warp& w, const Instruction& n, Mask lanes, const double* values, Type type, Round round, bool flush);

}  // namespace ww::machine
