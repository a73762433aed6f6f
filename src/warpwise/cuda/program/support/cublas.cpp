// cuBLAS on a CPU; include/cublas_v2.h declares it. Sums of float are accumulated in float, in the order of k.
#include <cublas_v2.h>

#include <math.h>

#include <vector>

#include "device_access.h"
#include "elements.h"

struct cublasContext {
  cublasPointerMode_t mode;
};

namespace {
using warpwise_host::device_range;
using warpwise_host::element;
using warpwise_host::LibraryCall;
using warpwise_host::size_of;
using warpwise_host::store;

// Bytes from the first element of a column-major matrix to the end of its last.
size_t matrix_bytes(int rows, int columns, int ld, size_t size) {
  return rows < 1 || columns < 1 ? 0 : (size_t(columns - 1) * ld + rows) * size;
}
size_t vector_bytes(int n, int step, size_t size) {
  return n < 1 ? 0 : (size_t(n - 1) * (step < 0 ? -step : step) + 1) * size;
}
// BLAS starts at the end of a vector with a negative step.
template <class T>
T* first(T* x, int n, int step) {
  return step < 0 ? x + size_t(n - 1) * -step : x;
}
bool given(const cublasContext* handle) { return handle != nullptr; }

// c += a * b of packed matrices: a (k columns of m), b (n columns of k), c (n columns of m).
template <class T>
__attribute__((optimize("O3"))) void multiply(int m, int n, int k, const T* __restrict a, const T* __restrict b,
                                              T* __restrict c) {
  int j = 0;
  for (; j + 4 <= n; j += 4) {
    T *c0 = c + size_t(j) * m, *c1 = c0 + m, *c2 = c1 + m, *c3 = c2 + m;
    for (int p = 0; p < k; p++) {
      const T* column = a + size_t(p) * m;
      const T b0 = b[size_t(j) * k + p], b1 = b[size_t(j + 1) * k + p];
      const T b2 = b[size_t(j + 2) * k + p], b3 = b[size_t(j + 3) * k + p];
#pragma GCC ivdep
      for (int i = 0; i < m; i++) {
        const T x = column[i];
        c0[i] += x * b0, c1[i] += x * b1, c2[i] += x * b2, c3[i] += x * b3;
      }
    }
  }
  for (; j < n; j++)
    for (int p = 0; p < k; p++)
      for (int i = 0; i < m; i++) c[size_t(j) * m + i] += a[size_t(p) * m + i] * b[size_t(j) * k + p];
}

template <class T>
void pack(std::vector<T>& to, const void* from, cudaDataType_t type, int rows, int columns, int ld, bool transposed) {
  to.resize(size_t(rows) * columns);
  for (int j = 0; j < columns; j++)
    for (int i = 0; i < rows; i++)
      to[size_t(j) * rows + i] = T(element(from, type, transposed ? size_t(i) * ld + j : size_t(j) * ld + i));
}

template <class T>
void gemm(bool ta, bool tb, int m, int n, int k, T alpha, const void* a, cudaDataType_t type_a, int lda, const void* b,
          cudaDataType_t type_b, int ldb, T beta, void* c, cudaDataType_t type_c, int ldc) {
  std::vector<T> left, right, sums(size_t(m) * n);
  pack(left, a, type_a, m, k, lda, ta);
  pack(right, b, type_b, k, n, ldb, tb);
  multiply(m, n, k, left.data(), right.data(), sums.data());
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      const size_t at = size_t(j) * ldc + i;
      const T old = beta == T(0) ? T(0) : beta * T(element(c, type_c, at));  // beta 0: c may hold NaN
      store(c, type_c, at, alpha * sums[size_t(j) * m + i] + old);
    }
}
}  // namespace

extern "C" {
cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext{CUBLAS_POINTER_MODE_HOST};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (!given(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode) {
  if (!given(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  *mode = handle->mode;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

static cublasStatus_t copied(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}
cublasStatus_t cublasSetMatrix(int rows, int columns, int bytes, const void* from, int lda, void* to, int ldb) {
  if (rows < 0 || columns < 0 || bytes < 1 || lda < rows || ldb < rows) return CUBLAS_STATUS_INVALID_VALUE;
  return copied(cudaMemcpy2D(to, size_t(ldb) * bytes, from, size_t(lda) * bytes, size_t(rows) * bytes, columns,
                             cudaMemcpyHostToDevice));
}
cublasStatus_t cublasGetMatrix(int rows, int columns, int bytes, const void* from, int lda, void* to, int ldb) {
  if (rows < 0 || columns < 0 || bytes < 1 || lda < rows || ldb < rows) return CUBLAS_STATUS_INVALID_VALUE;
  return copied(cudaMemcpy2D(to, size_t(ldb) * bytes, from, size_t(lda) * bytes, size_t(rows) * bytes, columns,
                             cudaMemcpyDeviceToHost));
}
cublasStatus_t cublasSetVector(int n, int bytes, const void* from, int from_step, void* to, int to_step) {
  if (from_step < 1 || to_step < 1) return CUBLAS_STATUS_INVALID_VALUE;
  return copied(
      cudaMemcpy2D(to, size_t(to_step) * bytes, from, size_t(from_step) * bytes, bytes, n, cudaMemcpyHostToDevice));
}
cublasStatus_t cublasGetVector(int n, int bytes, const void* from, int from_step, void* to, int to_step) {
  if (from_step < 1 || to_step < 1) return CUBLAS_STATUS_INVALID_VALUE;
  return copied(
      cudaMemcpy2D(to, size_t(to_step) * bytes, from, size_t(from_step) * bytes, bytes, n, cudaMemcpyDeviceToHost));
}

cublasStatus_t ww_cublas_gemm(const char* function, cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                              int m, int n, int k, const void* alpha, const void* a, cudaDataType_t type_a, int lda,
                              long long stride_a, const void* b, cudaDataType_t type_b, int ldb, long long stride_b,
                              const void* beta, void* c, cudaDataType_t type_c, int ldc, long long stride_c, int count,
                              cudaDataType_t compute, int arrays) {
  if (!given(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool left = ta != CUBLAS_OP_N, right = tb != CUBLAS_OP_N;
  if (m < 0 || n < 0 || k < 0 || lda < (left ? k : m) || ldb < (right ? n : k) || ldc < m || lda < 1 || ldb < 1 ||
      ldc < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (compute == CUDA_C_32F || compute == CUDA_C_64F || type_a == CUDA_C_32F || type_a == CUDA_C_64F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (warpwise_host::refused(function)) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!m || !n) return CUBLAS_STATUS_SUCCESS;
  const LibraryCall access;
  const double scale = element(alpha, compute, 0), keep = element(beta, compute, 0);
  for (int i = 0; i < count; i++) {
    const auto part = [&](const void* data, long long stride, cudaDataType_t type) {
      return arrays ? static_cast<const void* const*>(data)[i]
                    : static_cast<const char*>(data) + i * stride * (long long)size_of(type);
    };
    const void *pa = part(a, stride_a, type_a), *pb = part(b, stride_b, type_b);
    void* pc = const_cast<void*>(part(c, stride_c, type_c));
    const size_t bytes = matrix_bytes(m, n, ldc, size_of(type_c));
    if (!device_range(function, pa, matrix_bytes(left ? k : m, left ? m : k, lda, size_of(type_a))) ||
        !device_range(function, pb, matrix_bytes(right ? n : k, right ? k : n, ldb, size_of(type_b))) ||
        !device_range(function, pc, bytes))
      return CUBLAS_STATUS_EXECUTION_FAILED;
    if (compute == CUDA_R_64F || compute == CUDA_R_32I)
      gemm<double>(left, right, m, n, k, scale, pa, type_a, lda, pb, type_b, ldb, keep, pc, type_c, ldc);
    else
      gemm<float>(left, right, m, n, k, float(scale), pa, type_a, lda, pb, type_b, ldb, float(keep), pc, type_c, ldc);
    warpwise_host::written(pc, bytes);
  }
  ww_program_launched();
  return CUBLAS_STATUS_SUCCESS;
}

// Begins a call on vectors x and y (nullptr if there is none), of n elements.
#define WW_CALL(NAME, N, X, INCX, Y, INCY)                                 \
  if (!given(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;                \
  if (warpwise_host::refused(NAME)) return CUBLAS_STATUS_EXECUTION_FAILED; \
  const LibraryCall access;                                                \
  if (!device_range(NAME, X, vector_bytes(N, INCX, sizeof *X)) ||          \
      !device_range(NAME, Y, vector_bytes(N, INCY, sizeof *X)))            \
    return CUBLAS_STATUS_EXECUTION_FAILED;
#define WW_LEVEL1(P, L, T)                                                                                             \
  cublasStatus_t cublas##P##axpy(cublasHandle_t handle, int n, const T* alpha, const T* x, int incx, T* y, int incy) { \
    WW_CALL("cublas" #P "axpy", n, x, incx, y, incy)                                                                   \
    const T* from = first(x, n, incx);                                                                                 \
    T* to = first(y, n, incy);                                                                                         \
    for (long long i = 0; i < n; i++) to[i * incy] += *alpha * from[i * incx];                                         \
    ww_program_launched();                                                                                             \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublas##P##dot(cublasHandle_t handle, int n, const T* x, int incx, const T* y, int incy, T* result) { \
    WW_CALL("cublas" #P "dot", n, x, incx, y, incy)                                                                    \
    const T *a = first(x, n, incx), *b = first(y, n, incy);                                                            \
    double sum = 0;                                                                                                    \
    for (long long i = 0; i < n; i++) sum += double(a[i * incx]) * b[i * incy];                                        \
    *result = T(sum);                                                                                                  \
    warpwise_host::written(result, sizeof(T));                                                                         \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublas##P##nrm2(cublasHandle_t handle, int n, const T* x, int incx, T* result) {                      \
    WW_CALL("cublas" #P "nrm2", n, x, incx, x, incx)                                                                   \
    double scale = 0, sum = 1;                                                                                         \
    for (long long i = 0; i < n; i++) {                                                                                \
      const double size = fabs(double(x[i * llabs(incx)]));                                                            \
      if (size > scale)                                                                                                \
        sum = 1 + sum * (scale / size) * (scale / size), scale = size;                                                 \
      else if (scale > 0 || size != size)                                                                              \
        sum += (size / scale) * (size / scale);                                                                        \
    }                                                                                                                  \
    *result = T(scale * sqrt(sum));                                                                                    \
    warpwise_host::written(result, sizeof(T));                                                                         \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublas##P##asum(cublasHandle_t handle, int n, const T* x, int incx, T* result) {                      \
    WW_CALL("cublas" #P "asum", n, x, incx, x, incx)                                                                   \
    double sum = 0;                                                                                                    \
    for (long long i = 0; i < n; i++) sum += fabs(double(x[i * llabs(incx)]));                                         \
    *result = T(sum);                                                                                                  \
    warpwise_host::written(result, sizeof(T));                                                                         \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublas##P##scal(cublasHandle_t handle, int n, const T* alpha, T* x, int incx) {                       \
    WW_CALL("cublas" #P "scal", n, x, incx, x, incx)                                                                   \
    for (long long i = 0; i < n; i++) x[i * llabs(incx)] *= *alpha;                                                    \
    ww_program_launched();                                                                                             \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublas##P##copy(cublasHandle_t handle, int n, const T* x, int incx, T* y, int incy) {                 \
    WW_CALL("cublas" #P "copy", n, x, incx, y, incy)                                                                   \
    const T* from = first(x, n, incx);                                                                                 \
    T* to = first(y, n, incy);                                                                                         \
    for (long long i = 0; i < n; i++) {                                                                                \
      to[i * incy] = from[i * incx];                                                                                   \
      warpwise_host::written(to + i * incy, sizeof(T));                                                                \
    }                                                                                                                  \
    ww_program_launched();                                                                                             \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublas##P##swap(cublasHandle_t handle, int n, T* x, int incx, T* y, int incy) {                       \
    WW_CALL("cublas" #P "swap", n, x, incx, y, incy)                                                                   \
    T *a = first(x, n, incx), *b = first(y, n, incy);                                                                  \
    for (long long i = 0; i < n; i++) {                                                                                \
      const T old = a[i * incx];                                                                                       \
      a[i * incx] = b[i * incy], b[i * incy] = old;                                                                    \
    }                                                                                                                  \
    ww_program_launched();                                                                                             \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublasI##L##amax(cublasHandle_t handle, int n, const T* x, int incx, int* result) {                   \
    WW_CALL("cublasI" #L "amax", n, x, incx, x, incx)                                                                  \
    int best = 0;                                                                                                      \
    for (int i = 1; i < n; i++)                                                                                        \
      if (fabs(double(x[(long long)i * incx])) > fabs(double(x[(long long)best * incx]))) best = i;                    \
    *result = n > 0 ? best + 1 : 0;                                                                                    \
    warpwise_host::written(result, sizeof(int));                                                                       \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublasI##L##amin(cublasHandle_t handle, int n, const T* x, int incx, int* result) {                   \
    WW_CALL("cublasI" #L "amin", n, x, incx, x, incx)                                                                  \
    int best = 0;                                                                                                      \
    for (int i = 1; i < n; i++)                                                                                        \
      if (fabs(double(x[(long long)i * incx])) < fabs(double(x[(long long)best * incx]))) best = i;                    \
    *result = n > 0 ? best + 1 : 0;                                                                                    \
    warpwise_host::written(result, sizeof(int));                                                                       \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }
WW_LEVEL1(S, s, float)
WW_LEVEL1(D, d, double)

#define WW_LEVEL2(P, T)                                                                                                \
  cublasStatus_t cublas##P##gemv(cublasHandle_t handle, cublasOperation_t ta, int m, int n, const T* alpha,            \
                                 const T* a, int lda, const T* x, int incx, const T* beta, T* y, int incy) {           \
    const bool turned = ta != CUBLAS_OP_N;                                                                             \
    const int rows = turned ? n : m, columns = turned ? m : n;                                                         \
    if (m < 0 || n < 0 || lda < m || lda < 1) return CUBLAS_STATUS_INVALID_VALUE;                                      \
    WW_CALL("cublas" #P "gemv", rows, y, incy, y, incy)                                                                \
    if (!device_range("cublas" #P "gemv", a, matrix_bytes(m, n, lda, sizeof(T))) ||                                    \
        !device_range("cublas" #P "gemv", x, vector_bytes(columns, incx, sizeof(T))))                                  \
      return CUBLAS_STATUS_EXECUTION_FAILED;                                                                           \
    const T* from = first(x, columns, incx);                                                                           \
    T* to = first(y, rows, incy);                                                                                      \
    for (int i = 0; i < rows; i++) {                                                                                   \
      double sum = 0;                                                                                                  \
      for (int j = 0; j < columns; j++)                                                                                \
        sum += double(a[turned ? size_t(i) * lda + j : size_t(j) * lda + i]) * from[(long long)j * incx];              \
      T* at = to + (long long)i * incy;                                                                                \
      *at = T(*alpha * sum) + (*beta == T(0) ? T(0) : *beta * *at);                                                    \
      warpwise_host::written(at, sizeof(T));                                                                           \
    }                                                                                                                  \
    ww_program_launched();                                                                                             \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublas##P##ger(cublasHandle_t handle, int m, int n, const T* alpha, const T* x, int incx, const T* y, \
                                int incy, T* a, int lda) {                                                             \
    if (m < 0 || n < 0 || lda < m || lda < 1) return CUBLAS_STATUS_INVALID_VALUE;                                      \
    WW_CALL("cublas" #P "ger", m, x, incx, x, incx)                                                                    \
    if (!device_range("cublas" #P "ger", y, vector_bytes(n, incy, sizeof(T))) ||                                       \
        !device_range("cublas" #P "ger", a, matrix_bytes(m, n, lda, sizeof(T))))                                       \
      return CUBLAS_STATUS_EXECUTION_FAILED;                                                                           \
    const T *u = first(x, m, incx), *v = first(y, n, incy);                                                            \
    for (int j = 0; j < n; j++)                                                                                        \
      for (int i = 0; i < m; i++) a[size_t(j) * lda + i] += *alpha * u[(long long)i * incx] * v[(long long)j * incy];  \
    ww_program_launched();                                                                                             \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublas##P##geam(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n,      \
                                 const T* alpha, const T* a, int lda, const T* beta, const T* b, int ldb, T* c,        \
                                 int ldc) {                                                                            \
    const bool left = ta != CUBLAS_OP_N, right = tb != CUBLAS_OP_N;                                                    \
    if (m < 0 || n < 0 || ldc < m || ldc < 1) return CUBLAS_STATUS_INVALID_VALUE;                                      \
    WW_CALL("cublas" #P "geam", 0, c, 1, c, 1)                                                                         \
    const char* name = "cublas" #P "geam";                                                                             \
    const bool use_a = *alpha != T(0), use_b = *beta != T(0);                                                          \
    if ((use_a && !device_range(name, a, matrix_bytes(left ? n : m, left ? m : n, lda, sizeof(T)))) ||                 \
        (use_b && !device_range(name, b, matrix_bytes(right ? n : m, right ? m : n, ldb, sizeof(T)))) ||               \
        !device_range(name, c, matrix_bytes(m, n, ldc, sizeof(T))))                                                    \
      return CUBLAS_STATUS_EXECUTION_FAILED;                                                                           \
    for (int j = 0; j < n; j++)                                                                                        \
      for (int i = 0; i < m; i++) {                                                                                    \
        const T x = use_a ? *alpha * a[left ? size_t(i) * lda + j : size_t(j) * lda + i] : T(0);                       \
        const T y = use_b ? *beta * b[right ? size_t(i) * ldb + j : size_t(j) * ldb + i] : T(0);                       \
        c[size_t(j) * ldc + i] = x + y;                                                                                \
      }                                                                                                                \
    warpwise_host::written(c, matrix_bytes(m, n, ldc, sizeof(T)));                                                     \
    ww_program_launched();                                                                                             \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }
WW_LEVEL2(S, float)
WW_LEVEL2(D, double)
}
