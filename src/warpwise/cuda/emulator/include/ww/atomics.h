// Atomic functions at block, device and system scope. All CUDA threads are fibers of one OS thread, so a plain
// read-modify-write is atomic. ww_atomic reports each one to the runtime as a strong access.
#pragma once

namespace ww {
template <class T, class... Allowed>
constexpr bool is_one_of = (std::is_same_v<T, Allowed> || ...);

// Scope: 0 block, 1 device, 2 system.
template <int Scope = 1, class T, class F>
WW_UNINSTRUMENTED auto read_modify_write(T* address, const char* what, int line, F next) {
  ww_atomic(address, sizeof(T), what, line, Scope);
  const T old = *address;
  *address = next(old);
  return old;
}
typedef unsigned long long ull;

// Signed overflow wraps around.
WW_INLINE int wrap_add(int a, int b) { return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)); }
template <class T>
WW_INLINE auto wrap_add(T a, T b) {
  return a + b;
}
}  // namespace ww

#define WW_ATOMIC_OF_SCOPE(NAME, SCOPE, WHAT, TYPES, ...)                                                         \
  template <class T>                                                                                              \
  WW_INLINE T NAME(T* address, ww::same_t<T> value, WW_LINE) {                                                    \
    static_assert(ww::is_one_of<T, WW_ATOMIC_##TYPES>, WHAT " has no overload for this type in CUDA");            \
    return ww::read_modify_write<SCOPE>(address, WHAT, line, [&](T old) { return static_cast<T>(__VA_ARGS__); }); \
  }
#define WW_ATOMIC(NAME, TYPES, ...)                              \
  WW_ATOMIC_OF_SCOPE(NAME, 1, #NAME, TYPES, __VA_ARGS__)         \
  WW_ATOMIC_OF_SCOPE(NAME##_block, 0, #NAME, TYPES, __VA_ARGS__) \
  WW_ATOMIC_OF_SCOPE(NAME##_system, 2, #NAME, TYPES, __VA_ARGS__)
#define WW_ATOMIC_SUM int, unsigned, ww::ull, float, double
#define WW_ATOMIC_DIFFERENCE int, unsigned
#define WW_ATOMIC_ORDER int, unsigned, long long, ww::ull
#define WW_ATOMIC_BITS int, unsigned, ww::ull
#define WW_ATOMIC_COUNT unsigned
WW_ATOMIC(atomicAdd, SUM, ww::wrap_add(old, value))
WW_ATOMIC(atomicSub, DIFFERENCE, static_cast<unsigned>(old) - static_cast<unsigned>(value))
WW_ATOMIC(atomicMin, ORDER, value < old ? value : old)
WW_ATOMIC(atomicMax, ORDER, value > old ? value : old)
WW_ATOMIC(atomicAnd, BITS, old& value)
WW_ATOMIC(atomicOr, BITS, old | value)
WW_ATOMIC(atomicXor, BITS, old ^ value)
WW_ATOMIC(atomicInc, COUNT, old >= value ? 0 : old + 1)
WW_ATOMIC(atomicDec, COUNT, old == 0 || old > value ? value : old - 1)
#undef WW_ATOMIC
#undef WW_ATOMIC_OF_SCOPE

#define WW_EXCHANGE(NAME, SCOPE)                                                                       \
  template <class T>                                                                                   \
  WW_INLINE T NAME(T* address, ww::same_t<T> value, WW_LINE) {                                         \
    constexpr bool wide = sizeof(T) == 16 && alignof(T) >= 16 && std::is_trivially_copyable_v<T>;      \
    static_assert(wide || ww::is_one_of<T, int, unsigned, ww::ull, float>,                             \
                  "atomicExch has no overload for this type in CUDA");                                 \
    return ww::read_modify_write<SCOPE>(address, "atomicExch", line, [&](const T&) { return value; }); \
  }
WW_EXCHANGE(atomicExch, 1)
WW_EXCHANGE(atomicExch_block, 0)
WW_EXCHANGE(atomicExch_system, 2)
#undef WW_EXCHANGE

namespace ww {
template <int Scope, class T>
WW_INLINE T compare_and_swap(T* address, T compare, T value, int line) {
  static_assert(
      std::is_trivially_copyable_v<T> && (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16),
      "atomicCAS takes 2, 4, 8 or 16 bytes");
  return read_modify_write<Scope>(address, "atomicCAS", line, [&](const T& old) {
    return __builtin_memcmp(static_cast<const void*>(&old), static_cast<const void*>(&compare), sizeof(T)) == 0 ? value
                                                                                                                : old;
  });
}
}  // namespace ww

template <class T>
WW_INLINE T atomicCAS(T* address, ww::same_t<T> compare, ww::same_t<T> value, WW_LINE) {
  return ww::compare_and_swap<1, T>(address, compare, value, line);
}
template <class T>
WW_INLINE T atomicCAS_block(T* address, ww::same_t<T> compare, ww::same_t<T> value, WW_LINE) {
  return ww::compare_and_swap<0, T>(address, compare, value, line);
}
template <class T>
WW_INLINE T atomicCAS_system(T* address, ww::same_t<T> compare, ww::same_t<T> value, WW_LINE) {
  return ww::compare_and_swap<2, T>(address, compare, value, line);
}

// Each element is a separate atomic operation.
WW_INLINE float2 atomicAdd(float2* address, float2 value, WW_LINE) {
  return {atomicAdd(&address->x, value.x, line), atomicAdd(&address->y, value.y, line)};
}
WW_INLINE float4 atomicAdd(float4* address, float4 value, WW_LINE) {
  return {atomicAdd(&address->x, value.x, line), atomicAdd(&address->y, value.y, line),
          atomicAdd(&address->z, value.z, line), atomicAdd(&address->w, value.w, line)};
}
