// cuBLAS for whole programs on a CPU: level 1, gemv, ger, geam and gemm of float and double, gemm of half and bfloat16.
// support/cublas.cpp implements it. Matrices are column-major in device memory; calls are synchronous.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <library_types.h>

#define CUBLAS_API_H_  // headers of programs test it

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE };
enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TENSOR_OP_MATH = 1,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3
};
enum cublasGemmAlgo_t { CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 };
enum cublasComputeType_t {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_16F_PEDANTIC = 65,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_64F_PEDANTIC = 71,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
typedef struct cublasContext* cublasHandle_t;
#define CUBLAS_VER_MAJOR 13

extern "C" {
cublasStatus_t cublasCreate(cublasHandle_t*);
cublasStatus_t cublasDestroy(cublasHandle_t);
cublasStatus_t cublasSetPointerMode(cublasHandle_t, cublasPointerMode_t);
cublasStatus_t cublasGetPointerMode(cublasHandle_t, cublasPointerMode_t*);
const char* cublasGetStatusString(cublasStatus_t);
cublasStatus_t cublasSetVector(int n, int bytes, const void* from, int from_step, void* to, int to_step);
cublasStatus_t cublasGetVector(int n, int bytes, const void* from, int from_step, void* to, int to_step);
cublasStatus_t cublasSetMatrix(int rows, int columns, int bytes, const void* from, int lda, void* to, int ldb);
cublasStatus_t cublasGetMatrix(int rows, int columns, int bytes, const void* from, int lda, void* to, int ldb);
cublasStatus_t ww_cublas_gemm(const char* function, cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                              int k, const void* alpha, const void* a, cudaDataType_t, int lda, long long stride_a,
                              const void* b, cudaDataType_t, int ldb, long long stride_b, const void* beta, void* c,
                              cudaDataType_t, int ldc, long long stride_c, int count, cudaDataType_t compute,
                              int arrays);
#define WW_CUBLAS(P, L, T)                                                                                             \
  cublasStatus_t cublas##P##axpy(cublasHandle_t, int n, const T* alpha, const T* x, int incx, T* y, int incy);         \
  cublasStatus_t cublas##P##dot(cublasHandle_t, int n, const T* x, int incx, const T* y, int incy, T* result);         \
  cublasStatus_t cublas##P##nrm2(cublasHandle_t, int n, const T* x, int incx, T* result);                              \
  cublasStatus_t cublas##P##asum(cublasHandle_t, int n, const T* x, int incx, T* result);                              \
  cublasStatus_t cublas##P##scal(cublasHandle_t, int n, const T* alpha, T* x, int incx);                               \
  cublasStatus_t cublas##P##copy(cublasHandle_t, int n, const T* x, int incx, T* y, int incy);                         \
  cublasStatus_t cublas##P##swap(cublasHandle_t, int n, T* x, int incx, T* y, int incy);                               \
  cublasStatus_t cublasI##L##amax(cublasHandle_t, int n, const T* x, int incx, int* result);                           \
  cublasStatus_t cublasI##L##amin(cublasHandle_t, int n, const T* x, int incx, int* result);                           \
  cublasStatus_t cublas##P##gemv(cublasHandle_t, cublasOperation_t, int m, int n, const T* alpha, const T* a, int lda, \
                                 const T* x, int incx, const T* beta, T* y, int incy);                                 \
  cublasStatus_t cublas##P##ger(cublasHandle_t, int m, int n, const T* alpha, const T* x, int incx, const T* y,        \
                                int incy, T* a, int lda);                                                              \
  cublasStatus_t cublas##P##geam(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, const T* alpha,   \
                                 const T* a, int lda, const T* beta, const T* b, int ldb, T* c, int ldc);
WW_CUBLAS(S, s, float)
WW_CUBLAS(D, d, double)
#undef WW_CUBLAS
}
inline cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasGetStream(cublasHandle_t, cudaStream_t* stream) {
  *stream = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  *version = 130000;
  return CUBLAS_STATUS_SUCCESS;
}
inline const char* cublasGetStatusName(cublasStatus_t status) { return cublasGetStatusString(status); }
inline cublasStatus_t cublasSetMatrixAsync(int rows, int columns, int bytes, const void* from, int lda, void* to,
                                           int ldb, cudaStream_t) {
  return cublasSetMatrix(rows, columns, bytes, from, lda, to, ldb);
}
inline cublasStatus_t cublasGetMatrixAsync(int rows, int columns, int bytes, const void* from, int lda, void* to,
                                           int ldb, cudaStream_t) {
  return cublasGetMatrix(rows, columns, bytes, from, lda, to, ldb);
}

#define WW_CUBLAS_GEMM(P, T, TYPE, COMPUTE)                                                                            \
  inline cublasStatus_t cublas##P##gemm(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m,      \
                                        int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb,        \
                                        const T* beta, T* c, int ldc) {                                                \
    return ww_cublas_gemm("cublas" #P "gemm", handle, ta, tb, m, n, k, alpha, a, TYPE, lda, 0, b, TYPE, ldb, 0, beta,  \
                          c, TYPE, ldc, 0, 1, COMPUTE, 0);                                                             \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##gemmStridedBatched(                                                                 \
      cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha,          \
      const T* a, int lda, long long sa, const T* b, int ldb, long long sb, const T* beta, T* c, int ldc,              \
      long long sc, int count) {                                                                                       \
    return ww_cublas_gemm("cublas" #P "gemmStridedBatched", handle, ta, tb, m, n, k, alpha, a, TYPE, lda, sa, b, TYPE, \
                          ldb, sb, beta, c, TYPE, ldc, sc, count, COMPUTE, 0);                                         \
  }                                                                                                                    \
  inline cublasStatus_t cublas##P##gemmBatched(                                                                        \
      cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha,          \
      const T* const a[], int lda, const T* const b[], int ldb, const T* beta, T* const c[], int ldc, int count) {     \
    return ww_cublas_gemm("cublas" #P "gemmBatched", handle, ta, tb, m, n, k, alpha, a, TYPE, lda, 0, b, TYPE, ldb, 0, \
                          beta, (void*)c, TYPE, ldc, 0, count, COMPUTE, 1);                                            \
  }
WW_CUBLAS_GEMM(S, float, CUDA_R_32F, CUDA_R_32F)
WW_CUBLAS_GEMM(D, double, CUDA_R_64F, CUDA_R_64F)
struct __half;
WW_CUBLAS_GEMM(H, __half, CUDA_R_16F, CUDA_R_16F)
#undef WW_CUBLAS_GEMM

namespace warpwise_host {
inline cudaDataType_t compute_type(cudaDataType_t type) { return type; }
inline cudaDataType_t compute_type(cublasComputeType_t type) {
  return type <= CUBLAS_COMPUTE_16F_PEDANTIC                                 ? CUDA_R_16F
         : type == CUBLAS_COMPUTE_64F || type == CUBLAS_COMPUTE_64F_PEDANTIC ? CUDA_R_64F
                                                                             : CUDA_R_32F;
}
}  // namespace warpwise_host
template <class Compute>
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType_t type_a, int lda, const void* b,
                            cudaDataType_t type_b, int ldb, const void* beta, void* c, cudaDataType_t type_c, int ldc,
                            Compute compute, cublasGemmAlgo_t) {
  return ww_cublas_gemm("cublasGemmEx", handle, ta, tb, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c,
                        type_c, ldc, 0, 1, warpwise_host::compute_type(compute), 0);
}
template <class Compute>
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m,
                                          int n, int k, const void* alpha, const void* a, cudaDataType_t type_a,
                                          int lda, long long sa, const void* b, cudaDataType_t type_b, int ldb,
                                          long long sb, const void* beta, void* c, cudaDataType_t type_c, int ldc,
                                          long long sc, int count, Compute compute, cublasGemmAlgo_t) {
  return ww_cublas_gemm("cublasGemmStridedBatchedEx", handle, ta, tb, m, n, k, alpha, a, type_a, lda, sa, b, type_b,
                        ldb, sb, beta, c, type_c, ldc, sc, count, warpwise_host::compute_type(compute), 0);
}
