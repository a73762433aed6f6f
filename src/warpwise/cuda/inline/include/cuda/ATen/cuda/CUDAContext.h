// <ATen/cuda/CUDAContext.h> on a machine without a GPU: the device's properties and the stream.
#pragma once
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace at::cuda {
using c10::cuda::current_device;
using c10::cuda::device_count;
inline bool is_available() { return true; }
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex) {
  static cudaDeviceProp properties = [] {
    cudaDeviceProp result;
    cudaGetDeviceProperties(&result, 0);
    return result;
  }();
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline int warp_size() { return 32; }
}  // namespace at::cuda
