// The type __nv_fp8_e8m0 of scale factors, its conversions and its vectors. cuda_fp8.h includes this file.
#pragma once

#define WW_E8M0(SHORT, FROM, VALUE)                                                                                 \
  WW_INLINE __nv_fp8_storage_t __nv_cvt_##SHORT##_to_e8m0(FROM x, __nv_saturation_t saturation, cudaRoundMode mode, \
                                                          WW_LINE) {                                                \
    return ww::e8m0_bits(VALUE, saturation, mode, line);                                                            \
  }
#define WW_E8M0_PAIR(SHORT, FROM, FIRST, SECOND)                                                    \
  WW_INLINE __nv_fp8x2_storage_t __nv_cvt_##SHORT##_to_e8m0x2(FROM x, __nv_saturation_t saturation, \
                                                              cudaRoundMode mode, WW_LINE) {        \
    return static_cast<__nv_fp8x2_storage_t>(ww::e8m0_bits(FIRST, saturation, mode, line) |         \
                                             ww::e8m0_bits(SECOND, saturation, mode, line) << 8);   \
  }
WW_E8M0(float, float, x)
WW_E8M0(double, double, ww::to_odd(x))
WW_E8M0(bfloat16raw, __nv_bfloat16_raw, ww::bfloat16_value(x.x))
WW_E8M0_PAIR(float2, float2, x.x, x.y)
WW_E8M0_PAIR(double2, double2, ww::to_odd(x.x), ww::to_odd(x.y))
WW_E8M0_PAIR(bfloat162raw, __nv_bfloat162_raw, ww::bfloat16_value(x.x), ww::bfloat16_value(x.y))
#undef WW_E8M0
#undef WW_E8M0_PAIR
WW_INLINE __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) {
  return {ww::bfloat16_bits(ww::e8m0_value(x))};
}
WW_INLINE __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t x) {
  return {__nv_cvt_e8m0_to_bf16raw(static_cast<unsigned char>(x)).x,
          __nv_cvt_e8m0_to_bf16raw(static_cast<unsigned char>(x >> 8)).x};
}

// Conversions are explicit, round up, and saturate to 2^127.
struct __nv_fp8_e8m0 {
  __nv_fp8_storage_t __x;
  __nv_fp8_e8m0() = default;
  explicit __nv_fp8_e8m0(float f) : __x(__nv_cvt_float_to_e8m0(f, __NV_SATFINITE, cudaRoundPosInf)) {}
  explicit __nv_fp8_e8m0(double f) : __nv_fp8_e8m0(ww::to_odd(f)) {}
  explicit __nv_fp8_e8m0(__half h) : __nv_fp8_e8m0(ww::value(h)) {}
  explicit __nv_fp8_e8m0(__nv_bfloat16 h) : __nv_fp8_e8m0(ww::value(h)) {}
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  explicit __nv_fp8_e8m0(T value) : __nv_fp8_e8m0(ww::narrowed(value)) {}
  explicit operator float() const { return ww::e8m0_value(__x); }
  explicit operator double() const { return ww::e8m0_value(__x); }
  explicit operator __half() const { return __half(ww::e8m0_value(__x)); }
  explicit operator __nv_bfloat16() const { return __nv_bfloat16(__nv_cvt_e8m0_to_bf16raw(__x)); }
  explicit operator bool() const { return true; }
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  explicit operator T() const {
    return ww::to_integer<T, ww::Rounding::zero>(ww::e8m0_value(__x));
  }
};
struct __attribute__((aligned(2))) __nv_fp8x2_e8m0 {
  __nv_fp8x2_storage_t __x;
  __nv_fp8x2_e8m0() = default;
  explicit __nv_fp8x2_e8m0(float2 f) : __x(__nv_cvt_float2_to_e8m0x2(f, __NV_SATFINITE, cudaRoundPosInf)) {}
  explicit __nv_fp8x2_e8m0(double2 f) : __x(__nv_cvt_double2_to_e8m0x2(f, __NV_SATFINITE, cudaRoundPosInf)) {}
  explicit __nv_fp8x2_e8m0(__half2 f) : __nv_fp8x2_e8m0(__half22float2(f)) {}
  explicit __nv_fp8x2_e8m0(__nv_bfloat162 f)
      : __x(__nv_cvt_bfloat162raw_to_e8m0x2(f, __NV_SATFINITE, cudaRoundPosInf)) {}
  explicit operator float2() const {
    return {ww::e8m0_value(static_cast<unsigned char>(__x)), ww::e8m0_value(static_cast<unsigned char>(__x >> 8))};
  }
  explicit operator __nv_bfloat162() const { return __nv_bfloat162(__nv_cvt_e8m0x2_to_bf162raw(__x)); }
  explicit operator __half2() const { return __float22half2_rn(static_cast<float2>(*this)); }
};
struct __attribute__((aligned(4))) __nv_fp8x4_e8m0 {
  __nv_fp8x4_storage_t __x;
  __nv_fp8x4_e8m0() = default;
  explicit __nv_fp8x4_e8m0(float4 f)
      : __x(__nv_fp8x2_e8m0(float2{f.x, f.y}).__x | unsigned(__nv_fp8x2_e8m0(float2{f.z, f.w}).__x) << 16) {}
  explicit __nv_fp8x4_e8m0(double4 f)
      : __x(__nv_fp8x2_e8m0(double2{f.x, f.y}).__x | unsigned(__nv_fp8x2_e8m0(double2{f.z, f.w}).__x) << 16) {}
  explicit __nv_fp8x4_e8m0(__half2 low, __half2 high)
      : __x(__nv_fp8x2_e8m0(low).__x | unsigned(__nv_fp8x2_e8m0(high).__x) << 16) {}
  explicit __nv_fp8x4_e8m0(__nv_bfloat162 low, __nv_bfloat162 high)
      : __x(__nv_fp8x2_e8m0(low).__x | unsigned(__nv_fp8x2_e8m0(high).__x) << 16) {}
  explicit operator float4() const {
    const auto at = [this](int byte) { return ww::e8m0_value(static_cast<unsigned char>(__x >> (8 * byte))); };
    return {at(0), at(1), at(2), at(3)};
  }
};
