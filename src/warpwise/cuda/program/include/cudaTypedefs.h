// The types of pointers to functions of the driver, for programs that get them by cudaGetDriverEntryPoint.
#pragma once
#include <cuda.h>

#define WW_DRIVER_FUNCTION(NAME, VERSION)          \
  typedef decltype(&NAME) PFN_##NAME##_v##VERSION; \
  typedef PFN_##NAME##_v##VERSION PFN_##NAME;
WW_DRIVER_FUNCTION(cuInit, 2000)
WW_DRIVER_FUNCTION(cuDriverGetVersion, 2020)
WW_DRIVER_FUNCTION(cuDeviceGet, 2000)
WW_DRIVER_FUNCTION(cuDeviceGetCount, 2000)
WW_DRIVER_FUNCTION(cuGetErrorName, 6000)
WW_DRIVER_FUNCTION(cuGetErrorString, 6000)
WW_DRIVER_FUNCTION(cuTensorMapEncodeTiled, 12000)
WW_DRIVER_FUNCTION(cuTensorMapEncodeIm2col, 12000)
WW_DRIVER_FUNCTION(cuTensorMapReplaceAddress, 12000)
#undef WW_DRIVER_FUNCTION
typedef CUresult (*PFN_cuGetProcAddress_v12000)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
typedef PFN_cuGetProcAddress_v12000 PFN_cuGetProcAddress;
