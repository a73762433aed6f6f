// The descriptors of cuSPARSE on a CPU.
#pragma once
#include <cusparse.h>

enum class Format { kCsr, kCsc, kCoo };
struct cusparseContext {};
// `first` holds the offsets of CSR and CSC or the row indices of COO, `second` the other indices.
struct cusparseSpMatDescr {
  Format format;
  int64_t rows, columns, count;
  void *first, *second, *values;
  cusparseIndexType_t first_type, second_type;
  int base;
  cudaDataType_t type;
  bool upper = false, unit = false;
  int batches = 1;
  int64_t first_stride = 0, values_stride = 0;
  int64_t first_count() const { return format == Format::kCoo ? count : (format == Format::kCsr ? rows : columns) + 1; }
};
struct cusparseDnMatDescr {
  int64_t rows, columns, ld;
  void* values;
  cudaDataType_t type;
  bool by_rows;
  int batches = 1;
  int64_t stride = 0;
  size_t at(int64_t row, int64_t column) const { return size_t(by_rows ? row * ld + column : column * ld + row); }
  size_t extent() const { return rows && columns ? at(rows - 1, columns - 1) + 1 : 0; }
};
struct cusparseSpVecDescr {
  int64_t size, count;
  void *indices, *values;
  cusparseIndexType_t index_type;
  int base;
  cudaDataType_t type;
};
struct cusparseDnVecDescr {
  int64_t size;
  void* values;
  cudaDataType_t type;
};
