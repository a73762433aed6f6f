// Memory pools for host code: a pool holds no memory, and an allocation from it is one of cudaMalloc.
#pragma once
#include <driver_types.h>

typedef struct CUmemPoolHandle_st* cudaMemPool_t;
enum cudaMemPoolAttr {
  cudaMemPoolReuseFollowEventDependencies = 1,
  cudaMemPoolReuseAllowOpportunistic = 2,
  cudaMemPoolReuseAllowInternalDependencies = 3,
  cudaMemPoolAttrReleaseThreshold = 4,
  cudaMemPoolAttrReservedMemCurrent = 5,
  cudaMemPoolAttrReservedMemHigh = 6,
  cudaMemPoolAttrUsedMemCurrent = 7,
  cudaMemPoolAttrUsedMemHigh = 8
};
enum cudaMemAllocationType { cudaMemAllocationTypeInvalid, cudaMemAllocationTypePinned };
enum cudaMemAllocationHandleType { cudaMemHandleTypeNone, cudaMemHandleTypePosixFileDescriptor };
struct cudaMemPoolProps {
  enum cudaMemAllocationType allocType;
  enum cudaMemAllocationHandleType handleTypes;
  struct cudaMemLocation location;
  void* win32SecurityAttributes;
  size_t maxSize;
  unsigned char reserved[56];
};
enum cudaMemAccessFlags {
  cudaMemAccessFlagsProtNone = 0,
  cudaMemAccessFlagsProtRead = 1,
  cudaMemAccessFlagsProtReadWrite = 3
};
struct cudaMemAccessDesc {
  struct cudaMemLocation location;
  enum cudaMemAccessFlags flags;
};

inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) { return *pool = nullptr, cudaSuccess; }
inline cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int) { return *pool = nullptr, cudaSuccess; }
inline cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  return *pool = nullptr, cudaSuccess;
}
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, enum cudaMemPoolAttr, void*) { return cudaSuccess; }
inline cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, enum cudaMemPoolAttr attribute, void* value) {
  memset(value, 0, attribute < cudaMemPoolAttrReleaseThreshold ? sizeof(int) : sizeof(uint64_t));
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMallocFromPoolAsync(T** pointer, size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  return cudaMallocAsync(pointer, bytes, stream);
}
template <class T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  return cudaMallocAsync(pointer, bytes, stream);
}
