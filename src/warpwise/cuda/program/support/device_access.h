// Functions for the CPU versions of CUDA's libraries: access to device memory, and checks of their operands.
#pragma once
#include <cuda_runtime.h>

#include "memory.h"

extern "C" {
void ww_program_open_device(int open);  // nests
void ww_program_launched();
int ww_host_failed();
}

namespace warpwise_host {
// True if a kernel has failed. Ends the program if a graph is captured: it would not hold the call.
inline bool refused(const char* function) {
  if (ww_cuda_capturing()) {
    fprintf(stderr, "UnsupportedFeature: %s is called while a CUDA graph is captured, which has no CPU version\n",
            function);
    exit(2);
  }
  return ww_host_failed();
}
// Host access to all device memory during a library's call.
class LibraryCall {
 public:
  LibraryCall() { ww_program_open_device(1); }
  ~LibraryCall() { ww_program_open_device(0); }
  LibraryCall(const LibraryCall&) = delete;
};
// True if a GPU could access [address, address + bytes); else the range is reported.
inline bool device_range(const char* function, const void* address, size_t bytes) {
  if (!bytes || check_range(address, bytes) == 1) return true;
  report(function, address, bytes);
  return false;
}
}  // namespace warpwise_host
