// Arithmetic of CUDA's vector types, in host and device code, by the names of the header of NVIDIA's samples. A
// project's own helper_math.h is found first.
#pragma once
#include <cuda_runtime.h>

typedef unsigned int uint;
typedef unsigned short ushort;

#define WW_MATH static inline __host__ __device__

// Lists of components: of an operator between vectors a and b, or between a vector and a scalar s, and of calls of f.
#define WW_PAIR2(a, op, b) a.x op b.x, a.y op b.y
#define WW_PAIR3(a, op, b) WW_PAIR2(a, op, b), a.z op b.z
#define WW_PAIR4(a, op, b) WW_PAIR3(a, op, b), a.w op b.w
#define WW_LEFT2(a, op, s) a.x op s, a.y op s
#define WW_LEFT3(a, op, s) WW_LEFT2(a, op, s), a.z op s
#define WW_LEFT4(a, op, s) WW_LEFT3(a, op, s), a.w op s
#define WW_RIGHT2(s, op, b) s op b.x, s op b.y
#define WW_RIGHT3(s, op, b) WW_RIGHT2(s, op, b), s op b.z
#define WW_RIGHT4(s, op, b) WW_RIGHT3(s, op, b), s op b.w
#define WW_OF2(f, a) f(a.x), f(a.y)
#define WW_OF3(f, a) WW_OF2(f, a), f(a.z)
#define WW_OF4(f, a) WW_OF3(f, a), f(a.w)
#define WW_BOTH2(f, a, b) f(a.x, b.x), f(a.y, b.y)
#define WW_BOTH3(f, a, b) WW_BOTH2(f, a, b), f(a.z, b.z)
#define WW_BOTH4(f, a, b) WW_BOTH3(f, a, b), f(a.w, b.w)
#define WW_SAME2(s) s, s
#define WW_SAME3(s) s, s, s
#define WW_SAME4(s) s, s, s, s
#define WW_SUM2(a, b) a.x* b.x + a.y* b.y
#define WW_SUM3(a, b) WW_SUM2(a, b) + a.z* b.z
#define WW_SUM4(a, b) WW_SUM3(a, b) + a.w* b.w

#define WW_OPERATOR(V, S, n, op)                                              \
  WW_MATH V operator op(V a, V b) { return make_##V(WW_PAIR##n(a, op, b)); }  \
  WW_MATH V operator op(V a, S s) { return make_##V(WW_LEFT##n(a, op, s)); }  \
  WW_MATH V operator op(S s, V b) { return make_##V(WW_RIGHT##n(s, op, b)); } \
  WW_MATH void operator op## = (V & a, V b) { a = a op b; }                   \
  WW_MATH void operator op## = (V & a, S s) { a = a op s; }

#define WW_VECTOR(V, S, n, least, most)                                   \
  WW_OPERATOR(V, S, n, +)                                                 \
  WW_OPERATOR(V, S, n, -)                                                 \
  WW_OPERATOR(V, S, n, *)                                                 \
  WW_OPERATOR(V, S, n, /)                                                 \
  WW_MATH V make_##V(S s) { return make_##V(WW_SAME##n(s)); }             \
  WW_MATH S dot(V a, V b) { return WW_SUM##n(a, b); }                     \
  WW_MATH V least(V a, V b) { return make_##V(WW_BOTH##n(least, a, b)); } \
  WW_MATH V most(V a, V b) { return make_##V(WW_BOTH##n(most, a, b)); }   \
  WW_MATH V clamp(V x, V a, V b) { return most(a, least(x, b)); }         \
  WW_MATH V clamp(V x, S a, S b) { return clamp(x, make_##V(a), make_##V(b)); }

#define WW_SCALAR(S, least, most) \
  WW_MATH S clamp(S x, S a, S b) { return most(a, least(x, b)); }

WW_SCALAR(float, fminf, fmaxf)
WW_SCALAR(int, min, max)
WW_SCALAR(uint, min, max)

// Vectors from shorter ones, longer ones and those of another type.
#define WW_FROM(F, S)                                                           \
  WW_MATH F##2 make_##F##2(F##3 a) { return make_##F##2(a.x, a.y); }            \
  WW_MATH F##3 make_##F##3(F##2 a) { return make_##F##3(a.x, a.y, S(0)); }      \
  WW_MATH F##3 make_##F##3(F##2 a, S s) { return make_##F##3(a.x, a.y, s); }    \
  WW_MATH F##3 make_##F##3(F##4 a) { return make_##F##3(a.x, a.y, a.z); }       \
  WW_MATH F##4 make_##F##4(F##3 a) { return make_##F##4(a.x, a.y, a.z, S(0)); } \
  WW_MATH F##4 make_##F##4(F##3 a, S s) { return make_##F##4(a.x, a.y, a.z, s); }
#define WW_CONVERT(F, S, G)                                              \
  WW_MATH F##2 make_##F##2(G##2 a) { return make_##F##2(WW_OF2(S, a)); } \
  WW_MATH F##3 make_##F##3(G##3 a) { return make_##F##3(WW_OF3(S, a)); } \
  WW_MATH F##4 make_##F##4(G##4 a) { return make_##F##4(WW_OF4(S, a)); }

#define WW_TYPE(F, S, least, most)   \
  WW_VECTOR(F##2, S, 2, least, most) \
  WW_VECTOR(F##3, S, 3, least, most) \
  WW_VECTOR(F##4, S, 4, least, most) \
  WW_FROM(F, S)

WW_TYPE(float, float, fminf, fmaxf)
WW_TYPE(int, int, min, max)
WW_TYPE(uint, uint, min, max)
WW_CONVERT(float, float, int)
WW_CONVERT(float, float, uint)
WW_CONVERT(int, int, float)
WW_CONVERT(int, int, uint)
WW_CONVERT(uint, uint, int)

// Signed vectors: -a and the absolute value.
#define WW_SIGNED(V, n, absolute)                               \
  WW_MATH V operator-(V a) { return make_##V(WW_OF##n(-, a)); } \
  WW_MATH V absolute(V a) { return make_##V(WW_OF##n(absolute, a)); }
WW_SIGNED(int2, 2, abs)
WW_SIGNED(int3, 3, abs)
WW_SIGNED(int4, 4, abs)
WW_SIGNED(float2, 2, fabs)
WW_SIGNED(float3, 3, fabs)
WW_SIGNED(float4, 4, fabs)

WW_MATH float fracf(float x) { return x - floorf(x); }
WW_MATH float lerp(float a, float b, float t) { return a + t * (b - a); }
WW_MATH float smoothstep(float a, float b, float x) {
  const float y = clamp((x - a) / (b - a), 0.0f, 1.0f);
  return y * y * (3.0f - 2.0f * y);
}

#define WW_GEOMETRY(V, n)                                                         \
  WW_MATH V floorf(V a) { return make_##V(WW_OF##n(floorf, a)); }                 \
  WW_MATH V fracf(V a) { return make_##V(WW_OF##n(fracf, a)); }                   \
  WW_MATH V fmodf(V a, V b) { return make_##V(WW_BOTH##n(fmodf, a, b)); }         \
  WW_MATH V lerp(V a, V b, float t) { return a + t * (b - a); }                   \
  WW_MATH float length(V a) { return sqrtf(dot(a, a)); }                          \
  WW_MATH V normalize(V a) { return a * rsqrtf(dot(a, a)); }                      \
  WW_MATH V reflect(V a, V normal) { return a - 2.0f * normal * dot(normal, a); } \
  WW_MATH V smoothstep(V a, V b, V x) {                                           \
    const V y = clamp((x - a) / (b - a), 0.0f, 1.0f);                             \
    return y * y * (make_##V(3.0f) - make_##V(2.0f) * y);                         \
  }
WW_GEOMETRY(float2, 2)
WW_GEOMETRY(float3, 3)
WW_GEOMETRY(float4, 4)

WW_MATH float3 cross(float3 a, float3 b) {
  return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
