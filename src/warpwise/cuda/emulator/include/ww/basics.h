// What the device headers are written with: inlining, instrumentation, the caller's line, and bits of one type as
// another's.
#pragma once

// Small device functions vanish into their caller, so that an access inside has the caller's line.
#define WW_INLINE static inline __attribute__((always_inline))
// Code of ours that reads other lanes' deposits, which are no memory of the kernel's.
#define WW_UNINSTRUMENTED static __attribute__((no_sanitize("thread", "bounds", "alignment", "undefined"), noinline))
// The line that calls a device function, as a parameter's default.
#define WW_LINE int line = __builtin_LINE()

namespace ww {
template <class T>
struct identity {
  typedef T type;
};
// A parameter of this type converts instead of taking part in template deduction.
template <class T>
using same_t = typename identity<T>::type;

template <class To, class From>
WW_INLINE To bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bits are reinterpreted between types of one size");
  To to;
  __builtin_memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof(To));
  return to;
}
}  // namespace ww
