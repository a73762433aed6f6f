// Support for __shared__ variables. rewrite_shared.py replaces `__shared__ float tile[32][33];` by a typedef
// ww_type_tile and WW_SHARED(tile, ...), which declares a reference to memory that the runtime allocates for the block.
#pragma once

namespace ww {
template <class T>
constexpr unsigned alignment(unsigned declared) {
  return declared > alignof(T) ? declared : static_cast<unsigned>(alignof(T));
}
// The array of `&array[i]`, without its bound.
template <class T, size_t N>
WW_INLINE T* first_element(T (&array)[N]) {
  return array;
}
template <class T>
WW_INLINE T& first_element(T& other) {
  return other;
}
}  // namespace ww

#define WW_SITE(NAME, ALIGN)                                                                                 \
  static ww_site ww_site_##NAME = {#NAME,                                                                    \
                                   static_cast<unsigned>(sizeof(std::remove_all_extents_t<ww_type_##NAME>)), \
                                   static_cast<unsigned>(sizeof(ww_type_##NAME)),                            \
                                   ww::alignment<ww_type_##NAME>(ALIGN),                                     \
                                   {static_cast<unsigned>(std::extent_v<ww_type_##NAME, 1>),                 \
                                    static_cast<unsigned>(std::extent_v<ww_type_##NAME, 2>)},                \
                                   WW_PLACE,                                                                 \
                                   0,                                                                        \
                                   nullptr};
#define WW_SHARED_REFERENCE(NAME) ww_type_##NAME& NAME = *static_cast<ww_type_##NAME*>(ww_shared(&ww_site_##NAME));
#define WW_SHARED(NAME, ALIGN) WW_SITE(NAME, ALIGN) WW_SHARED_REFERENCE(NAME)

#define WW_DYNAMIC_SITE(NAME, ALIGN)                                                                                   \
  static ww_site ww_site_##NAME = {                                                                                    \
      #NAME,  static_cast<unsigned>(sizeof(ww_type_##NAME)), 0, ww::alignment<ww_type_##NAME>(ALIGN), {}, WW_PLACE, 0, \
      nullptr};
#define WW_DYNAMIC_POINTER(NAME) \
  ww_type_##NAME* NAME = static_cast<ww_type_##NAME*>(ww_dynamic_shared(&ww_site_##NAME));
#define WW_DYNAMIC_REFERENCE(NAME) \
  ww_type_##NAME& NAME = *static_cast<ww_type_##NAME*>(ww_dynamic_shared(&ww_site_##NAME));
#define WW_DYNAMIC_SHARED(NAME, ALIGN) WW_DYNAMIC_SITE(NAME, ALIGN) WW_DYNAMIC_POINTER(NAME)
