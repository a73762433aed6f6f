// SIMD video instructions: four bytes or two 16-bit halves of a word at a time (__vadd4, __vmaxs2, ...).
#pragma once

namespace ww {
template <class T, class F>
WW_INLINE auto lanes(unsigned a, unsigned b, F operation) {
  constexpr int width = 8 * static_cast<int>(sizeof(T));
  unsigned result = 0;
  for (int at = 0; at < 32; at += width)
    result |= (static_cast<unsigned>(operation(int(T(a >> at)), int(T(b >> at)))) & (0xffffffffu >> (32 - width)))
              << at;
  return result;
}
template <class T>
WW_INLINE auto saturate(int x) {
  constexpr int top = T(-1) < T(0) ? (1 << (8 * sizeof(T) - 1)) - 1 : (1 << (8 * sizeof(T))) - 1;
  constexpr int bottom = T(-1) < T(0) ? -top - 1 : 0;
  return x < bottom ? bottom : x > top ? top : x;
}
}  // namespace ww

#define WW_SIMD(NAME, T, ...)                                            \
  WW_INLINE unsigned NAME(unsigned a, unsigned b) {                      \
    return ww::lanes<T>(a, b, [](int x, int y) { return __VA_ARGS__; }); \
  }
#define WW_SIMD_WIDTH(N, S, U)                                                             \
  WW_SIMD(__vadd##N, U, x + y)                                                             \
  WW_SIMD(__vsub##N, U, x - y)                                                             \
  WW_SIMD(__vaddss##N, S, ww::saturate<S>(x + y))                                          \
  WW_SIMD(__vaddus##N, U, ww::saturate<U>(x + y))                                          \
  WW_SIMD(__vsubss##N, S, ww::saturate<S>(x - y))                                          \
  WW_SIMD(__vsubus##N, U, ww::saturate<U>(x - y))                                          \
  WW_SIMD(__vavgs##N, S, (x + y + (x + y >= 0)) >> 1)                                      \
  WW_SIMD(__vavgu##N, U, (x + y + 1) >> 1)                                                 \
  WW_SIMD(__vhaddu##N, U, (x + y) >> 1)                                                    \
  WW_SIMD(__vmaxs##N, S, x > y ? x : y)                                                    \
  WW_SIMD(__vmaxu##N, U, x > y ? x : y)                                                    \
  WW_SIMD(__vmins##N, S, x < y ? x : y)                                                    \
  WW_SIMD(__vminu##N, U, x < y ? x : y)                                                    \
  WW_SIMD(__vabsdiffs##N, S, x > y ? x - y : y - x)                                        \
  WW_SIMD(__vabsdiffu##N, U, x > y ? x - y : y - x)                                        \
  WW_SIMD(__vcmpeq##N, U, -(x == y))                                                       \
  WW_SIMD(__vcmpne##N, U, -(x != y))                                                       \
  WW_SIMD(__vcmpges##N, S, -(x >= y))                                                      \
  WW_SIMD(__vcmpgeu##N, U, -(x >= y))                                                      \
  WW_SIMD(__vcmpgts##N, S, -(x > y))                                                       \
  WW_SIMD(__vcmpgtu##N, U, -(x > y))                                                       \
  WW_SIMD(__vcmples##N, S, -(x <= y))                                                      \
  WW_SIMD(__vcmpleu##N, U, -(x <= y))                                                      \
  WW_SIMD(__vcmplts##N, S, -(x < y))                                                       \
  WW_SIMD(__vcmpltu##N, U, -(x < y))                                                       \
  WW_SIMD(__vseteq##N, U, x == y)                                                          \
  WW_SIMD(__vsetne##N, U, x != y)                                                          \
  WW_SIMD(__vsetges##N, S, x >= y)                                                         \
  WW_SIMD(__vsetgeu##N, U, x >= y)                                                         \
  WW_SIMD(__vsetgts##N, S, x > y)                                                          \
  WW_SIMD(__vsetgtu##N, U, x > y)                                                          \
  WW_SIMD(__vsetles##N, S, x <= y)                                                         \
  WW_SIMD(__vsetleu##N, U, x <= y)                                                         \
  WW_SIMD(__vsetlts##N, S, x < y)                                                          \
  WW_SIMD(__vsetltu##N, U, x < y)                                                          \
  WW_INLINE unsigned __vneg##N(unsigned a) { return __vsub##N(0, a); }                     \
  WW_INLINE unsigned __vnegss##N(unsigned a) { return __vsubss##N(0, a); }                 \
  WW_INLINE unsigned __vabs##N(unsigned a) {                                               \
    return ww::lanes<S>(a, 0, [](int x, int) { return x < 0 ? -x : x; });                  \
  }                                                                                        \
  WW_INLINE unsigned __vabsss##N(unsigned a) {                                             \
    return ww::lanes<S>(a, 0, [](int x, int) { return ww::saturate<S>(x < 0 ? -x : x); }); \
  }                                                                                        \
  WW_INLINE unsigned __vsads##N(unsigned a, unsigned b) {                                  \
    unsigned sum = 0;                                                                      \
    ww::lanes<S>(a, b, [&](int x, int y) { return sum += x > y ? x - y : y - x, 0; });     \
    return sum;                                                                            \
  }                                                                                        \
  WW_INLINE unsigned __vsadu##N(unsigned a, unsigned b) {                                  \
    unsigned sum = 0;                                                                      \
    ww::lanes<U>(a, b, [&](int x, int y) { return sum += x > y ? x - y : y - x, 0; });     \
    return sum;                                                                            \
  }
WW_SIMD_WIDTH(4, signed char, unsigned char)
WW_SIMD_WIDTH(2, short, unsigned short)
#undef WW_SIMD_WIDTH
#undef WW_SIMD
