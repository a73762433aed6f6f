// Extensible launches (cudaLaunchKernelEx) for host code. The cluster dimension and the cooperative attribute have an
// effect; the others do not.
#pragma once
#include <vector_types.h>
#include <driver_types.h>

enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeAccessPolicyWindow = 1,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeSynchronizationPolicy = 3,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributePriority = 8,
};
union cudaLaunchAttributeValue {
  char pad[64];
  int cooperative, programmaticStreamSerializationAllowed, priority, clusterSchedulingPolicyPreference;
  struct {
    unsigned x, y, z;
  } clusterDim;
};
struct cudaLaunchAttribute {
  enum cudaLaunchAttributeID id;
  char pad[4];
  union cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  struct cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

extern "C" {
// Sets the configuration of the next stub that this thread calls.
void ww_cuda_configure(const cudaLaunchConfig_t*, int line);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* kernel, void** arguments);
}

template <class... P, class... T>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), T&&... arguments) {
  ww_cuda_configure(config, 0);
  kernel(static_cast<T&&>(arguments)...);
  return cudaPeekAtLastError();
}
// A GPU's multiprocessors are those of the properties; a cluster has at most 8 blocks, or 16 with
// cudaFuncAttributeNonPortableClusterSizeAllowed.
template <class F>
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* blocks, F, const cudaLaunchConfig_t*) {
  *blocks = 8;
  return cudaSuccess;
}
