// CubDebug and CubDebugExit for host code on a CPU. As CUB's own, they print only if CUB_STDERR is defined.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace cub {
inline cudaError_t Debug(cudaError_t error, [[maybe_unused]] const char* file, [[maybe_unused]] int line) {
  const cudaError_t last = cudaGetLastError();
  if (error == cudaSuccess) error = last;
#ifdef CUB_STDERR
  if (error)
    fprintf(stderr, "CUDA error %d [%s, %d]: %s\n", static_cast<int>(error), file, line, cudaGetErrorString(error));
#endif
  return error;
}
}  // namespace cub

#ifndef CubDebug
#define CubDebug(e) cub::Debug((cudaError_t)(e), __FILE__, __LINE__)
#endif
#ifndef CubDebugExit
#define CubDebugExit(e) \
  if (cub::Debug((cudaError_t)(e), __FILE__, __LINE__)) exit(1);
#endif
