// Queries for the driver's functions by name.
#pragma once
#include <driver_types.h>

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess,
  cudaDriverEntryPointSymbolNotFound,
  cudaDriverEntryPointVersionNotSufficent
};
#define cudaEnableDefault 0
#define cudaEnableLegacyStream 1
#define cudaEnablePerThreadDefaultStream 2

extern "C" void* ww_cuda_entry_point(const char* symbol);  // nullptr if the function has no CPU version

inline cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                           cudaDriverEntryPointQueryResult* status = nullptr) {
  *function = ww_cuda_entry_point(symbol);
  if (status) *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return *function || status ? cudaSuccess : cudaErrorSymbolNotFound;
}
inline cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                    unsigned long long flags,
                                                    cudaDriverEntryPointQueryResult* status = nullptr) {
  return cudaGetDriverEntryPoint(symbol, function, flags, status);
}
