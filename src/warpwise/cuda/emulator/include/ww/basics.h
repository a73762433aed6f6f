// Macros and templates that the device headers use: inlining, instrumentation, the caller's line, and bit casts.
#pragma once

// Device functions are always inlined, so that their memory accesses are attributed to the caller's line.
#define WW_INLINE static inline __attribute__((always_inline))
// Functions without instrumentation: they read the runtime's memory, such as the values of other lanes.
#define WW_UNINSTRUMENTED static __attribute__((no_sanitize("thread", "bounds", "alignment", "undefined"), noinline))
// Function templates that other functions of these headers call have the return type `auto`: g++ instantiates them when
// it precompiles the headers, to deduce the type. It instantiates all others again in every kernel, which takes 40 ms.
// The place of a call, for default arguments, and of a macro.
#define WW_CALLER ww_place(__builtin_LINE(), __builtin_FILE())
#define WW_PLACE ww_place(__LINE__, __FILE__)
#define WW_LINE int line = WW_CALLER  // a parameter that defaults to the place of the call

namespace ww {
template <class T>
struct identity {
  typedef T type;
};
// A parameter of this type does not take part in template argument deduction (std::type_identity_t).
template <class T>
using same_t = typename identity<T>::type;

template <class To, class From>
WW_INLINE auto bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast requires types of the same size");
  To to;
  __builtin_memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof(To));
  return to;
}
}  // namespace ww
