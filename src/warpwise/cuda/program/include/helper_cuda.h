// Checks of errors and the choice of a device as in the headers of NVIDIA's CUDA samples.
#pragma once
#include <cuda_runtime.h>

#include "helper_string.h"

namespace warpwise_host {
inline const char* error_name(cudaError_t error) { return cudaGetErrorName(error); }
template <class T>
const char* error_name(T) {
  return "an error of a library";
}
template <class T>
void check(T error, const char* call, const char* file, int line) {
  if (!error) return;
  fprintf(stderr, "CUDA error at %s:%d code=%d(%s) \"%s\" \n", file, line, int(error), error_name(error), call);
  exit(EXIT_FAILURE);
}
}  // namespace warpwise_host
#define checkCudaErrors(call) warpwise_host::check((call), #call, __FILE__, __LINE__)

#define getLastCudaError(message) warpwise_host::last_error(message, __FILE__, __LINE__)
namespace warpwise_host {
inline void last_error(const char* message, const char* file, int line) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s(%i) : getLastCudaError() CUDA error : %s : (%d) %s.\n", file, line, message, int(error),
          cudaGetErrorString(error));
  exit(EXIT_FAILURE);
}
}  // namespace warpwise_host

template <class T>
const char* _cudaGetErrorEnum(T error) {
  return warpwise_host::error_name(error);
}
// CUDA cores of a multiprocessor.
inline int _ConvertSMVer2Cores(int major, int minor) {
  return major == 8 && minor == 0 ? 64 : major >= 8 ? 128 : major == 6 && minor ? 128 : major >= 6 ? 64 : 128;
}
inline int gpuGetMaxGflopsDeviceId() { return 0; }
inline int gpuDeviceInit(int device) {
  checkCudaErrors(cudaSetDevice(device));
  return device;
}
inline int findCudaDevice(int, const char**) {
  cudaDeviceProp properties;
  checkCudaErrors(cudaGetDeviceProperties(&properties, 0));
  printf("GPU Device 0: \"%s\" with compute capability %d.%d\n\n", properties.name, properties.major, properties.minor);
  return gpuDeviceInit(0);
}
inline bool checkCudaCapabilities(int major, int minor) {
  cudaDeviceProp properties;
  checkCudaErrors(cudaGetDeviceProperties(&properties, 0));
  return properties.major > major || (properties.major == major && properties.minor >= minor);
}
