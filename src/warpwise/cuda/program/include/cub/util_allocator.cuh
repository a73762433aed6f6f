// cub::CachingDeviceAllocator for host code on a CPU. It caches nothing, so that a use after DeviceFree is found.
#pragma once
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <set>

namespace cub {

struct CachingDeviceAllocator {
  static constexpr int INVALID_DEVICE_ORDINAL = -1;
  static constexpr unsigned INVALID_BIN = unsigned(-1);
  static constexpr size_t INVALID_SIZE = size_t(-1);

  explicit CachingDeviceAllocator(bool = false, bool = false) {}
  CachingDeviceAllocator(unsigned /*bin_growth*/, unsigned /*min_bin*/ = 1, unsigned /*max_bin*/ = INVALID_BIN,
                         size_t /*max_cached_bytes*/ = INVALID_SIZE, bool = false, bool = false) {}

  cudaError_t DeviceAllocate(int, void** block, size_t bytes, cudaStream_t stream = nullptr) {
    return DeviceAllocate(block, bytes, stream);
  }
  cudaError_t DeviceAllocate(void** block, size_t bytes, cudaStream_t = nullptr) {
    *block = nullptr;
    return cudaMalloc(block, bytes);
  }
  cudaError_t DeviceFree(int, void* block) { return cudaFree(block); }
  cudaError_t DeviceFree(void* block) { return cudaFree(block); }
  cudaError_t FreeAllCached() { return cudaSuccess; }
  cudaError_t SetMaxCachedBytes(size_t) { return cudaSuccess; }
};

}  // namespace cub
