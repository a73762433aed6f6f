// Support for inline PTX. rewrite.py replaces asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)) by a block that passes
// the text and the operands' values to the PTX interpreter (ww_ptx) and then stores the results to the outputs.
#pragma once

namespace ww {
// An output operand. The destructor stores the result; it is inlined, so the compiler instruments the store as the
// kernel's.
template <class T>
class PtxOutput {
 public:
  __attribute__((always_inline)) PtxOutput(const char* name, const char* constraint, T& target)
      : target_(target), name_(name), constraint_(constraint) {
    if (constraint[0] == '+') value_ = target;
  }
  __attribute__((always_inline)) ~PtxOutput() { target_ = value_; }
  __attribute__((always_inline)) ww_ptx_operand operand() {
    ww_ptx_operand result = {name_, constraint_, &value_, sizeof(T), {}};
    return result;
  }

 private:
  T& target_;
  std::remove_volatile_t<T> value_;
  const char* name_;
  const char* constraint_;
};

template <class T>
WW_INLINE ww_ptx_operand ptx_input(const char* name, const char* constraint, T value) {
  ww_ptx_operand result = {name, constraint, nullptr, sizeof(T), {}};
  if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    const long long wide = static_cast<long long>(value);  // a narrow integer is extended to its register's width
    __builtin_memcpy(result.value, &wide, sizeof wide);
    result.bytes = sizeof wide;
  } else {
    static_assert(sizeof(T) <= sizeof(result.value), "an operand of inline PTX can have at most 16 bytes");
    __builtin_memcpy(result.value, static_cast<const void*>(&value), sizeof(T));
  }
  return result;
}
}  // namespace ww
