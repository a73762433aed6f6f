#include "reduction.h"

#include <algorithm>
#include <cmath>

#include "access.h"
#include "floats.h"
#include "formats.h"

namespace ww::machine {

namespace {

template <class T>
T integer_result(Update update, T old, T value) {
  switch (update) {
    case Update::kAdd:
      return old + value;
    case Update::kMin:
      return std::min(old, value);
    case Update::kMax:
      return std::max(old, value);
    case Update::kInc:
      return old >= value ? 0 : old + 1;
    case Update::kDec:
      return old == 0 || old > value ? value : old - 1;
    case Update::kAnd:
      return old & value;
    case Update::kOr:
      return old | value;
    case Update::kXor:
      return old ^ value;
    default:
      return value;
  }
}
float float_result(Update update, float old, float value) {
  if (update == Update::kAdd) return old + value;
  const u32 sign = update == Update::kMin ? 0 : 0x80000000u;
  return as_float(float_minimum(as_bits(old) ^ sign, as_bits(value) ^ sign, 0) ^ sign);
}
float flushed(float value, bool flush) {
  return flush && std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

template <class T>
void replace(u8* pointer, const u8* value, Update update) {
  write_as<T>(pointer, integer_result(update, read_as<T>(pointer), read_as<T>(value)));
}

constexpr struct {
  const char* modifier;
  Update update;
} kUpdates[] = {{"ADD", Update::kAdd},       {"MIN", Update::kMin},
                {"MAX", Update::kMax},       {"INC", Update::kInc},
                {"DEC", Update::kDec},       {"AND", Update::kAnd},
                {"OR", Update::kOr},         {"XOR", Update::kXor},
                {"EXCH", Update::kExchange}, {"CAS", Update::kCompareExchange},
                {"CAST", Update::kCastSpin}, {"ARRIVE", Update::kArrive}};

}  // namespace

bool read_update(const std::string& modifier, Update& update) {
  for (const auto& each : kUpdates)
    if (modifier == each.modifier) {
      update = each.update;
      return true;
    }
  return false;
}

void apply_update(u8* pointer, const u8* value, Update update, Element element, bool flush) {
  switch (element) {
    case Element::kU32:
      return replace<u32>(pointer, value, update);
    case Element::kS32:
      return replace<i32>(pointer, value, update);
    case Element::kU64:
      return replace<u64>(pointer, value, update);
    case Element::kS64:
      return replace<i64>(pointer, value, update);
    case Element::kF32: {
      const float old = flushed(read_as<float>(pointer), flush), added = flushed(read_as<float>(value), flush);
      return write_as(pointer, flushed(float_result(update, old, added), flush));
    }
    case Element::kF64:
      return write_as(pointer, read_as<double>(pointer) + read_as<double>(value));  // PTX has no other update of it
    case Element::kF16: {
      const float result =
          float_result(update, half_to_float(read_as<u16>(pointer)), half_to_float(read_as<u16>(value)));
      return write_as(pointer, static_cast<u16>(float_to_half(result)));
    }
    case Element::kBF16: {
      const float result =
          float_result(update, bfloat_to_float(read_as<u16>(pointer)), bfloat_to_float(read_as<u16>(value)));
      return write_as(pointer, static_cast<u16>(float_to_bfloat(result)));
    }
    case Element::kB128:
      std::memcpy(pointer, value, 16);
  }
}

}  // namespace ww::machine
