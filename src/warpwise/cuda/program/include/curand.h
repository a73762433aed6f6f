// cuRAND's host API for whole programs on a CPU: pseudorandom uniform, normal, log-normal and Poisson numbers.
// support/curand.cpp implements it. Every generator is Philox4x32-10: the distributions are cuRAND's, the sequences are
// not. Quasirandom generators are not supported.
#pragma once
#include <cuda_runtime.h>

#define CURAND_H_  // headers of programs test it

enum curandStatus_t {
  CURAND_STATUS_SUCCESS = 0,
  CURAND_STATUS_VERSION_MISMATCH = 100,
  CURAND_STATUS_NOT_INITIALIZED = 101,
  CURAND_STATUS_ALLOCATION_FAILED = 102,
  CURAND_STATUS_TYPE_ERROR = 103,
  CURAND_STATUS_OUT_OF_RANGE = 104,
  CURAND_STATUS_LENGTH_NOT_MULTIPLE = 105,
  CURAND_STATUS_DOUBLE_PRECISION_REQUIRED = 106,
  CURAND_STATUS_LAUNCH_FAILURE = 201,
  CURAND_STATUS_PREEXISTING_FAILURE = 202,
  CURAND_STATUS_INITIALIZATION_FAILED = 203,
  CURAND_STATUS_ARCH_MISMATCH = 204,
  CURAND_STATUS_INTERNAL_ERROR = 999
};
typedef enum curandStatus_t curandStatus;
enum curandRngType_t {
  CURAND_RNG_PSEUDO_DEFAULT = 100,
  CURAND_RNG_PSEUDO_XORWOW = 101,
  CURAND_RNG_PSEUDO_MRG32K3A = 121,
  CURAND_RNG_PSEUDO_MTGP32 = 141,
  CURAND_RNG_PSEUDO_MT19937 = 142,
  CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161,
  CURAND_RNG_QUASI_DEFAULT = 200,
  CURAND_RNG_QUASI_SOBOL32 = 201,
  CURAND_RNG_QUASI_SCRAMBLED_SOBOL32 = 202,
  CURAND_RNG_QUASI_SOBOL64 = 203
};
typedef enum curandRngType_t curandRngType;
enum curandOrdering_t {
  CURAND_ORDERING_PSEUDO_BEST = 100,
  CURAND_ORDERING_PSEUDO_DEFAULT = 101,
  CURAND_ORDERING_PSEUDO_SEEDED = 102,
  CURAND_ORDERING_PSEUDO_LEGACY = 103
};
typedef struct curandGenerator_st* curandGenerator_t;

extern "C" {
curandStatus_t curandCreateGenerator(curandGenerator_t*, curandRngType_t);
curandStatus_t curandCreateGeneratorHost(curandGenerator_t*, curandRngType_t);
curandStatus_t curandDestroyGenerator(curandGenerator_t);
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t, unsigned long long seed);
curandStatus_t curandSetGeneratorOffset(curandGenerator_t, unsigned long long offset);
curandStatus_t curandGenerate(curandGenerator_t, unsigned* to, size_t count);
curandStatus_t curandGenerateUniform(curandGenerator_t, float* to, size_t count);
curandStatus_t curandGenerateUniformDouble(curandGenerator_t, double* to, size_t count);
curandStatus_t curandGenerateNormal(curandGenerator_t, float* to, size_t count, float mean, float deviation);
curandStatus_t curandGenerateNormalDouble(curandGenerator_t, double* to, size_t count, double mean, double deviation);
curandStatus_t curandGenerateLogNormal(curandGenerator_t, float* to, size_t count, float mean, float deviation);
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t, double* to, size_t count, double mean,
                                             double deviation);
curandStatus_t curandGeneratePoisson(curandGenerator_t, unsigned* to, size_t count, double mean);
}
inline curandStatus_t curandSetStream(curandGenerator_t, cudaStream_t) { return CURAND_STATUS_SUCCESS; }
inline curandStatus_t curandSetGeneratorOrdering(curandGenerator_t, curandOrdering_t) { return CURAND_STATUS_SUCCESS; }
inline curandStatus_t curandGenerateSeeds(curandGenerator_t) { return CURAND_STATUS_SUCCESS; }
inline curandStatus_t curandGetVersion(int* version) {
  *version = 10400;
  return CURAND_STATUS_SUCCESS;
}
