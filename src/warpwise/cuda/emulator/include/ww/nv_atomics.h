// The atomic functions that CUDA's compiler has built in since CUDA 12.8 (__nv_atomic_load_n, __nv_atomic_fetch_add,
// ...), whose order and scope are arguments.
#pragma once

#define __NV_ATOMIC_RELAXED 0
#define __NV_ATOMIC_CONSUME 1
#define __NV_ATOMIC_ACQUIRE 2
#define __NV_ATOMIC_RELEASE 3
#define __NV_ATOMIC_ACQ_REL 4
#define __NV_ATOMIC_SEQ_CST 5
#define __NV_THREAD_SCOPE_THREAD 0
#define __NV_THREAD_SCOPE_BLOCK 1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE 3
#define __NV_THREAD_SCOPE_SYSTEM 4

namespace ww {
// The scope of ww_fence, and the order of ww_atomic.
constexpr int runtime_scope(int scope) {
  return scope == __NV_THREAD_SCOPE_SYSTEM ? 2 : scope >= __NV_THREAD_SCOPE_CLUSTER ? 1 : 0;
}
constexpr unsigned runtime_order(int order) {
  return (order != __NV_ATOMIC_RELAXED && order != __NV_ATOMIC_RELEASE ? 1u : 0u) |
         (order >= __NV_ATOMIC_RELEASE ? 2u : 0u);
}
template <class T>
WW_UNINSTRUMENTED void builtin_access(T* address, int write, int order, int scope, int line) {
  if (!write) ww_yield(line);
  if (scope == __NV_THREAD_SCOPE_THREAD)
    ww_check_access(const_cast<void*>(static_cast<const volatile void*>(address)), sizeof(T), write, line);
  else
    ww_strong_access(const_cast<void*>(static_cast<const volatile void*>(address)), sizeof(T), write, line,
                     runtime_scope(scope), runtime_order(order) & (write ? 2u : 1u));
}
template <class T, class F>
WW_UNINSTRUMENTED T builtin_update(T* address, int order, int scope, const char* what, int line, F next) {
  if (scope == __NV_THREAD_SCOPE_THREAD) {
    ww_check_access(address, sizeof(T), 0, line);
    ww_check_access(address, sizeof(T), 1, line);
  } else {
    ww_atomic(address, sizeof(T), what, line, runtime_scope(scope), runtime_order(order));
  }
  const T old = *address;
  *address = next(old);
  return old;
}
}  // namespace ww

WW_INLINE void __nv_atomic_thread_fence(int order, int scope) {
  if (order != __NV_ATOMIC_RELAXED && scope != __NV_THREAD_SCOPE_THREAD) ww_fence(ww::runtime_scope(scope));
}
WW_INLINE void __nv_atomic_signal_fence(int) {}

template <class T>
WW_UNINSTRUMENTED std::remove_cv_t<T> __nv_atomic_load_n(T* address, int order, int scope = __NV_THREAD_SCOPE_SYSTEM,
                                                         WW_LINE) {
  ww::builtin_access(address, 0, order, scope, line);
  return *address;
}
template <class T>
WW_UNINSTRUMENTED void __nv_atomic_load(const T* address, T* result, int order, int scope = __NV_THREAD_SCOPE_SYSTEM,
                                        WW_LINE) {
  ww::builtin_access(address, 0, order, scope, line);
  *result = *address;
}
template <class T>
WW_UNINSTRUMENTED void __nv_atomic_store_n(T* address, ww::same_t<T> value, int order,
                                           int scope = __NV_THREAD_SCOPE_SYSTEM, WW_LINE) {
  ww::builtin_access(address, 1, order, scope, line);
  *address = value;
}
template <class T>
WW_UNINSTRUMENTED void __nv_atomic_store(T* address, const T* value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM,
                                         WW_LINE) {
  ww::builtin_access(address, 1, order, scope, line);
  *address = *value;
}
template <class T>
WW_INLINE T __nv_atomic_exchange_n(T* address, ww::same_t<T> value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM,
                                   WW_LINE) {
  return ww::builtin_update(address, order, scope, "__nv_atomic_exchange", line, [=](T) { return value; });
}
template <class T>
WW_INLINE void __nv_atomic_exchange(T* address, const T* value, T* result, int order,
                                    int scope = __NV_THREAD_SCOPE_SYSTEM, WW_LINE) {
  *result = __nv_atomic_exchange_n(address, *value, order, scope, line);
}
// A comparison that fails is a read with the order `failure`.
template <class T>
WW_UNINSTRUMENTED bool __nv_atomic_compare_exchange_n(T* address, T* expected, ww::same_t<T> value, bool, int success,
                                                      int failure, int scope = __NV_THREAD_SCOPE_SYSTEM, WW_LINE) {
  if (*address != *expected) {
    ww::builtin_access(address, 0, failure, scope, line);
    if (const T read = *address; read != *expected) {
      *expected = read;
      return false;
    }
  }
  const T compare = *expected;
  *expected = ww::builtin_update(address, success, scope, "__nv_atomic_compare_exchange", line,
                                 [=](T old) { return old == compare ? value : old; });
  return *expected == compare;
}
template <class T>
WW_INLINE bool __nv_atomic_compare_exchange(T* address, T* expected, const T* value, bool weak, int success,
                                            int failure, int scope = __NV_THREAD_SCOPE_SYSTEM, WW_LINE) {
  return __nv_atomic_compare_exchange_n(address, expected, *value, weak, success, failure, scope, line);
}

#define WW_BUILTIN_ATOMIC(NAME, ...)                                                                                  \
  template <class T>                                                                                                  \
  WW_INLINE T __nv_atomic_fetch_##NAME(T* address, ww::same_t<T> value, int order,                                    \
                                       int scope = __NV_THREAD_SCOPE_SYSTEM, WW_LINE) {                               \
    return ww::builtin_update(address, order, scope, "__nv_atomic_fetch_" #NAME, line,                                \
                              [=](T old) { return static_cast<T>(__VA_ARGS__); });                                    \
  }                                                                                                                   \
  template <class T>                                                                                                  \
  WW_INLINE void __nv_atomic_##NAME(T* address, ww::same_t<T> value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM, \
                                    WW_LINE) {                                                                        \
    ww::builtin_update(address, order, scope, "__nv_atomic_" #NAME, line,                                             \
                       [=](T old) { return static_cast<T>(__VA_ARGS__); });                                           \
  }
WW_BUILTIN_ATOMIC(add, ww::wrap_add(old, value))
WW_BUILTIN_ATOMIC(sub, ww::wrap_add(old, static_cast<T>(-value)))
WW_BUILTIN_ATOMIC(and, old& value)
WW_BUILTIN_ATOMIC(or, old | value)
WW_BUILTIN_ATOMIC(xor, old ^ value)
WW_BUILTIN_ATOMIC(min, value < old ? value : old)
WW_BUILTIN_ATOMIC(max, value > old ? value : old)
#undef WW_BUILTIN_ATOMIC
