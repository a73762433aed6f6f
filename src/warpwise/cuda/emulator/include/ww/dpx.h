// The functions for dynamic programming (DPX): minima and maxima of two or three numbers, of a sum and a number
// (__viaddmax_s32), with a lower bound of zero (..._relu), and with the comparison's result (__vibmax_s32). The forms
// s16x2 and u16x2 take the halves of a word. Sums wrap around.
#pragma once

namespace ww {
template <class T, class F>
WW_INLINE auto halves(unsigned a, unsigned b, unsigned c, F operation) {
  const auto low = operation(T(a), T(b), T(c)), high = operation(T(a >> 16), T(b >> 16), T(c >> 16));
  return static_cast<unsigned>(static_cast<unsigned short>(low)) | static_cast<unsigned>(high) << 16;
}
template <class T>
WW_INLINE auto wrapped_sum(T a, T b) {
  return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}
template <class T>
WW_INLINE auto larger(T a, T b) {
  return a >= b ? a : b;
}
template <class T>
WW_INLINE auto smaller(T a, T b) {
  return a <= b ? a : b;
}
}  // namespace ww

#define WW_DPX(NAME, SUFFIX, WORD, T, ...)                                                       \
  WW_INLINE WORD __vi##NAME##_##SUFFIX(WORD a, WORD b, WORD c) {                                 \
    return ww::apply_dpx<T>(a, b, c, [](T x, T y, T z) { return static_cast<T>(__VA_ARGS__); }); \
  }
#define WW_DPX_OF_TWO(NAME, SUFFIX, WORD, T, ...)                                                    \
  WW_INLINE WORD __vi##NAME##_##SUFFIX(WORD a, WORD b) {                                             \
    return ww::apply_dpx<T>(a, b, WORD(0), [](T x, T y, T) { return static_cast<T>(__VA_ARGS__); }); \
  }
#define WW_DPX_OF(SUFFIX, WORD, T)                                      \
  WW_DPX(max3, SUFFIX, WORD, T, ww::larger(ww::larger(x, y), z))        \
  WW_DPX(min3, SUFFIX, WORD, T, ww::smaller(ww::smaller(x, y), z))      \
  WW_DPX(addmax, SUFFIX, WORD, T, ww::larger(ww::wrapped_sum(x, y), z)) \
  WW_DPX(addmin, SUFFIX, WORD, T, ww::smaller(ww::wrapped_sum(x, y), z))
#define WW_DPX_RELU(SUFFIX, WORD, T)                                                             \
  WW_DPX_OF_TWO(max, SUFFIX##_relu, WORD, T, ww::larger(ww::larger(x, y), T(0)))                 \
  WW_DPX_OF_TWO(min, SUFFIX##_relu, WORD, T, ww::larger(ww::smaller(x, y), T(0)))                \
  WW_DPX(max3, SUFFIX##_relu, WORD, T, ww::larger(ww::larger(ww::larger(x, y), z), T(0)))        \
  WW_DPX(min3, SUFFIX##_relu, WORD, T, ww::larger(ww::smaller(ww::smaller(x, y), z), T(0)))      \
  WW_DPX(addmax, SUFFIX##_relu, WORD, T, ww::larger(ww::larger(ww::wrapped_sum(x, y), z), T(0))) \
  WW_DPX(addmin, SUFFIX##_relu, WORD, T, ww::larger(ww::smaller(ww::wrapped_sum(x, y), z), T(0)))
#define WW_DPX_PREDICATE(SUFFIX, T)                          \
  WW_INLINE T __vibmax_##SUFFIX(T a, T b, bool* predicate) { \
    *predicate = a >= b;                                     \
    return ww::larger(a, b);                                 \
  }                                                          \
  WW_INLINE T __vibmin_##SUFFIX(T a, T b, bool* predicate) { \
    *predicate = a <= b;                                     \
    return ww::smaller(a, b);                                \
  }
#define WW_DPX_PREDICATES(SUFFIX, T)                                                    \
  WW_INLINE unsigned __vibmax_##SUFFIX(unsigned a, unsigned b, bool* high, bool* low) { \
    *high = T(a >> 16) >= T(b >> 16);                                                   \
    *low = T(a) >= T(b);                                                                \
    return ww::halves<T>(a, b, 0, [](T x, T y, T) { return ww::larger(x, y); });        \
  }                                                                                     \
  WW_INLINE unsigned __vibmin_##SUFFIX(unsigned a, unsigned b, bool* high, bool* low) { \
    *high = T(a >> 16) <= T(b >> 16);                                                   \
    *low = T(a) <= T(b);                                                                \
    return ww::halves<T>(a, b, 0, [](T x, T y, T) { return ww::smaller(x, y); });       \
  }

namespace ww {
template <class T, class Word, class F>
WW_INLINE auto apply_dpx(Word a, Word b, Word c, F operation) {
  if constexpr (sizeof(T) == 2)
    return halves<T>(a, b, c, operation);
  else
    return operation(a, b, c);
}
}  // namespace ww

WW_DPX_OF(s32, int, int)
WW_DPX_OF(u32, unsigned, unsigned)
WW_DPX_OF(s16x2, unsigned, short)
WW_DPX_OF(u16x2, unsigned, unsigned short)
WW_DPX_RELU(s32, int, int)
WW_DPX_RELU(s16x2, unsigned, short)
WW_DPX_PREDICATE(s32, int)
WW_DPX_PREDICATE(u32, unsigned)
WW_DPX_PREDICATES(s16x2, short)
WW_DPX_PREDICATES(u16x2, ushort)
#undef WW_DPX
#undef WW_DPX_OF_TWO
#undef WW_DPX_OF
#undef WW_DPX_RELU
#undef WW_DPX_PREDICATE
#undef WW_DPX_PREDICATES
