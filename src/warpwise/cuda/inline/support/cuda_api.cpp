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
cudaError_t launch_error = cudaSuccess;  // of a kernel that failed: every later call returns it
cudaDeviceProp properties{};

cudaError_t set_last_error(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Returns true, after a report, if the range is not inside the block that its address is in. Memory that is not tracked
// (host variables, the caller's tensors) is not checked.
bool out_of_range(const char* function, const void* address, size_t bytes) {
  const int checked = warpwise_host::check_range(address, bytes);
  if (checked == 0 || checked == -2) warpwise_host::report(function, address, bytes);
  return checked == 0 || checked == -2;
}
}  // namespace

extern "C" {
// Sets the result of cudaGetDeviceProperties. Python calls it with the target's profile.
void ww_host_set_device_properties(const cudaDeviceProp* device_properties) { properties = *device_properties; }
size_t ww_host_device_properties_bytes() { return sizeof(cudaDeviceProp); }

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error ? error : launch_error;
}
cudaError_t cudaPeekAtLastError() { return last_error ? last_error : launch_error; }

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
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
    case cudaDevAttrMaxBlockDimZ:
      *value = properties.maxThreadsDim[attribute - cudaDevAttrMaxBlockDimX];
      break;
    case cudaDevAttrMaxGridDimX:
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *value = properties.maxGridSize[attribute - cudaDevAttrMaxGridDimX];
      break;
    case cudaDevAttrTotalConstantMemory:
      *value = int(properties.totalConstMem);
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = properties.regsPerBlock;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrClockRate:
      *value = properties.clockRate;
      break;
    case cudaDevAttrMemoryClockRate:
      *value = properties.memoryClockRate;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = properties.memoryBusWidth;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrTextureAlignment:
      *value = int(properties.textureAlignment);
      break;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      break;
    case cudaDevAttrHostNativeAtomicSupported:
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
    case cudaDevAttrPageableMemoryAccess:
      *value = 0;
      break;
    default:
      return set_last_error(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
// A launch runs at once; these functions return the error of a failed one.
cudaError_t synchronize() {
  warpwise_host::synchronized();
  return set_last_error(launch_error);
}
cudaError_t cudaDeviceSynchronize() { return synchronize(); }
cudaError_t cudaDeviceReset() {
  warpwise_host::synchronized();
  return cudaSuccess;
}
void ww_host_set_error(cudaError_t error, int sticky) {
  last_error = error;
  if (sticky) launch_error = error;
}
int ww_host_failed() { return launch_error != cudaSuccess; }
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  return cudaSuccess;
}
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) { return cudaGetDevice(device); }
cudaError_t cudaDeviceSetLimit(enum cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaDeviceGetLimit(size_t* value, enum cudaLimit limit) {
  *value = limit == cudaLimitStackSize ? 1024 : limit == cudaLimitPrintfFifoSize ? 1 << 20 : 8 << 20;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int) {
  snprintf(text, size_t(bytes), "0000:00:00.0");
  return cudaSuccess;
}
cudaError_t ww_cuda_function_attributes(cudaFuncAttributes* attributes) {
  *attributes = {};
  attributes->maxThreadsPerBlock = properties.maxThreadsPerBlock;
  attributes->maxDynamicSharedSizeBytes = int(properties.sharedMemPerBlock);
  attributes->ptxVersion = attributes->binaryVersion = 10 * properties.major + properties.minor;
  return cudaSuccess;
}
cudaError_t ww_cuda_occupancy(int* blocks, int block_size, size_t shared_bytes) {
  *blocks = 0;
  if (block_size < 1) return set_last_error(cudaErrorInvalidValue);
  if (block_size > properties.maxThreadsPerBlock || shared_bytes > properties.sharedMemPerBlockOptin)
    return cudaSuccess;
  const int threads = (block_size + properties.warpSize - 1) / properties.warpSize * properties.warpSize;
  int most = properties.maxThreadsPerMultiProcessor / threads;
  if (most > properties.maxBlocksPerMultiProcessor) most = properties.maxBlocksPerMultiProcessor;
  const size_t reserved = 1024;  // of each block's shared memory, by the driver
  const size_t fit = properties.sharedMemPerMultiprocessor / (shared_bytes + reserved);
  *blocks = shared_bytes && fit < size_t(most) ? int(fit) : most;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = properties.totalGlobalMem;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

using warpwise_host::Kind;
static cudaError_t allocate(void** pointer, size_t bytes, Kind kind) {
  *pointer = nullptr;
  if (launch_error) return set_last_error(launch_error);
  if (bytes == 0) return cudaSuccess;
  *pointer = bytes > properties.totalGlobalMem ? nullptr : warpwise_host::allocate(bytes, kind);
  return set_last_error(*pointer ? cudaSuccess : cudaErrorMemoryAllocation);
}
static cudaError_t release(void* pointer, const char* function) {
  warpwise_host::synchronized();
  if (!pointer) return set_last_error(launch_error);
  if (warpwise_host::release(pointer)) return set_last_error(launch_error);
  warpwise_host::report(function, pointer, 0);
  return set_last_error(cudaErrorInvalidValue);
}
cudaError_t ww_cuda_malloc(void** pointer, size_t bytes) { return allocate(pointer, bytes, Kind::kDevice); }
cudaError_t ww_cuda_malloc_managed(void** pointer, size_t bytes) { return allocate(pointer, bytes, Kind::kManaged); }
cudaError_t ww_cuda_malloc_host(void** pointer, size_t bytes) { return allocate(pointer, bytes, Kind::kPinned); }
cudaError_t ww_cuda_malloc_pitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(pointer, *pitch * height, Kind::kDevice);
}
cudaError_t ww_cuda_host_pointer(void** pointer, void* host) {
  *pointer = host;
  return set_last_error(warpwise_host::check_range(host, 0) == 1 ? cudaSuccess : cudaErrorNotSupported);
}
cudaError_t cudaFree(void* pointer) { return release(pointer, "cudaFree"); }
cudaError_t cudaFreeHost(void* pointer) { return release(pointer, "cudaFreeHost"); }
// Registration has no effect on copies. A kernel cannot access the memory: cudaHostGetDevicePointer refuses it.
cudaError_t cudaHostRegister(void* pointer, size_t, unsigned) {
  return set_last_error(pointer ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  Kind kind;
  *attributes = {cudaMemoryTypeUnregistered, 0, nullptr, const_cast<void*>(pointer)};
  if (!warpwise_host::kind_of(pointer, kind)) return cudaSuccess;
  attributes->type = warpwise_host::on_device(kind) ? cudaMemoryTypeDevice
                     : kind == Kind::kManaged       ? cudaMemoryTypeManaged
                                                    : cudaMemoryTypeHost;
  attributes->devicePointer = const_cast<void*>(pointer);
  if (warpwise_host::on_device(kind)) attributes->hostPointer = nullptr;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  if (launch_error) return set_last_error(launch_error);
  warpwise_host::synchronized();
  if (bytes == 0) return cudaSuccess;
  if (!to || !from || out_of_range("cudaMemcpy", to, bytes) || out_of_range("cudaMemcpy", from, bytes))
    return set_last_error(cudaErrorInvalidValue);
  if (warpwise_host::wrong_direction(to, kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost, kind) ||
      warpwise_host::wrong_direction(from, kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice, kind)) {
    warpwise_host::report("cudaMemcpy with a wrong direction", to, bytes);
    return set_last_error(cudaErrorInvalidValue);
  }
  const warpwise_host::Access writes(to), reads(from);
  memmove(to, from, bytes);
  warpwise_host::written(to, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  if (launch_error) return set_last_error(launch_error);
  if (bytes == 0) return cudaSuccess;
  if (!pointer || out_of_range("cudaMemset", pointer, bytes)) return set_last_error(cudaErrorInvalidValue);
  const warpwise_host::Access writes(pointer);
  memset(pointer, value, bytes);
  warpwise_host::written(pointer, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset2D(void* pointer, size_t pitch, int value, size_t width, size_t height) {
  if (width > pitch) return set_last_error(cudaErrorInvalidValue);
  const warpwise_host::Access access(pointer);
  for (size_t row = 0; row < height; row++) {
    const cudaError_t error = cudaMemset((char*)pointer + row * pitch, value, width);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return set_last_error(cudaErrorInvalidValue);
  if (width == to_pitch && width == from_pitch) return cudaMemcpy(to, from, width * height, kind);
  const warpwise_host::Access to_access(to), from_access(from);
  for (size_t row = 0; row < height; row++) {
    const cudaError_t error = cudaMemcpy((char*)to + row * to_pitch, (const char*)from + row * from_pitch, width, kind);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t ww_cuda_copy_symbol(void* symbol, size_t symbol_bytes, void* host, size_t bytes, size_t offset, int write) {
  if (offset > symbol_bytes || bytes > symbol_bytes - offset) return set_last_error(cudaErrorInvalidValue);
  if (launch_error) return set_last_error(launch_error);
  if (out_of_range(write ? "cudaMemcpyToSymbol" : "cudaMemcpyFromSymbol", host, bytes))
    return set_last_error(cudaErrorInvalidValue);
  const warpwise_host::Access access(host);
  char* place = static_cast<char*>(symbol) + offset;
  warpwise_host::read_symbols();
  memmove(write ? place : host, write ? host : place, bytes);
  if (write) warpwise_host::write_symbols();
  if (write) warpwise_host::symbol_is_set(symbol);
  if (!write) warpwise_host::written(host, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return synchronize(); }
cudaError_t ww_cuda_attach(void* managed, unsigned flags) {
  warpwise_host::attach(managed, flags != cudaMemAttachGlobal);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t) { return synchronize(); }
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* data) {
  synchronize();
  function(data);
  return cudaSuccess;
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned) {
  function(stream, synchronize(), data);
  return cudaSuccess;
}
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
  return event ? synchronize() : set_last_error(cudaErrorInvalidResourceHandle);
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
