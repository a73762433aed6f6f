// The CUDA runtime API for host code on a machine without a GPU (cuda_api.cpp implements it): device memory is host
// memory, all calls are synchronous, and there is one device, with the properties of the target.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include <vector_types.h>
#include <vector_functions.h>
#include <driver_types.h>

#define __global__
#define __device__
#define __host__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __block_size__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#ifndef __restrict__
#define __restrict__ __restrict
#endif

extern "C" {
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorName(cudaError_t);
const char* cudaGetErrorString(cudaError_t);

cudaError_t cudaGetDevice(int*);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int device);
cudaError_t cudaDeviceGetAttribute(int*, enum cudaDeviceAttr, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceReset();
cudaError_t cudaSetDeviceFlags(unsigned flags);
cudaError_t cudaGetDeviceFlags(unsigned*);
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*);
cudaError_t cudaDeviceSetLimit(enum cudaLimit, size_t);
cudaError_t cudaDeviceGetLimit(size_t*, enum cudaLimit);
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache);
cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceGetPCIBusId(char*, int bytes, int device);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaRuntimeGetVersion(int*);
cudaError_t cudaDriverGetVersion(int*);

cudaError_t ww_cuda_malloc(void**, size_t);
cudaError_t cudaFree(void*);
cudaError_t ww_cuda_malloc_managed(void**, size_t);
cudaError_t ww_cuda_malloc_host(void**, size_t);
cudaError_t ww_cuda_malloc_pitch(void**, size_t* pitch, size_t width, size_t height);
cudaError_t ww_cuda_host_pointer(void**, void* host);
cudaError_t cudaHostRegister(void*, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void*);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes*, const void*);
cudaError_t cudaMemset2D(void*, size_t pitch, int value, size_t width, size_t height);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind);
cudaError_t cudaMemset(void*, int value, size_t bytes);
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind);
cudaError_t ww_cuda_copy_symbol(void* symbol, size_t symbol_bytes, void* host, size_t bytes, size_t offset, int write);

cudaError_t cudaStreamCreate(cudaStream_t*);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t*, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t ww_cuda_attach(void* managed, unsigned flags);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags);
typedef void (*cudaStreamCallback_t)(cudaStream_t, cudaError_t, void*);
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t, void* data);
cudaError_t cudaStreamAddCallback(cudaStream_t, cudaStreamCallback_t, void* data, unsigned flags);

// Events record the host's clock: elapsed times are those of the emulation, not of a GPU.
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t);
cudaError_t cudaEventDestroy(cudaEvent_t);

cudaError_t ww_cuda_symbol_address(void**, void* symbol, size_t bytes);
cudaError_t ww_cuda_launch(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                           int cooperative);
cudaError_t ww_cuda_function_attributes(struct cudaFuncAttributes*);
cudaError_t ww_cuda_occupancy(int* blocks, int block_size, size_t shared_bytes);
cudaError_t ww_cuda_function_attribute(const void* stub, enum cudaFuncAttribute, int value);
void ww_host_configure(const uint32_t* grid, const uint32_t* block, uint64_t shared_bytes, int cooperative, int line);
}

#include <graph_api.h>
#include <texture_types.h>

// The default arguments and overloads of CUDA's header.
template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return ww_cuda_malloc(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t) {
  return ww_cuda_malloc(reinterpret_cast<void**>(pointer), bytes);
}
#include <memory_pools.h>
template <class T>
cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned = cudaMemAttachGlobal) {
  return ww_cuda_malloc_managed(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaMallocPitch(T** pointer, size_t* pitch, size_t width, size_t height) {
  return ww_cuda_malloc_pitch(reinterpret_cast<void**>(pointer), pitch, width, height);
}
template <class T>
cudaError_t cudaHostGetDevicePointer(T** pointer, void* host, unsigned = 0) {
  return ww_cuda_host_pointer(reinterpret_cast<void**>(pointer), host);
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes, unsigned = 0) {
  return ww_cuda_malloc_host(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned) {
  return ww_cuda_malloc_host(reinterpret_cast<void**>(pointer), bytes);
}
inline cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind,
                                   cudaStream_t = nullptr) {
  return warpwise_host::run_or_capture([=] { return cudaMemcpy(to, from, bytes, kind); });
}
inline cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t = nullptr) {
  return warpwise_host::run_or_capture([=] { return cudaMemset(pointer, value, bytes); });
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                     size_t height, enum cudaMemcpyKind kind, cudaStream_t = nullptr) {
  return warpwise_host::run_or_capture(
      [=] { return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind); });
}
inline cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t = nullptr) {
  return cudaMemset2D(pointer, pitch, value, width, height);
}
template <class Location>
cudaError_t cudaMemPrefetchAsync(const void*, size_t, Location, cudaStream_t = nullptr) {
  return cudaSuccess;
}
inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t = nullptr) {
  return cudaSuccess;
}
template <class Location>
cudaError_t cudaMemAdvise(const void*, size_t, enum cudaMemoryAdvise, Location) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void* managed, size_t = 0,
                                            unsigned flags = cudaMemAttachSingle) {
  return ww_cuda_attach(managed, flags);
}
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaErrorInvalidDevice; }
inline cudaError_t cudaDeviceDisablePeerAccess(int) { return cudaErrorPeerAccessNotEnabled; }
inline cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
inline cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t = nullptr) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
inline cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig* config) {
  *config = cudaSharedMemBankSizeFourByte;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache* config) {
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}
inline cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream = nullptr, unsigned = 0) {
  return cudaEventRecord(event, stream);
}
inline cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  *priority = 0;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSetAttribute(cudaStream_t, enum cudaStreamAttrID, const cudaStreamAttrValue*) {
  return cudaSuccess;
}
inline cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
inline cudaError_t cudaDeviceGetP2PAttribute(int* value, enum cudaDeviceP2PAttr, int, int) {
  *value = 0;
  return cudaSuccess;
}
inline cudaError_t cudaProfilerStart() { return cudaSuccess; }
inline cudaError_t cudaProfilerStop() { return cudaSuccess; }
// Names that CUDA removed, which old programs use.
inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
inline cudaError_t cudaThreadExit() { return cudaDeviceReset(); }
inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventRecord(cudaEvent_t event) { return cudaEventRecord(event, nullptr); }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event) {
  return cudaStreamWaitEvent(stream, event, 0);
}

template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               enum cudaMemcpyKind = cudaMemcpyHostToDevice) {
  return ww_cuda_copy_symbol((void*)&symbol, sizeof symbol, const_cast<void*>(from), bytes, offset, 1);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                                    cudaStream_t = nullptr) {
  return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, T& symbol, size_t bytes, size_t offset = 0,
                                 enum cudaMemcpyKind = cudaMemcpyDeviceToHost) {
  return ww_cuda_copy_symbol((void*)&symbol, sizeof symbol, to, bytes, offset, 0);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, T& symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                                      cudaStream_t = nullptr) {
  return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}

template <class P, class T>
cudaError_t cudaGetSymbolAddress(P** address, T& symbol) {
  return ww_cuda_symbol_address((void**)address, (void*)&symbol, sizeof symbol);
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T& symbol) {
  *bytes = sizeof symbol;
  return cudaSuccess;
}

template <class... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), enum cudaFuncAttribute attribute, int value) {
  return ww_cuda_function_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
inline cudaError_t cudaFuncSetAttribute(const void* kernel, enum cudaFuncAttribute attribute, int value) {
  return ww_cuda_function_attribute(kernel, attribute, value);
}
template <class... P>
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, void (*)(P...)) {
  return ww_cuda_function_attributes(attributes);
}
inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, const void*) {
  return ww_cuda_function_attributes(attributes);
}
// Registers are unknown on a CPU: the occupancy is that of the threads, blocks and shared memory of a multiprocessor.
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F, int block_size, size_t shared_bytes) {
  return ww_cuda_occupancy(blocks, block_size, shared_bytes);
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, F, int block_size, size_t shared_bytes,
                                                                   unsigned) {
  return ww_cuda_occupancy(blocks, block_size, shared_bytes);
}
template <class F, class S>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* grid, int* block, F, S shared_bytes, int limit = 0) {
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  int best = 0, most = limit > 0 && limit < properties.maxThreadsPerBlock ? limit : properties.maxThreadsPerBlock;
  for (int size = most / 32 * 32; size > 0; size -= 32) {
    int blocks = 0;
    ww_cuda_occupancy(&blocks, size, shared_bytes(size));
    if (blocks * size <= best) continue;
    best = blocks * size;
    *block = size;
    *grid = blocks * properties.multiProcessorCount;
  }
  return best ? cudaSuccess : cudaErrorInvalidConfiguration;
}
template <class F>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, F kernel, size_t shared_bytes = 0,
                                               int limit = 0) {
  const auto same = [shared_bytes](int) { return shared_bytes; };
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, kernel, same, limit);
}
template <class F, class S>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int* grid, int* block, F kernel, S shared_bytes,
                                                                    int limit = 0, unsigned = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, kernel, shared_bytes, limit);
}
template <class F>
cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, F kernel, size_t shared_bytes = 0,
                                                        int limit = 0, unsigned = 0) {
  return cudaOccupancyMaxPotentialBlockSize(grid, block, kernel, shared_bytes, limit);
}
template <class F>
cudaError_t cudaFuncSetSharedMemConfig(F, enum cudaSharedMemConfig) {
  return cudaSuccess;
}
template <class F>
cudaError_t cudaFuncSetCacheConfig(F, enum cudaFuncCache) {
  return cudaSuccess;
}

// `kernel` is a kernel, or its address as void*.
template <class F>
cudaError_t cudaLaunchKernel(F* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes = 0,
                             cudaStream_t = nullptr) {
  return ww_cuda_launch((const void*)kernel, grid, block, arguments, shared_bytes, 0);
}
template <class F>
cudaError_t cudaLaunchCooperativeKernel(F* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes = 0,
                                        cudaStream_t = nullptr) {
  return ww_cuda_launch((const void*)kernel, grid, block, arguments, shared_bytes, 1);
}
#include <launch_config.h>
