// The read-modify-write of one element in memory, for atomics and bulk reductions.
#pragma once
#include <string>

#include "machine.h"

namespace ww::machine {

enum class Update : u8 {
  kAdd,
  kMin,
  kMax,
  kInc,
  kDec,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kCompareExchange,
  kCastSpin,
  kArrive
};
enum class Element : u8 { kU32, kS32, kU64, kS64, kF32, kF64, kF16, kBF16, kB128 };
constexpr u8 kElementBytes[] = {4, 4, 8, 8, 4, 8, 2, 2, 16};
inline unsigned bytes_of(Element element) { return kElementBytes[static_cast<unsigned>(element)]; }

// Sets `update` if `modifier` names one, such as "ADD".
bool read_update(const std::string& modifier, Update& update);

// Applies `update`, one of kAdd to kXor, to the element at `pointer` with the operand at `value`. `flush`: subnormals
// are flushed to zero.
void apply_update(u8* pointer, const u8* value, Update update, Element element, bool flush);

}  // namespace ww::machine
