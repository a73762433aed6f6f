// The implementation of the CUDA runtime API that include/cuda/cuda_runtime.h declares. Device memory is heap memory,
// poisoned with NaN and tracked with exact bounds; a copy past the end of a tracked block is an error, as under
// compute-sanitizer.
#include <cuda_runtime.h>
#include <time.h>

#include "memory.h"

struct CUevent_st {
  timespec at;
  bool recorded;
};

namespace {
thread_local cudaError_t last_error = cudaSuccess;
cudaDeviceProp properties{};

cudaError_t set_last_error(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Memory that is not tracked (host variables, the caller's tensors) is not checked.
bool out_of_range(const void* address, size_t bytes) { return warpwise_host::check_range(address, bytes) == 0; }

struct Message {
  cudaError_t error;
  const char *name, *text;
};
constexpr Message kMessages[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};

const Message* message(cudaError_t error) {
  for (const Message& known : kMessages) {
    if (known.error == error) return &known;
  }
  return nullptr;
}
}  // namespace

extern "C" {
// Sets the result of cudaGetDeviceProperties. Python calls it with the target's profile.
void ww_host_set_device_properties(const cudaDeviceProp* device_properties) { properties = *device_properties; }
size_t ww_host_device_properties_bytes() { return sizeof(cudaDeviceProp); }

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  const Message* known = message(error);
  return known ? known->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const Message* known = message(error);
  return known ? known->text : "unrecognized error code";
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return set_last_error(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* result, int device) {
  if (device != 0) return set_last_error(cudaErrorInvalidDevice);
  *result = properties;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device) {
  if (device != 0) return set_last_error(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = int(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int(properties.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = int(properties.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrCooperativeLaunch:
      *value = properties.cooperativeLaunch;
      break;
    default:
      return set_last_error(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDeviceReset() { return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = properties.totalGlobalMem;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t ww_cuda_malloc(void** pointer, size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* block = aligned_alloc(256, (bytes + 255) / 256 * 256);  // cudaMalloc aligns to at least 256 bytes
  if (!block) return set_last_error(cudaErrorMemoryAllocation);
  warpwise_host::poison(block, bytes);
  warpwise_host::track(block, bytes, true);
  *pointer = block;
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  if (!pointer) return cudaSuccess;
  if (!warpwise_host::untrack(pointer, true)) return set_last_error(cudaErrorInvalidValue);
  free(pointer);
  return cudaSuccess;
}
cudaError_t ww_cuda_malloc_host(void** pointer, size_t bytes) { return ww_cuda_malloc(pointer, bytes); }
cudaError_t cudaFreeHost(void* pointer) { return cudaFree(pointer); }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind) {
  if (bytes == 0) return cudaSuccess;
  if (!to || !from || out_of_range(to, bytes) || out_of_range(from, bytes))
    return set_last_error(cudaErrorInvalidValue);
  memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (!pointer || out_of_range(pointer, bytes)) return set_last_error(cudaErrorInvalidValue);
  memset(pointer, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return set_last_error(cudaErrorInvalidValue);
  for (size_t row = 0; row < height; row++) {
    const cudaError_t error = cudaMemcpy((char*)to + row * to_pitch, (const char*)from + row * from_pitch, width, kind);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t ww_cuda_copy_symbol(void* symbol, size_t symbol_bytes, void* host, size_t bytes, size_t offset, int write) {
  if (offset > symbol_bytes || bytes > symbol_bytes - offset) return set_last_error(cudaErrorInvalidValue);
  char* place = static_cast<char*>(symbol) + offset;
  memmove(write ? place : host, write ? host : place, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st{};
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  if (!event) return set_last_error(cudaErrorInvalidResourceHandle);
  clock_gettime(CLOCK_MONOTONIC, &event->at);
  event->recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return set_last_error(event ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!start || !end || !start->recorded || !end->recorded) return set_last_error(cudaErrorInvalidResourceHandle);
  const double seconds = double(end->at.tv_sec - start->at.tv_sec) + 1e-9 * double(end->at.tv_nsec - start->at.tv_nsec);
  *milliseconds = float(1e3 * seconds);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
}
