// Elements of the types that cudaDataType_t names, read and written as double.
#pragma once
#include <library_types.h>
#include <string.h>

namespace warpwise_host {
inline size_t size_of(cudaDataType_t type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F || type == CUDA_R_32I ? 4 : type == CUDA_R_8I ? 1 : 2;
}
inline double element(const void* data, cudaDataType_t type, size_t i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_32I:
      return static_cast<const int*>(data)[i];
    case CUDA_R_8I:
      return static_cast<const signed char*>(data)[i];
    case CUDA_R_16F:
      return static_cast<float>(static_cast<const _Float16*>(data)[i]);
    default: {
      const unsigned bits = unsigned(static_cast<const unsigned short*>(data)[i]) << 16;
      float value;
      memcpy(&value, &bits, sizeof value);
      return value;
    }
  }
}
inline void store(void* data, cudaDataType_t type, size_t i, double value) {
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(data)[i] = value;
      break;
    case CUDA_R_32F:
      static_cast<float*>(data)[i] = float(value);
      break;
    case CUDA_R_32I:
      static_cast<int*>(data)[i] = int(value);
      break;
    case CUDA_R_8I:
      static_cast<signed char*>(data)[i] = static_cast<signed char>(value);
      break;
    case CUDA_R_16F:
      static_cast<_Float16*>(data)[i] = static_cast<_Float16>(float(value));
      break;
    default: {
      const float single = float(value);
      unsigned bits;
      memcpy(&bits, &single, sizeof bits);
      const unsigned rounded = single != single ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1);
      static_cast<unsigned short*>(data)[i] = static_cast<unsigned short>(rounded >> 16);
    }
  }
}
}  // namespace warpwise_host
