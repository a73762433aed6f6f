// The functions that a library of kernels exports, for each kernel with its number: ww_entry_0 calls it,
// ww_entry_type_0 and ww_entry_sizes_0 give its type and the sizes of its parameters. ww_entry_globals lists the global
// variables.
#pragma once

namespace ww {
// The argument at `at`. As in a kernel's parameters on a GPU, a reference is stored as an address.
template <class P>
__attribute__((no_sanitize("thread"), always_inline)) inline decltype(auto) argument(void* at) {
  if constexpr (std::is_reference_v<P>)
    return static_cast<P>(**static_cast<std::remove_reference_t<P>**>(at));
  else
    return (*static_cast<P*>(at));
}
template <class P>
constexpr size_t size_of = std::is_reference_v<P> ? sizeof(void*) : sizeof(P);
// A GPU copies the bytes of a parameter and runs neither constructor nor destructor. In C++ a class that has its own
// ones is passed by the address of a copy: here, of the bytes.
template <class P>
constexpr bool by_address =
    std::is_object_v<P> && !(std::is_trivially_destructible_v<P> &&
                             std::is_copy_constructible_v<P> == std::is_trivially_copy_constructible_v<P> &&
                             std::is_move_constructible_v<P> == std::is_trivially_move_constructible_v<P>);
template <class P>
struct parameter_bytes {
  alignas(std::conditional_t<by_address<P>, P, char>) char bytes[by_address<P> ? size_of<P> : 1];
};
template <class P>
__attribute__((no_sanitize("thread"), always_inline)) inline decltype(auto) passed(void* at,
                                                                                   parameter_bytes<P>&& copy) {
  if constexpr (by_address<P>)
    return __builtin_memcpy(copy.bytes, at, sizeof(P));
  else
    return argument<P>(at);
}
template <class... P, size_t... I>
__attribute__((no_sanitize("thread"))) inline void call(void (*kernel)(P...), void** arguments,
                                                        std::index_sequence<I...>) {
  reinterpret_cast<void (*)(std::conditional_t<by_address<P>, void*, P>...)>(kernel)(
      passed<P>(arguments[I], parameter_bytes<P>{})...);
}
template <class... P>
__attribute__((no_sanitize("thread"))) inline void call(void (*kernel)(P...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<P...>{});
}
template <class... P>
inline const size_t* sizes(void (*)(P...), size_t* count) {
  static const size_t bytes[] = {size_of<P>..., 0};
  *count = sizeof...(P);
  return bytes;
}
}  // namespace ww

#define WW_EXPORT extern "C" __attribute__((visibility("default"), no_sanitize("thread")))
#define WW_ENTRY(NUMBER, ...)                                                                     \
  static constexpr auto ww_kernel_##NUMBER = __VA_ARGS__;                                         \
  WW_EXPORT void ww_entry_##NUMBER(void** arguments) { ww::call(ww_kernel_##NUMBER, arguments); } \
  WW_EXPORT const char* ww_entry_type_##NUMBER() { return typeid(ww_kernel_##NUMBER).name(); }    \
  WW_EXPORT const size_t* ww_entry_sizes_##NUMBER(size_t* count) { return ww::sizes(ww_kernel_##NUMBER, count); }
#define WW_GLOBALS(...)                                        \
  WW_EXPORT const ww_global* ww_entry_globals(size_t* count) { \
    static const ww_global table[] = {__VA_ARGS__};            \
    *count = sizeof table / sizeof *table - 1;                 \
    return table;                                              \
  }
