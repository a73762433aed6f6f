// cuFFT for whole programs on a CPU: complex and real transforms of one to three dimensions, batched and strided, of
// float and double. support/cufft.cpp implements it. cufftXt functions and callbacks have no CPU version.
#pragma once
#include <cuComplex.h>
#include <cuda_runtime.h>

#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1
#define CUFFT_VERSION 11000

typedef enum cufftResult_t {
  CUFFT_SUCCESS = 0,
  CUFFT_INVALID_PLAN = 1,
  CUFFT_ALLOC_FAILED = 2,
  CUFFT_INVALID_TYPE = 3,
  CUFFT_INVALID_VALUE = 4,
  CUFFT_INTERNAL_ERROR = 5,
  CUFFT_EXEC_FAILED = 6,
  CUFFT_SETUP_FAILED = 7,
  CUFFT_INVALID_SIZE = 8,
  CUFFT_UNALIGNED_DATA = 9,
  CUFFT_INCOMPLETE_PARAMETER_LIST = 10,
  CUFFT_INVALID_DEVICE = 11,
  CUFFT_PARSE_ERROR = 12,
  CUFFT_NO_WORKSPACE = 13,
  CUFFT_NOT_IMPLEMENTED = 14,
  CUFFT_LICENSE_ERROR = 15,
  CUFFT_NOT_SUPPORTED = 16
} cufftResult;
typedef enum cufftType_t {
  CUFFT_R2C = 0x2a,
  CUFFT_C2R = 0x2c,
  CUFFT_C2C = 0x29,
  CUFFT_D2Z = 0x6a,
  CUFFT_Z2D = 0x6c,
  CUFFT_Z2Z = 0x69
} cufftType;
typedef int cufftHandle;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;

extern "C" {
cufftResult cufftCreate(cufftHandle*);
cufftResult cufftDestroy(cufftHandle);
cufftResult cufftPlan1d(cufftHandle*, int n, cufftType, int batch);
cufftResult cufftPlan2d(cufftHandle*, int n0, int n1, cufftType);
cufftResult cufftPlan3d(cufftHandle*, int n0, int n1, int n2, cufftType);
cufftResult cufftPlanMany(cufftHandle*, int rank, int* n, int* inembed, int istride, int idist, int* onembed,
                          int ostride, int odist, cufftType, int batch);
cufftResult cufftMakePlan1d(cufftHandle, int n, cufftType, int batch, size_t* work_bytes);
cufftResult cufftMakePlan2d(cufftHandle, int n0, int n1, cufftType, size_t* work_bytes);
cufftResult cufftMakePlan3d(cufftHandle, int n0, int n1, int n2, cufftType, size_t* work_bytes);
cufftResult cufftMakePlanMany(cufftHandle, int rank, int* n, int* inembed, int istride, int idist, int* onembed,
                              int ostride, int odist, cufftType, int batch, size_t* work_bytes);
cufftResult cufftExecC2C(cufftHandle, cufftComplex* in, cufftComplex* out, int direction);
cufftResult cufftExecR2C(cufftHandle, cufftReal* in, cufftComplex* out);
cufftResult cufftExecC2R(cufftHandle, cufftComplex* in, cufftReal* out);
cufftResult cufftExecZ2Z(cufftHandle, cufftDoubleComplex* in, cufftDoubleComplex* out, int direction);
cufftResult cufftExecD2Z(cufftHandle, cufftDoubleReal* in, cufftDoubleComplex* out);
cufftResult cufftExecZ2D(cufftHandle, cufftDoubleComplex* in, cufftDoubleReal* out);
}

// No work area is necessary, and streams have no effect.
inline cufftResult cufftSetStream(cufftHandle, cudaStream_t) { return CUFFT_SUCCESS; }
inline cufftResult cufftSetAutoAllocation(cufftHandle, int) { return CUFFT_SUCCESS; }
inline cufftResult cufftSetWorkArea(cufftHandle, void*) { return CUFFT_SUCCESS; }
inline cufftResult cufftGetSize(cufftHandle, size_t* bytes) { return *bytes = 0, CUFFT_SUCCESS; }
inline cufftResult cufftEstimate1d(int, cufftType, int, size_t* bytes) { return *bytes = 0, CUFFT_SUCCESS; }
inline cufftResult cufftEstimate2d(int, int, cufftType, size_t* bytes) { return *bytes = 0, CUFFT_SUCCESS; }
inline cufftResult cufftGetVersion(int* version) { return *version = CUFFT_VERSION, CUFFT_SUCCESS; }
