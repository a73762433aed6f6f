// curand_kernel.h for the emulator: the generators XORWOW (the default) and Philox4x32-10 with uniform and normal
// distributions, giving cuRAND's numbers. Sources: G. Marsaglia, "Xorshift RNGs" (2003); J. Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3" (2011). Other generators and distributions are not emulated: a source that uses
// them does not compile.
#pragma once
#include <warpwise_device.h>
#include "ww/curand_states.h"

namespace ww {
// ---- XORWOW: a xorshift generator of five words, which is linear over GF(2), plus a Weyl sequence
struct XorwowMatrix {
  unsigned column[160][5];
};
WW_INLINE void xorwow_step(unsigned* v) {
  const unsigned t = v[0] ^ v[0] >> 2;
  v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = v[4];
  v[4] = (v[4] ^ v[4] << 4) ^ (t ^ t << 1);
}
WW_UNINSTRUMENTED void xorwow_apply(const XorwowMatrix& m, unsigned* v) {
  unsigned result[5] = {};
  for (int bit = 0; bit < 160; ++bit)
    if (v[bit / 32] >> (bit % 32) & 1)
      for (int word = 0; word < 5; ++word) result[word] ^= m.column[bit][word];
  __builtin_memcpy(v, result, sizeof result);
}
// The matrix of 2^power steps, by repeated squaring of the matrix of one step. Cached, because all threads use the
// same.
WW_UNINSTRUMENTED const XorwowMatrix& xorwow_power(int power) {
  static XorwowMatrix* known[131] = {};
  if (known[power]) return *known[power];
  auto* m = static_cast<XorwowMatrix*>(malloc(sizeof(XorwowMatrix)));
  for (int bit = 0; bit < 160; ++bit) {
    if (power == 0) {
      for (int word = 0; word < 5; ++word) m->column[bit][word] = bit / 32 == word ? 1u << (bit % 32) : 0;
      xorwow_step(m->column[bit]);
    } else {
      const XorwowMatrix& half = xorwow_power(power - 1);
      __builtin_memcpy(m->column[bit], half.column[bit], sizeof half.column[bit]);
      xorwow_apply(half, m->column[bit]);
    }
  }
  return *(known[power] = m);
}
// Advances the state by count * 2^first steps.
WW_UNINSTRUMENTED void xorwow_skip(unsigned* v, unsigned long long count, int first) {
  for (int bit = 0; count >> bit && bit < 64; ++bit)
    if (count >> bit & 1) xorwow_apply(xorwow_power(first + bit), v);
}

// ---- Philox: ten rounds of multiply and xor on a 128-bit counter under a 64-bit key
WW_INLINE uint4 philox(uint4 c, uint2 k) {
  for (int round = 0; round < 10; ++round) {
    const unsigned high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
    const unsigned high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
    c = {high1 ^ c.y ^ k.x, low1, high0 ^ c.w ^ k.y, low0};
    k.x += 0x9E3779B9u, k.y += 0xBB67AE85u;
  }
  return c;
}
WW_INLINE void philox_advance(curandStatePhilox4_32_10* s, unsigned long long n) {
  const unsigned __int128 before =
      (static_cast<unsigned __int128>(static_cast<unsigned long long>(s->ctr.w) << 32 | s->ctr.z) << 64) |
      (static_cast<unsigned long long>(s->ctr.y) << 32 | s->ctr.x);
  const unsigned __int128 after = before + n;
  s->ctr = {unsigned(after), unsigned(after >> 32), unsigned(after >> 64), unsigned(after >> 96)};
}
constexpr float two_to_minus_32 = 2.3283064e-10f;
constexpr double two_to_minus_53 = 1.1102230246251565e-16;
WW_INLINE float uniform(unsigned x) { return uncontracted(x * two_to_minus_32) + two_to_minus_32 / 2.0f; }
WW_INLINE double uniform(unsigned x, unsigned y) {
  const unsigned long long z = static_cast<unsigned long long>(x) ^ static_cast<unsigned long long>(y) << 21;
  return z * two_to_minus_53 + two_to_minus_53 / 2.0;
}
// G. Box and M. Muller, "A note on the generation of random normal deviates" (1958).
WW_INLINE float2 box_muller(unsigned x, unsigned y) {
  constexpr float turn = two_to_minus_32 * 6.2831855f;
  const float radius = sqrtf(-2.0f * logf(uniform(x))), angle = uncontracted(y * turn) + turn / 2.0f;
  return {sinf(angle) * radius, cosf(angle) * radius};
}
WW_INLINE double2 box_muller(unsigned x0, unsigned x1, unsigned y0, unsigned y1) {
  const double radius = sqrt(-2.0 * log(uniform(x0, x1))), angle = 2.0 * uniform(y0, y1);
  return {sin_pi(angle) * radius, cos_pi(angle) * radius};
}
constexpr int spare_float = 0xffffffff, spare_double = 0xfffffffd;
}  // namespace ww

// ---- Initialisation and skip-ahead
WW_INLINE void skipahead(unsigned long long n, curandStateXORWOW* state) {
  ww::xorwow_skip(state->v, n, 0);
  state->d += 362437u * static_cast<unsigned>(n);
}
WW_INLINE void skipahead_sequence(unsigned long long n, curandStateXORWOW* state) { ww::xorwow_skip(state->v, n, 67); }
WW_INLINE void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                           curandStateXORWOW* state) {
  const unsigned t0 = 1099087573u * (static_cast<unsigned>(seed) ^ 0xaad26b49u);
  const unsigned t1 = 2591861531u * (static_cast<unsigned>(seed >> 32) ^ 0xf7dcefddu);
  curandStateXORWOW fresh = {6615241u + t1 + t0,
                             {123456789u + t0, 362436069u ^ t0, 521288629u + t1, 88675123u ^ t1, 5783321u + t0},
                             0,
                             0,
                             0,
                             0};
  skipahead_sequence(subsequence, &fresh);
  skipahead(offset, &fresh);
  *state = fresh;
}
WW_INLINE void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10* state) {
  const unsigned long long high = (static_cast<unsigned long long>(state->ctr.w) << 32 | state->ctr.z) + n;
  state->ctr.z = static_cast<unsigned>(high), state->ctr.w = static_cast<unsigned>(high >> 32);
  state->output = ww::philox(state->ctr, state->key);
}
WW_INLINE void skipahead(unsigned long long n, curandStatePhilox4_32_10* state) {
  const unsigned place = state->STATE + static_cast<unsigned>(n & 3);
  ww::philox_advance(state, n / 4 + place / 4);
  state->STATE = place % 4;
  state->output = ww::philox(state->ctr, state->key);
}
WW_INLINE void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                           curandStatePhilox4_32_10* state) {
  curandStatePhilox4_32_10 fresh = {};
  fresh.key = {static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)};
  skipahead_sequence(subsequence, &fresh);
  skipahead(offset, &fresh);
  *state = fresh;
}

// ---- 32 random bits
WW_INLINE unsigned curand(curandStateXORWOW* state) {
  ww::xorwow_step(state->v);
  state->d += 362437u;
  return state->v[4] + state->d;
}
WW_INLINE unsigned curand(curandStatePhilox4_32_10* state) {
  const unsigned place = state->STATE;
  const unsigned result = place == 0   ? state->output.x
                          : place == 1 ? state->output.y
                          : place == 2 ? state->output.z
                                       : state->output.w;
  if (place == 3) {
    ww::philox_advance(state, 1);
    state->output = ww::philox(state->ctr, state->key);
  }
  state->STATE = (place + 1) & 3;
  return result;
}
WW_INLINE uint4 curand4(curandStatePhilox4_32_10* state) {
  return {curand(state), curand(state), curand(state), curand(state)};  // braces fix the order of the four calls
}

// ---- Distributions: uniform in (0, 1]; normal with mean 0 and standard deviation 1
template <class S>
WW_INLINE float curand_uniform(S* state) {
  return ww::uniform(curand(state));
}
template <class S>
WW_INLINE double curand_uniform_double(S* state) {
  const unsigned x = curand(state), y = curand(state);
  return ww::uniform(x, y);
}
template <class S>
WW_INLINE float2 curand_normal2(S* state) {
  const unsigned x = curand(state), y = curand(state);
  return ww::box_muller(x, y);
}
template <class S>
WW_INLINE double2 curand_normal2_double(S* state) {
  const unsigned x0 = curand(state), x1 = curand(state), y0 = curand(state), y1 = curand(state);
  return ww::box_muller(x0, x1, y0, y1);
}
template <class S>
WW_INLINE float curand_normal(S* state) {
  if (state->boxmuller_flag == ww::spare_float) {
    state->boxmuller_flag = 0;
    return state->boxmuller_extra;
  }
  const float2 pair = curand_normal2(state);
  state->boxmuller_extra = pair.y;
  state->boxmuller_flag = ww::spare_float;
  return pair.x;
}
template <class S>
WW_INLINE double curand_normal_double(S* state) {
  if (state->boxmuller_flag_double == ww::spare_double) {
    state->boxmuller_flag_double = 0;
    return state->boxmuller_extra_double;
  }
  const double2 pair = curand_normal2_double(state);
  state->boxmuller_extra_double = pair.y;
  state->boxmuller_flag_double = ww::spare_double;
  return pair.x;
}
template <class S>
WW_INLINE float curand_log_normal(S* state, float mean, float deviation) {
  return expf(mean + deviation * curand_normal(state));
}
WW_INLINE float4 curand_uniform4(curandStatePhilox4_32_10* state) {
  const uint4 x = curand4(state);
  return {ww::uniform(x.x), ww::uniform(x.y), ww::uniform(x.z), ww::uniform(x.w)};
}
WW_INLINE float4 curand_normal4(curandStatePhilox4_32_10* state) {
  const uint4 x = curand4(state);
  const float2 a = ww::box_muller(x.x, x.y), b = ww::box_muller(x.z, x.w);
  return {a.x, a.y, b.x, b.y};
}
