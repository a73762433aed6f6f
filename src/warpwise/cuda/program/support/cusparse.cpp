// cuSPARSE on a CPU; include/cusparse.h declares it. Sums are accumulated in double, in the order of the entries.
#include <cusparse.h>

#include <vector>

#include "device_access.h"
#include "elements.h"
#include "sparse.h"

namespace {
using warpwise_host::device_range;
using warpwise_host::element;
using warpwise_host::size_of;
using warpwise_host::store;

size_t index_bytes(cusparseIndexType_t type) {
  return type == CUSPARSE_INDEX_64I ? 8 : type == CUSPARSE_INDEX_32I ? 4 : 2;
}
int64_t index(const void* data, cusparseIndexType_t type, int64_t i) {
  return type == CUSPARSE_INDEX_64I   ? static_cast<const int64_t*>(data)[i]
         : type == CUSPARSE_INDEX_32I ? static_cast<const int32_t*>(data)[i]
                                      : static_cast<const uint16_t*>(data)[i];
}
void set_index(void* data, cusparseIndexType_t type, int64_t i, int64_t value) {
  if (type == CUSPARSE_INDEX_64I) static_cast<int64_t*>(data)[i] = value;
  if (type == CUSPARSE_INDEX_32I) static_cast<int32_t*>(data)[i] = int32_t(value);
  if (type == CUSPARSE_INDEX_16U) static_cast<uint16_t*>(data)[i] = uint16_t(value);
}
void* advanced(void* data, int64_t elements, size_t size) {
  return static_cast<char*>(data) + elements * int64_t(size);
}

bool in_range(const char* function, const cusparseSpMatDescr& a) {
  return device_range(function, a.first, size_t(a.first_count()) * index_bytes(a.first_type)) &&
         device_range(function, a.second, size_t(a.count) * index_bytes(a.second_type)) &&
         device_range(function, a.values, size_t(a.count) * size_of(a.type));
}
bool in_range(const char* function, const cusparseDnMatDescr& a) {
  return device_range(function, a.values, a.extent() * size_of(a.type));
}
bool in_range(const char* function, const cusparseDnVecDescr& x) {
  return device_range(function, x.values, size_t(x.size) * size_of(x.type));
}
bool in_range(const char* function, const cusparseSpVecDescr& x) {
  return device_range(function, x.indices, size_t(x.count) * index_bytes(x.index_type)) &&
         device_range(function, x.values, size_t(x.count) * size_of(x.type));
}
cusparseSpMatDescr batch_of(cusparseSpMatDescr a, int batch) {
  a.first = advanced(a.first, batch * a.first_stride, index_bytes(a.first_type));
  a.second = advanced(a.second, batch * a.values_stride, index_bytes(a.second_type));
  a.values = advanced(a.values, batch * a.values_stride, size_of(a.type));
  return a;
}
cusparseDnMatDescr batch_of(cusparseDnMatDescr a, int batch) {
  a.values = advanced(a.values, batch * a.stride, size_of(a.type));
  return a;
}

// Calls f(row, column, position) for each entry of the matrix, or of its transpose.
template <class F>
void for_each_entry(const cusparseSpMatDescr& a, bool transposed, F f) {
  const auto call = [&](int64_t row, int64_t column, int64_t k) {
    if (transposed)
      f(column, row, k);
    else
      f(row, column, k);
  };
  if (a.format == Format::kCoo) {
    for (int64_t k = 0; k < a.count; k++)
      call(index(a.first, a.first_type, k) - a.base, index(a.second, a.second_type, k) - a.base, k);
    return;
  }
  for (int64_t i = 0; i + 1 < a.first_count(); i++)
    for (int64_t k = index(a.first, a.first_type, i) - a.base; k < index(a.first, a.first_type, i + 1) - a.base; k++) {
      const int64_t j = index(a.second, a.second_type, k) - a.base;
      a.format == Format::kCsr ? call(i, j, k) : call(j, i, k);
    }
}

// Runs `body` with access to device memory, unless a kernel has failed; marks the result as written.
template <class F>
cusparseStatus_t call(const char* function, bool valid, void* result, size_t bytes, F body) {
  if (warpwise_host::refused(function) || !valid) return CUSPARSE_STATUS_EXECUTION_FAILED;
  const warpwise_host::LibraryCall access;
  const cusparseStatus_t status = body();
  warpwise_host::written(result, bytes);
  ww_program_launched();
  return status;
}

// C = alpha op(A) B + beta C, by rows of C; `b` and `c` give elements.
struct Dense {
  const cusparseDnMatDescr* matrix;
  bool transposed;
  size_t at(int64_t row, int64_t column) const {
    return transposed ? matrix->at(column, row) : matrix->at(row, column);
  }
  double get(int64_t row, int64_t column) const { return element(matrix->values, matrix->type, at(row, column)); }
  void set(int64_t row, int64_t column, double value) const {
    store(matrix->values, matrix->type, at(row, column), value);
  }
  int64_t columns() const { return transposed ? matrix->rows : matrix->columns; }
};

void multiply(const cusparseSpMatDescr& a, bool transposed, Dense b, double alpha, double beta, Dense c) {
  const int64_t rows = transposed ? a.columns : a.rows, columns = c.columns();
  std::vector<double> sums(size_t(rows * columns));
  for_each_entry(a, transposed, [&](int64_t i, int64_t p, int64_t k) {
    const double value = element(a.values, a.type, size_t(k));
    for (int64_t j = 0; j < columns; j++) sums[size_t(i * columns + j)] += value * b.get(p, j);
  });
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      const double old = beta == 0 ? 0 : beta * c.get(i, j);
      c.set(i, j, alpha * sums[size_t(i * columns + j)] + old);
    }
}

// op(A) C = alpha B by substitution; of A only the triangle of its fill mode is read.
cusparseStatus_t solve(const cusparseSpMatDescr& a, bool transposed, Dense b, double alpha, Dense c) {
  const int64_t n = a.rows, columns = c.columns();
  std::vector<double> x(size_t(n * columns)), diagonal(size_t(n), a.unit ? 1.0 : 0.0);
  std::vector<std::vector<std::pair<int64_t, double>>> lines{size_t(n)};
  for_each_entry(a, false, [&](int64_t i, int64_t j, int64_t k) {
    const double value = element(a.values, a.type, size_t(k));
    if (i == j && !a.unit) diagonal[size_t(i)] = value;
    if (a.upper ? j > i : j < i) lines[size_t(transposed ? j : i)].push_back({transposed ? i : j, value});
  });
  const bool ascending = a.upper == transposed;
  for (int64_t step = 0; step < n; step++) {
    const int64_t i = ascending ? step : n - 1 - step;
    if (diagonal[size_t(i)] == 0) return CUSPARSE_STATUS_ZERO_PIVOT;
    for (int64_t column = 0; column < columns; column++) {
      double sum = alpha * b.get(i, column);
      for (const auto& [j, value] : lines[size_t(i)]) sum -= value * x[size_t(j * columns + column)];
      x[size_t(i * columns + column)] = sum / diagonal[size_t(i)];
    }
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t column = 0; column < columns; column++) c.set(i, column, x[size_t(i * columns + column)]);
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseDnMatDescr column_of(const cusparseDnVecDescr& x) { return {x.size, 1, x.size, x.values, x.type, false}; }
}  // namespace

extern "C" {
cusparseStatus_t cusparseCreate(cusparseHandle_t* handle) {
  *handle = new cusparseContext;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) {
  delete handle;
  return CUSPARSE_STATUS_SUCCESS;
}
const char* cusparseGetErrorString(cusparseStatus_t status) {
  return status == CUSPARSE_STATUS_SUCCESS ? "success" : "cuSPARSE failed";
}
const char* cusparseGetErrorName(cusparseStatus_t status) {
  return status == CUSPARSE_STATUS_SUCCESS ? "CUSPARSE_STATUS_SUCCESS" : "CUSPARSE_STATUS_EXECUTION_FAILED";
}
cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t* made, int64_t rows, int64_t columns, int64_t count,
                                   void* offsets, void* indices, void* values, cusparseIndexType_t offset_type,
                                   cusparseIndexType_t index_type, cusparseIndexBase_t base, cudaDataType type) {
  *made = new cusparseSpMatDescr{Format::kCsr, rows,        columns,    count,     offsets, indices,
                                 values,       offset_type, index_type, int(base), type};
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCreateCsc(cusparseSpMatDescr_t* made, int64_t rows, int64_t columns, int64_t count,
                                   void* offsets, void* indices, void* values, cusparseIndexType_t offset_type,
                                   cusparseIndexType_t index_type, cusparseIndexBase_t base, cudaDataType type) {
  *made = new cusparseSpMatDescr{Format::kCsc, rows,        columns,    count,     offsets, indices,
                                 values,       offset_type, index_type, int(base), type};
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t* made, int64_t rows, int64_t columns, int64_t count,
                                   void* row_indices, void* column_indices, void* values, cusparseIndexType_t index,
                                   cusparseIndexBase_t base, cudaDataType type) {
  *made = new cusparseSpMatDescr{Format::kCoo, rows,  columns, count,     row_indices, column_indices,
                                 values,       index, index,   int(base), type};
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDestroySpMat(cusparseSpMatDescr_t a) {
  delete a;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMatGetSize(cusparseSpMatDescr_t a, int64_t* rows, int64_t* columns, int64_t* count) {
  *rows = a->rows;
  *columns = a->columns;
  *count = a->count;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t a, void* offsets, void* indices, void* values) {
  a->first = offsets;
  a->second = indices;
  a->values = values;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t a, int batches, int64_t offsets, int64_t values) {
  a->batches = batches;
  a->first_stride = offsets;
  a->values_stride = values;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t a, cusparseSpMatAttribute_t attribute, void* value,
                                           size_t) {
  if (attribute == CUSPARSE_SPMAT_FILL_MODE)
    a->upper = *static_cast<cusparseFillMode_t*>(value) == CUSPARSE_FILL_MODE_UPPER;
  else
    a->unit = *static_cast<cusparseDiagType_t*>(value) == CUSPARSE_DIAG_TYPE_UNIT;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t* made, int64_t rows, int64_t columns, int64_t ld,
                                     void* values, cudaDataType type, cusparseOrder_t order) {
  *made = new cusparseDnMatDescr{rows, columns, ld, values, type, order == CUSPARSE_ORDER_ROW};
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDestroyDnMat(cusparseDnMatDescr_t a) {
  delete a;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t a, int batches, int64_t stride) {
  a->batches = batches;
  a->stride = stride;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t* made, int64_t size, void* values, cudaDataType type) {
  *made = new cusparseDnVecDescr{size, values, type};
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDestroyDnVec(cusparseDnVecDescr_t x) {
  delete x;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDnVecSetValues(cusparseDnVecDescr_t x, void* values) {
  x->values = values;
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseCreateSpVec(cusparseSpVecDescr_t* made, int64_t size, int64_t count, void* indices,
                                     void* values, cusparseIndexType_t index, cusparseIndexBase_t base,
                                     cudaDataType type) {
  *made = new cusparseSpVecDescr{size, count, indices, values, index, int(base), type};
  return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t cusparseDestroySpVec(cusparseSpVecDescr_t x) {
  delete x;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMV(cusparseHandle_t, cusparseOperation_t operation, const void* alpha,
                              cusparseSpMatDescr_t a, cusparseDnVecDescr_t x, const void* beta, cusparseDnVecDescr_t y,
                              cudaDataType type, cusparseSpMVAlg_t, void*) {
  const char* name = "cusparseSpMV";
  const bool valid = in_range(name, *a) && in_range(name, *x) && in_range(name, *y);
  return call(name, valid, y->values, size_t(y->size) * size_of(y->type), [&] {
    const cusparseDnMatDescr b = column_of(*x), c = column_of(*y);
    multiply(*a, operation, {&b, false}, element(alpha, type, 0), element(beta, type, 0), {&c, false});
    return CUSPARSE_STATUS_SUCCESS;
  });
}
cusparseStatus_t cusparseSpMM(cusparseHandle_t, cusparseOperation_t of_a, cusparseOperation_t of_b, const void* alpha,
                              cusparseSpMatDescr_t a, cusparseDnMatDescr_t b, const void* beta, cusparseDnMatDescr_t c,
                              cudaDataType type, cusparseSpMMAlg_t, void*) {
  const char* name = "cusparseSpMM";
  const bool valid = in_range(name, *a) && in_range(name, *b) && in_range(name, *c);
  const size_t extent = size_t(c->batches - 1) * size_t(c->stride) + c->extent();
  return call(name, valid, c->values, extent * size_of(c->type), [&] {
    for (int i = 0; i < c->batches; i++) {
      const cusparseDnMatDescr own_b = batch_of(*b, i), own_c = batch_of(*c, i);
      multiply(batch_of(*a, i), of_a, {&own_b, bool(of_b)}, element(alpha, type, 0), element(beta, type, 0),
               {&own_c, false});
    }
    return CUSPARSE_STATUS_SUCCESS;
  });
}
// The entries of C become alpha (op(A) op(B))_ij + beta c_ij.
cusparseStatus_t cusparseSDDMM(cusparseHandle_t, cusparseOperation_t of_a, cusparseOperation_t of_b, const void* alpha,
                               cusparseDnMatDescr_t a, cusparseDnMatDescr_t b, const void* beta, cusparseSpMatDescr_t c,
                               cudaDataType type, cusparseSDDMMAlg_t, void*) {
  const char* name = "cusparseSDDMM";
  const bool valid = in_range(name, *a) && in_range(name, *b) && in_range(name, *c);
  const int64_t extent = (c->batches - 1) * c->values_stride + c->count;
  return call(name, valid, c->values, size_t(extent) * size_of(c->type), [&] {
    const double scale = element(alpha, type, 0), old = element(beta, type, 0);
    for (int i = 0; i < c->batches; i++) {
      const cusparseDnMatDescr own_a = batch_of(*a, i), own_b = batch_of(*b, i);
      const cusparseSpMatDescr own = batch_of(*c, i);
      const Dense left{&own_a, bool(of_a)}, right{&own_b, bool(of_b)};
      for_each_entry(own, false, [&](int64_t row, int64_t column, int64_t k) {
        double sum = 0;
        for (int64_t p = 0; p < left.columns(); p++) sum += left.get(row, p) * right.get(p, column);
        const double before = old == 0 ? 0 : old * element(own.values, own.type, size_t(k));
        store(own.values, own.type, size_t(k), scale * sum + before);
      });
    }
    return CUSPARSE_STATUS_SUCCESS;
  });
}
cusparseStatus_t cusparseAxpby(cusparseHandle_t, const void* alpha, cusparseSpVecDescr_t x, const void* beta,
                               cusparseDnVecDescr_t y) {
  const bool valid = in_range("cusparseAxpby", *x) && in_range("cusparseAxpby", *y);
  return call("cusparseAxpby", valid, y->values, size_t(y->size) * size_of(y->type), [&] {
    const double scale = element(alpha, x->type, 0), old = element(beta, x->type, 0);
    for (int64_t i = 0; i < y->size; i++)
      store(y->values, y->type, size_t(i), old * element(y->values, y->type, size_t(i)));
    for (int64_t k = 0; k < x->count; k++) {
      const size_t at = size_t(index(x->indices, x->index_type, k) - x->base);
      store(y->values, y->type, at, element(y->values, y->type, at) + scale * element(x->values, x->type, size_t(k)));
    }
    return CUSPARSE_STATUS_SUCCESS;
  });
}
cusparseStatus_t cusparseSparseToDense(cusparseHandle_t, cusparseSpMatDescr_t a, cusparseDnMatDescr_t b,
                                       cusparseSparseToDenseAlg_t, void*) {
  const bool valid = in_range("cusparseSparseToDense", *a) && in_range("cusparseSparseToDense", *b);
  return call("cusparseSparseToDense", valid, b->values, b->extent() * size_of(b->type), [&] {
    for (int64_t i = 0; i < b->rows; i++)
      for (int64_t j = 0; j < b->columns; j++) store(b->values, b->type, b->at(i, j), 0);
    for_each_entry(*a, false, [&](int64_t i, int64_t j, int64_t k) {
      store(b->values, b->type, b->at(i, j), element(a->values, a->type, size_t(k)));
    });
    return CUSPARSE_STATUS_SUCCESS;
  });
}
// The analysis counts the entries that are not zero and, for CSR, writes the offsets.
cusparseStatus_t cusparseDenseToSparse_analysis(cusparseHandle_t, cusparseDnMatDescr_t a, cusparseSpMatDescr_t b,
                                                cusparseDenseToSparseAlg_t, void*) {
  const char* name = "cusparseDenseToSparse_analysis";
  if (b->format != Format::kCsr) return CUSPARSE_STATUS_NOT_SUPPORTED;
  const size_t bytes = size_t(b->first_count()) * index_bytes(b->first_type);
  return call(name, in_range(name, *a) && device_range(name, b->first, bytes), b->first, bytes, [&] {
    b->count = 0;
    set_index(b->first, b->first_type, 0, b->base);
    for (int64_t i = 0; i < a->rows; i++) {
      for (int64_t j = 0; j < a->columns; j++) b->count += element(a->values, a->type, a->at(i, j)) != 0;
      set_index(b->first, b->first_type, i + 1, b->count + b->base);
    }
    return CUSPARSE_STATUS_SUCCESS;
  });
}
cusparseStatus_t cusparseDenseToSparse_convert(cusparseHandle_t, cusparseDnMatDescr_t a, cusparseSpMatDescr_t b,
                                               cusparseDenseToSparseAlg_t, void*) {
  const char* name = "cusparseDenseToSparse_convert";
  if (b->format != Format::kCsr) return CUSPARSE_STATUS_NOT_SUPPORTED;
  return call(name, in_range(name, *a) && in_range(name, *b), b->values, size_t(b->count) * size_of(b->type), [&] {
    int64_t k = 0;
    for (int64_t i = 0; i < a->rows; i++)
      for (int64_t j = 0; j < a->columns; j++) {
        const double value = element(a->values, a->type, a->at(i, j));
        if (value == 0) continue;
        set_index(b->second, b->second_type, k, j + b->base);
        store(b->values, b->type, size_t(k++), value);
      }
    warpwise_host::written(b->second, size_t(b->count) * index_bytes(b->second_type));
    return CUSPARSE_STATUS_SUCCESS;
  });
}
cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t, cusparseOperation_t operation, const void* alpha,
                                    cusparseSpMatDescr_t a, cusparseDnVecDescr_t x, cusparseDnVecDescr_t y,
                                    cudaDataType type, cusparseSpSVAlg_t, cusparseSpSVDescr_t) {
  const char* name = "cusparseSpSV_solve";
  const bool valid = in_range(name, *a) && in_range(name, *x) && in_range(name, *y);
  return call(name, valid, y->values, size_t(y->size) * size_of(y->type), [&] {
    const cusparseDnMatDescr b = column_of(*x), c = column_of(*y);
    return solve(*a, operation, {&b, false}, element(alpha, type, 0), {&c, false});
  });
}
cusparseStatus_t cusparseSpSM_solve(cusparseHandle_t, cusparseOperation_t of_a, cusparseOperation_t of_b,
                                    const void* alpha, cusparseSpMatDescr_t a, cusparseDnMatDescr_t b,
                                    cusparseDnMatDescr_t c, cudaDataType type, cusparseSpSMAlg_t, cusparseSpSMDescr_t) {
  const char* name = "cusparseSpSM_solve";
  const bool valid = in_range(name, *a) && in_range(name, *b) && in_range(name, *c);
  return call(name, valid, c->values, c->extent() * size_of(c->type),
              [&] { return solve(*a, of_a, {b, bool(of_b)}, element(alpha, type, 0), {c, false}); });
}
}
