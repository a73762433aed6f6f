// The functions that a kernel's library exports: ww_entry calls the kernel, ww_entry_type and ww_entry_sizes give its
// type and the sizes of its parameters, ww_entry_globals lists its global variables.
#pragma once

namespace ww {
template <class... P, size_t... I>
__attribute__((no_sanitize("thread"))) inline void call(void (*kernel)(P...), void** arguments,
                                                        std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_reference_t<P>*>(arguments[I])...);
}
template <class... P>
__attribute__((no_sanitize("thread"))) inline void call(void (*kernel)(P...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<P...>{});
}
template <class... P>
inline const size_t* sizes(void (*)(P...), size_t* count) {
  static const size_t bytes[] = {sizeof(P)..., 0};
  *count = sizeof...(P);
  return bytes;
}
}  // namespace ww

#define WW_EXPORT extern "C" __attribute__((visibility("default"), no_sanitize("thread")))
#define WW_ENTRY(...)                                                           \
  static constexpr auto ww_kernel = __VA_ARGS__;                                \
  WW_EXPORT void ww_entry(void** arguments) { ww::call(ww_kernel, arguments); } \
  WW_EXPORT const char* ww_entry_type() { return typeid(ww_kernel).name(); }    \
  WW_EXPORT const size_t* ww_entry_sizes(size_t* count) { return ww::sizes(ww_kernel, count); }
#define WW_GLOBALS(...)                                        \
  WW_EXPORT const ww_global* ww_entry_globals(size_t* count) { \
    static const ww_global table[] = {__VA_ARGS__};            \
    *count = sizeof table / sizeof *table - 1;                 \
    return table;                                              \
  }
