// cuRAND's host API on a CPU; include/curand.h declares it. Sources: J. Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3" (2011); G. Box and M. Muller, "A note on the generation of random normal deviates" (1958).
#include <curand.h>

#include <math.h>

#include "device_access.h"

struct curandGenerator_st {
  bool host;
  unsigned long long seed, next;  // next: the position in the sequence of 32-bit numbers
};

namespace {
// 32 bits at a position of the sequence of a seed: ten rounds of Philox on the block that holds it.
unsigned bits(unsigned long long seed, unsigned long long position) {
  unsigned c[4] = {unsigned(position / 4), unsigned(position / 4 >> 32), 0, 0};
  unsigned k0 = unsigned(seed), k1 = unsigned(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const unsigned long long a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    const unsigned next[4] = {unsigned(b >> 32) ^ c[1] ^ k0, unsigned(b), unsigned(a >> 32) ^ c[3] ^ k1, unsigned(a)};
    memcpy(c, next, sizeof c);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c[position % 4];
}
unsigned draw(curandGenerator_t generator) { return bits(generator->seed, generator->next++); }
// A number in (0, 1], as in cuRAND.
float uniform(curandGenerator_t generator) { return float((draw(generator) + 1.0) * 0x1p-32); }
double uniform_double(curandGenerator_t generator) {
  const unsigned long long high = draw(generator), low = draw(generator);
  return double((high << 21 ^ low >> 11) + 1) * 0x1p-53;
}
double normal(curandGenerator_t generator) {
  const double radius = sqrt(-2 * log(uniform_double(generator)));
  return radius * cos(2 * M_PI * uniform_double(generator));
}
unsigned poisson(curandGenerator_t generator, double mean) {
  if (mean > 700) {  // exp(-mean) underflows: use the normal approximation
    const double value = floor(mean + sqrt(mean) * normal(generator) + 0.5);
    return value < 0 ? 0 : unsigned(value);
  }
  const double limit = exp(-mean);
  unsigned count = 0;
  for (double product = uniform_double(generator); product > limit; product *= uniform_double(generator)) count++;
  return count;
}

template <class T, class F>
curandStatus_t fill(const char* function, curandGenerator_t generator, T* to, size_t count, F next) {
  if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
  if (warpwise_host::refused(function)) return CURAND_STATUS_PREEXISTING_FAILURE;
  if (!generator->host && !warpwise_host::device_range(function, to, count * sizeof(T)))
    return CURAND_STATUS_LAUNCH_FAILURE;
  const warpwise_host::LibraryCall access;
  for (size_t i = 0; i < count; i++) to[i] = next();
  warpwise_host::written(to, count * sizeof(T));
  if (!generator->host) ww_program_launched();
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t create(curandGenerator_t* generator, curandRngType_t type, bool host) {
  if (type >= CURAND_RNG_QUASI_DEFAULT) return CURAND_STATUS_TYPE_ERROR;
  *generator = new curandGenerator_st{host, 0, 0};
  return CURAND_STATUS_SUCCESS;
}
}  // namespace

extern "C" {
curandStatus_t curandCreateGenerator(curandGenerator_t* made, curandRngType_t type) {
  return create(made, type, false);
}
curandStatus_t curandCreateGeneratorHost(curandGenerator_t* made, curandRngType_t type) {
  return create(made, type, true);
}
curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
  delete generator;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
  if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
  generator->seed = seed;
  generator->next = 0;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
  if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
  generator->next = offset;
  return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGenerate(curandGenerator_t generator, unsigned* to, size_t count) {
  return fill("curandGenerate", generator, to, count, [&] { return draw(generator); });
}
curandStatus_t curandGenerateUniform(curandGenerator_t generator, float* to, size_t count) {
  return fill("curandGenerateUniform", generator, to, count, [&] { return uniform(generator); });
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double* to, size_t count) {
  return fill("curandGenerateUniformDouble", generator, to, count, [&] { return uniform_double(generator); });
}
curandStatus_t curandGenerateNormal(curandGenerator_t generator, float* to, size_t count, float mean, float deviation) {
  if (count % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return fill("curandGenerateNormal", generator, to, count,
              [&] { return float(mean + deviation * normal(generator)); });
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double* to, size_t count, double mean,
                                          double deviation) {
  if (count % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return fill("curandGenerateNormalDouble", generator, to, count, [&] { return mean + deviation * normal(generator); });
}
curandStatus_t curandGenerateLogNormal(curandGenerator_t generator, float* to, size_t count, float mean,
                                       float deviation) {
  if (count % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return fill("curandGenerateLogNormal", generator, to, count,
              [&] { return float(exp(mean + deviation * normal(generator))); });
}
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator, double* to, size_t count, double mean,
                                             double deviation) {
  if (count % 2) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  return fill("curandGenerateLogNormalDouble", generator, to, count,
              [&] { return exp(mean + deviation * normal(generator)); });
}
curandStatus_t curandGeneratePoisson(curandGenerator_t generator, unsigned* to, size_t count, double mean) {
  return fill("curandGeneratePoisson", generator, to, count, [&] { return poisson(generator, mean); });
}
}
