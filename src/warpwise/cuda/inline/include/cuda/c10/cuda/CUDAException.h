// <c10/cuda/CUDAException.h> for host code: error checks, and the launch macro.
#pragma once
#include <c10/util/Exception.h>
#include <cuda_runtime.h>

#define C10_CUDA_CHECK(expression)                                                                            \
  do {                                                                                                        \
    const cudaError_t ww_error = (expression);                                                                \
    TORCH_CHECK(ww_error == cudaSuccess, "CUDA error: ", cudaGetErrorString(ww_error), " (" #expression ")"); \
  } while (0)
#define C10_CUDA_CHECK_WARN(expression)                                                      \
  do {                                                                                       \
    const cudaError_t ww_error = (expression);                                               \
    if (ww_error != cudaSuccess) TORCH_WARN("CUDA warning: ", cudaGetErrorString(ww_error)); \
  } while (0)
#define C10_CUDA_ERROR_HANDLED(expression) (expression)
#define C10_CUDA_IGNORE_ERROR(expression) ((void)(expression))
#define C10_CUDA_CLEAR_ERROR() ((void)cudaGetLastError())
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define TORCH_DSA_KERNEL_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  do {                                                                          \
    ::warpwise_host::configure(__LINE__, grid, block, shared_bytes, stream);    \
    kernel(__VA_ARGS__);                                                        \
    C10_CUDA_KERNEL_LAUNCH_CHECK();                                             \
  } while (0)
