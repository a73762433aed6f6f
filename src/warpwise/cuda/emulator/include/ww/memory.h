// Loads and stores with cache hints, memcpy, memmove and memset, and conversions between address spaces.
#pragma once

#define WW_LOAD(NAME)            \
  template <class T>             \
  WW_INLINE T NAME(const T* p) { \
    return *p;                   \
  }
WW_LOAD(__ldca)
WW_LOAD(__ldcg)
WW_LOAD(__ldcs)
WW_LOAD(__ldlu)
WW_LOAD(__ldcv)
#undef WW_LOAD
template <class T>
WW_INLINE T __ldg(const T* p, WW_LINE) {
  ww_check_read_only(p, sizeof(T), line);
  return *p;
}
#define WW_STORE(NAME)                             \
  template <class T>                               \
  WW_INLINE void NAME(T* p, ww::same_t<T> value) { \
    *p = value;                                    \
  }
WW_STORE(__stwb)
WW_STORE(__stcg)
WW_STORE(__stcs)
WW_STORE(__stwt)
#undef WW_STORE

// The compiler does not instrument calls to library functions, so these functions check their accesses themselves.
WW_UNINSTRUMENTED void* ww_memcpy(void* to, const void* from, size_t bytes, WW_LINE) {
  ww_check_access(from, bytes, 0, line);
  ww_check_access(to, bytes, 1, line);
  return __builtin_memcpy(to, from, bytes);
}
WW_UNINSTRUMENTED void* ww_memmove(void* to, const void* from, size_t bytes, WW_LINE) {
  ww_check_access(from, bytes, 0, line);
  ww_check_access(to, bytes, 1, line);
  return __builtin_memmove(to, from, bytes);
}
WW_UNINSTRUMENTED void* ww_memset(void* to, int value, size_t bytes, WW_LINE) {
  ww_check_access(to, bytes, 1, line);
  return __builtin_memset(to, value, bytes);
}
namespace std {
using ::ww_memcpy;
using ::ww_memmove;
using ::ww_memset;
}  // namespace std
#define memcpy ww_memcpy
#define memmove ww_memmove
#define memset ww_memset

// As on a GPU, an address that is already in the shared window stays.
WW_INLINE size_t __cvta_generic_to_shared(const void* p) {
  const size_t address = reinterpret_cast<size_t>(p);
  return address <= 0xffffffffu ? address : ww_to_shared(p);
}
WW_INLINE void* __cvta_shared_to_generic(size_t address) { return ww_from_shared(address); }
WW_INLINE size_t __cvta_generic_to_global(const void* p) { return reinterpret_cast<size_t>(p); }
WW_INLINE void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
WW_INLINE size_t __cvta_generic_to_constant(const void* p) { return reinterpret_cast<size_t>(p); }
WW_INLINE void* __cvta_constant_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
WW_INLINE size_t __cvta_generic_to_local(const void* p) { return reinterpret_cast<size_t>(p); }
WW_INLINE void* __cvta_local_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
WW_INLINE unsigned __isShared(const void* p) { return ww_state_space(p) == WW_SHARED_SPACE; }
WW_INLINE unsigned __isCtaShared(const void* p) { return __isShared(p); }
WW_INLINE unsigned __isClusterShared(const void* p) { return ww_shared_rank(p) >= 0; }
WW_INLINE unsigned __isGlobal(const void* p) { return ww_state_space(p) == WW_GLOBAL_SPACE; }
WW_INLINE unsigned __isLocal(const void* p) { return ww_state_space(p) == WW_LOCAL_SPACE; }
WW_INLINE unsigned __isConstant(const void* p) { return ww_state_space(p) == WW_CONSTANT_SPACE; }
