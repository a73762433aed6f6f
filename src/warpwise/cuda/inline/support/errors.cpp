// Names and texts of the error codes of the CUDA runtime API.
#include <cuda_runtime.h>

namespace {
struct Message {
  cudaError_t error;
  const char* text;
};
constexpr Message kMessages[] = {
    {cudaSuccess, "no error"},
    {cudaErrorInvalidValue, "invalid argument"},
    {cudaErrorMemoryAllocation, "out of memory"},
    {cudaErrorInitializationError, "initialization error"},
    {cudaErrorInvalidPitchValue, "invalid pitch argument"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
    {cudaErrorNoDevice, "no CUDA-capable device is detected"},
    {cudaErrorLaunchOutOfResources, "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "the launch timed out and was terminated"},
    {cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"},
    {cudaErrorAssert, "device-side assert triggered"},
    {cudaErrorMisalignedAddress, "misaligned address"},
    {cudaErrorUnknown, "unknown error"},
    {cudaErrorInvalidConfiguration, "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "invalid device symbol"},
    {cudaErrorInvalidDevicePointer, "invalid device pointer"},
    {cudaErrorInvalidDevice, "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "invalid resource handle"},
    {cudaErrorSymbolNotFound, "named symbol not found"},
    {cudaErrorNotReady, "device not ready"},
    {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "unspecified launch failure"},
    {cudaErrorNotSupported, "operation not supported"},
};

}  // namespace

extern "C" {
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define WW_ERROR(name, value) \
  case name:                  \
    return #name;
    WW_CUDA_ERRORS
#undef WW_ERROR
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  for (const Message& known : kMessages) {
    if (known.error == error) return known.text;
  }
  return cudaGetErrorName(error);
}
}
