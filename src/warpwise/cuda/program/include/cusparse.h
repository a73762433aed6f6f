// cuSPARSE's generic API for whole programs on a CPU: products of a sparse matrix (CSR, CSC, COO) with a vector or a
// dense matrix, sampled products, triangular solutions, sums of vectors and conversions, of real types.
// support/cusparse.cpp implements it. Products of two sparse matrices and the legacy API have no CPU version.
#pragma once
#include <cuda_runtime.h>
#include <library_types.h>

#define CUSPARSE_H_

enum cusparseStatus_t {
  CUSPARSE_STATUS_SUCCESS = 0,
  CUSPARSE_STATUS_NOT_INITIALIZED = 1,
  CUSPARSE_STATUS_ALLOC_FAILED = 2,
  CUSPARSE_STATUS_INVALID_VALUE = 3,
  CUSPARSE_STATUS_ARCH_MISMATCH = 4,
  CUSPARSE_STATUS_MAPPING_ERROR = 5,
  CUSPARSE_STATUS_EXECUTION_FAILED = 6,
  CUSPARSE_STATUS_INTERNAL_ERROR = 7,
  CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED = 8,
  CUSPARSE_STATUS_ZERO_PIVOT = 9,
  CUSPARSE_STATUS_NOT_SUPPORTED = 10,
  CUSPARSE_STATUS_INSUFFICIENT_RESOURCES = 11
};
enum cusparseOperation_t {
  CUSPARSE_OPERATION_NON_TRANSPOSE,
  CUSPARSE_OPERATION_TRANSPOSE,
  CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE
};
enum cusparseIndexBase_t { CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_INDEX_BASE_ONE };
enum cusparseIndexType_t { CUSPARSE_INDEX_16U = 1, CUSPARSE_INDEX_32I = 2, CUSPARSE_INDEX_64I = 3 };
enum cusparseOrder_t { CUSPARSE_ORDER_COL = 1, CUSPARSE_ORDER_ROW = 2 };
enum cusparseFillMode_t { CUSPARSE_FILL_MODE_LOWER, CUSPARSE_FILL_MODE_UPPER };
enum cusparseDiagType_t { CUSPARSE_DIAG_TYPE_NON_UNIT, CUSPARSE_DIAG_TYPE_UNIT };
enum cusparseSpMatAttribute_t { CUSPARSE_SPMAT_FILL_MODE, CUSPARSE_SPMAT_DIAG_TYPE };
enum cusparsePointerMode_t { CUSPARSE_POINTER_MODE_HOST, CUSPARSE_POINTER_MODE_DEVICE };
enum cusparseSpMVAlg_t {
  CUSPARSE_SPMV_ALG_DEFAULT,
  CUSPARSE_MV_ALG_DEFAULT = 0,
  CUSPARSE_SPMV_COO_ALG1,
  CUSPARSE_SPMV_CSR_ALG1,
  CUSPARSE_SPMV_CSR_ALG2
};
enum cusparseSpMMAlg_t {
  CUSPARSE_SPMM_ALG_DEFAULT,
  CUSPARSE_SPMM_COO_ALG1,
  CUSPARSE_SPMM_COO_ALG2,
  CUSPARSE_SPMM_COO_ALG3,
  CUSPARSE_SPMM_CSR_ALG1,
  CUSPARSE_SPMM_CSR_ALG2,
  CUSPARSE_SPMM_CSR_ALG3
};
enum cusparseSDDMMAlg_t { CUSPARSE_SDDMM_ALG_DEFAULT };
enum cusparseSpSVAlg_t { CUSPARSE_SPSV_ALG_DEFAULT };
enum cusparseSpSMAlg_t { CUSPARSE_SPSM_ALG_DEFAULT };
enum cusparseSparseToDenseAlg_t { CUSPARSE_SPARSETODENSE_ALG_DEFAULT };
enum cusparseDenseToSparseAlg_t { CUSPARSE_DENSETOSPARSE_ALG_DEFAULT };

typedef struct cusparseContext* cusparseHandle_t;
typedef struct cusparseSpMatDescr* cusparseSpMatDescr_t;
typedef struct cusparseDnMatDescr* cusparseDnMatDescr_t;
typedef struct cusparseSpVecDescr* cusparseSpVecDescr_t;
typedef struct cusparseDnVecDescr* cusparseDnVecDescr_t;
typedef struct cusparseSolveDescr* cusparseSpSVDescr_t;
typedef struct cusparseSolveDescr* cusparseSpSMDescr_t;

extern "C" {
cusparseStatus_t cusparseCreate(cusparseHandle_t*);
cusparseStatus_t cusparseDestroy(cusparseHandle_t);
const char* cusparseGetErrorString(cusparseStatus_t);
const char* cusparseGetErrorName(cusparseStatus_t);
cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t*, int64_t rows, int64_t columns, int64_t count, void* offsets,
                                   void* indices, void* values, cusparseIndexType_t offset_type,
                                   cusparseIndexType_t index_type, cusparseIndexBase_t, cudaDataType);
cusparseStatus_t cusparseCreateCsc(cusparseSpMatDescr_t*, int64_t rows, int64_t columns, int64_t count, void* offsets,
                                   void* indices, void* values, cusparseIndexType_t offset_type,
                                   cusparseIndexType_t index_type, cusparseIndexBase_t, cudaDataType);
cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t*, int64_t rows, int64_t columns, int64_t count,
                                   void* row_indices, void* column_indices, void* values, cusparseIndexType_t,
                                   cusparseIndexBase_t, cudaDataType);
cusparseStatus_t cusparseDestroySpMat(cusparseSpMatDescr_t);
cusparseStatus_t cusparseSpMatGetSize(cusparseSpMatDescr_t, int64_t* rows, int64_t* columns, int64_t* count);
cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t, void* offsets, void* indices, void* values);
cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t, int batches, int64_t offsets_stride,
                                            int64_t values_stride);
cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t, cusparseSpMatAttribute_t, void* value, size_t bytes);
cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t*, int64_t rows, int64_t columns, int64_t ld, void* values,
                                     cudaDataType, cusparseOrder_t);
cusparseStatus_t cusparseDestroyDnMat(cusparseDnMatDescr_t);
cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t, int batches, int64_t stride);
cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t*, int64_t size, void* values, cudaDataType);
cusparseStatus_t cusparseDestroyDnVec(cusparseDnVecDescr_t);
cusparseStatus_t cusparseDnVecSetValues(cusparseDnVecDescr_t, void* values);
cusparseStatus_t cusparseCreateSpVec(cusparseSpVecDescr_t*, int64_t size, int64_t count, void* indices, void* values,
                                     cusparseIndexType_t, cusparseIndexBase_t, cudaDataType);
cusparseStatus_t cusparseDestroySpVec(cusparseSpVecDescr_t);

cusparseStatus_t cusparseSpMV(cusparseHandle_t, cusparseOperation_t, const void* alpha, cusparseSpMatDescr_t a,
                              cusparseDnVecDescr_t x, const void* beta, cusparseDnVecDescr_t y, cudaDataType,
                              cusparseSpMVAlg_t, void* buffer);
cusparseStatus_t cusparseSpMM(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void* alpha,
                              cusparseSpMatDescr_t a, cusparseDnMatDescr_t b, const void* beta, cusparseDnMatDescr_t c,
                              cudaDataType, cusparseSpMMAlg_t, void* buffer);
cusparseStatus_t cusparseSDDMM(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void* alpha,
                               cusparseDnMatDescr_t a, cusparseDnMatDescr_t b, const void* beta, cusparseSpMatDescr_t c,
                               cudaDataType, cusparseSDDMMAlg_t, void* buffer);
cusparseStatus_t cusparseAxpby(cusparseHandle_t, const void* alpha, cusparseSpVecDescr_t x, const void* beta,
                               cusparseDnVecDescr_t y);
cusparseStatus_t cusparseSparseToDense(cusparseHandle_t, cusparseSpMatDescr_t, cusparseDnMatDescr_t,
                                       cusparseSparseToDenseAlg_t, void* buffer);
cusparseStatus_t cusparseDenseToSparse_analysis(cusparseHandle_t, cusparseDnMatDescr_t, cusparseSpMatDescr_t,
                                                cusparseDenseToSparseAlg_t, void* buffer);
cusparseStatus_t cusparseDenseToSparse_convert(cusparseHandle_t, cusparseDnMatDescr_t, cusparseSpMatDescr_t,
                                               cusparseDenseToSparseAlg_t, void* buffer);
cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t, cusparseOperation_t, const void* alpha, cusparseSpMatDescr_t a,
                                    cusparseDnVecDescr_t x, cusparseDnVecDescr_t y, cudaDataType, cusparseSpSVAlg_t,
                                    cusparseSpSVDescr_t);
cusparseStatus_t cusparseSpSM_solve(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void* alpha,
                                    cusparseSpMatDescr_t a, cusparseDnMatDescr_t b, cusparseDnMatDescr_t c,
                                    cudaDataType, cusparseSpSMAlg_t, cusparseSpSMDescr_t);
}

// Streams have no effect, scalars are those of the host, and no call needs a buffer; its size is not zero, because
// programs allocate it.
inline cusparseStatus_t cusparseSetStream(cusparseHandle_t, cudaStream_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t, cusparsePointerMode_t mode) {
  return mode == CUSPARSE_POINTER_MODE_HOST ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_NOT_SUPPORTED;
}
#define WW_CUSPARSE_BUFFER(NAME)                                    \
  template <class... T>                                             \
  cusparseStatus_t cusparse##NAME(T... arguments) {                 \
    size_t* bytes = nullptr;                                        \
    ((bytes = warpwise_host::buffer_bytes(arguments, bytes)), ...); \
    *bytes = 16;                                                    \
    return CUSPARSE_STATUS_SUCCESS;                                 \
  }
#define WW_CUSPARSE_NOTHING(NAME)         \
  template <class... T>                   \
  cusparseStatus_t cusparse##NAME(T...) { \
    return CUSPARSE_STATUS_SUCCESS;       \
  }
namespace warpwise_host {
inline size_t* buffer_bytes(size_t* given, size_t*) { return given; }
template <class T>
size_t* buffer_bytes(T, size_t* found) {
  return found;
}
}  // namespace warpwise_host
WW_CUSPARSE_BUFFER(SpMV_bufferSize)
WW_CUSPARSE_BUFFER(SpMM_bufferSize)
WW_CUSPARSE_BUFFER(SDDMM_bufferSize)
WW_CUSPARSE_BUFFER(SparseToDense_bufferSize)
WW_CUSPARSE_BUFFER(DenseToSparse_bufferSize)
WW_CUSPARSE_BUFFER(SpSV_bufferSize)
WW_CUSPARSE_BUFFER(SpSM_bufferSize)
WW_CUSPARSE_NOTHING(SpMV_preprocess)
WW_CUSPARSE_NOTHING(SpMM_preprocess)
WW_CUSPARSE_NOTHING(SDDMM_preprocess)
WW_CUSPARSE_NOTHING(SpSV_analysis)
WW_CUSPARSE_NOTHING(SpSM_analysis)
WW_CUSPARSE_NOTHING(SpSV_createDescr)
WW_CUSPARSE_NOTHING(SpSV_destroyDescr)
WW_CUSPARSE_NOTHING(SpSM_createDescr)
WW_CUSPARSE_NOTHING(SpSM_destroyDescr)
#undef WW_CUSPARSE_BUFFER
#undef WW_CUSPARSE_NOTHING
