// Integer intrinsics: bit counts, byte permutation, high halves of products, funnel shifts and dot products.
#pragma once

WW_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
WW_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
WW_INLINE int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
WW_INLINE int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
WW_INLINE int __ffs(int x) { return __builtin_ffs(x); }
WW_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
WW_INLINE unsigned long long __brevll(unsigned long long x) {
  x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
  x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0full) | (x & 0x0f0f0f0f0f0f0f0full) << 4;
  return __builtin_bswap64(x);
}
WW_INLINE unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }
// The position of the n-th set bit of mask, counted from base upwards (n > 0) or downwards (n < 0); -1 if there is
// none.
WW_INLINE unsigned __fns(unsigned mask, unsigned base, int n) {
  if (n == 0) return mask >> (base & 31) & 1 ? base : 0xffffffffu;
  const int step = n > 0 ? 1 : -1;
  int left = n > 0 ? n : -n;
  for (int bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step)
    if (mask >> bit & 1 && --left == 0) return static_cast<unsigned>(bit);
  return 0xffffffffu;
}

namespace ww {
// PTX prmt: each selector nibble picks one of the eight bytes of y:x; its top bit replicates that byte's sign.
WW_INLINE unsigned permuted_bytes(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned pick = selector >> (4 * i) & 15, byte = static_cast<unsigned>(both >> (8 * (pick & 7))) & 255;
    result |= (pick & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
  }
  return result;
}
}  // namespace ww

// The top bit of a selector nibble has no effect, unlike in PTX prmt.
WW_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  return ww::permuted_bytes(x, y, selector & 0x7777);
}

WW_INLINE int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
WW_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
WW_INLINE long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
WW_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
WW_INLINE int mulhi(int a, int b) { return __mulhi(a, b); }
WW_INLINE unsigned mulhi(unsigned a, unsigned b) { return __umulhi(a, b); }
WW_INLINE long long mul64hi(long long a, long long b) { return __mul64hi(a, b); }
// Multiplies the low 24 bits of the operands.
WW_INLINE int __mul24(int a, int b) { return static_cast<int>(unsigned(a << 8 >> 8) * unsigned(b << 8 >> 8)); }
WW_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
WW_INLINE int mul24(int a, int b) { return __mul24(a, b); }
WW_INLINE unsigned umul24(unsigned a, unsigned b) { return __umul24(a, b); }
WW_INLINE unsigned __sad(int a, int b, unsigned c) {
  return c + (a > b ? unsigned(a) - unsigned(b) : unsigned(b) - unsigned(a));
}
WW_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
WW_INLINE int __hadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b) >> 1); }
WW_INLINE int __rhadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b + 1) >> 1); }
WW_INLINE unsigned __uhadd(unsigned a, unsigned b) { return static_cast<unsigned>((0ull + a + b) >> 1); }
WW_INLINE unsigned __urhadd(unsigned a, unsigned b) { return static_cast<unsigned>((1ull + a + b) >> 1); }

// Shifts hi:lo by shift mod 32, or by min(shift, 32) in the _lc and _rc forms.
WW_INLINE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(hi) << 32 | lo) << (shift & 31) >> 32);
}
WW_INLINE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(hi) << 32 | lo) >> (shift & 31));
}
WW_INLINE unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned shift) {
  return shift >= 32 ? lo : __funnelshift_l(lo, hi, shift);
}
WW_INLINE unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned shift) {
  return shift >= 32 ? hi : __funnelshift_r(lo, hi, shift);
}

namespace ww {
// c plus a dot product: dot4 (dp4a) of four bytes of a and b, dot2 (dp2a) of two 16-bit values of a and two bytes of b.
template <class A, class B, class R>
WW_INLINE auto dot4(unsigned a, unsigned b, R c) {
  for (int i = 0; i < 4; ++i) c = R(unsigned(c) + unsigned(int(A(a >> (8 * i))) * int(B(b >> (8 * i)))));
  return c;
}
template <class A, class B, class R>
WW_INLINE auto dot2(unsigned a, unsigned b, R c, int half) {
  for (int i = 0; i < 2; ++i) c = R(unsigned(c) + unsigned(int(A(a >> (16 * i))) * int(B(b >> (8 * (i + 2 * half))))));
  return c;
}
}  // namespace ww

WW_INLINE int __dp4a(int a, int b, int c) { return ww::dot4<signed char, signed char>(a, b, c); }
WW_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  return ww::dot4<unsigned char, unsigned char>(a, b, c);
}
WW_INLINE int __dp4a(char4 a, char4 b, int c) { return __dp4a(ww::bits<int>(a), ww::bits<int>(b), c); }
WW_INLINE unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
  return __dp4a(ww::bits<unsigned>(a), ww::bits<unsigned>(b), c);
}
WW_INLINE int __dp2a_lo(int a, int b, int c) { return ww::dot2<short, signed char>(a, b, c, 0); }
WW_INLINE int __dp2a_hi(int a, int b, int c) { return ww::dot2<short, signed char>(a, b, c, 1); }
WW_INLINE unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
  return ww::dot2<unsigned short, unsigned char>(a, b, c, 0);
}
WW_INLINE unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) {
  return ww::dot2<unsigned short, unsigned char>(a, b, c, 1);
}
