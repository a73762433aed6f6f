// The C interface between an extension built for the CPU, the support library that it links to, and Python (native.py
// mirrors the structures).
#pragma once
#include <stddef.h>
#include <stdint.h>

enum ww_argument_kind {
  WW_BY_VALUE,
  WW_POINTER,
  WW_OBJECT
};  // WW_OBJECT: an object of class type, which may contain pointers

// One argument of a launch: the address of its value, and its parameter's declared type.
struct ww_argument {
  const char* name;
  const void* data;
  const char* element;     // typeid().name() of the pointee, or of the value
  uint32_t bytes;          // sizeof the parameter
  uint32_t element_bytes;  // sizeof the pointee (1 for void)
  int32_t kind;
  int32_t pointee_const;
};

// One kernel<<<grid, block, shared>>>(arguments...).
struct ww_launch {
  const char* extension;
  const char* instance;  // typeid().name() of warpwise_host::instance<&kernel<float, 4>>
  uint32_t grid[3], block[3];
  uint64_t shared_bytes;
  int64_t shared_limit;  // set by cudaFuncSetAttribute; -1 if it was not called
  int32_t cooperative, line;
  const ww_argument* arguments;
  uint64_t count;
  uint32_t cluster[3];  // the launch attribute, in blocks; 1 without it
};

// A tracked block of memory, from a tensor or cudaMalloc. `fresh`: no kernel has been launched on it yet.
struct ww_region {
  uint64_t address, bytes;
  int32_t fresh, device;  // device: allocated by cudaMalloc
};

// The host's shadow of a __device__ or __constant__ variable. Kernels have a separate copy; the values are copied to it
// before a launch and back after it. A __managed__ variable is its shadow for the host.
struct ww_symbol {
  const char* name;
  void* data;
  uint64_t bytes;
  int32_t constant, managed;
};

typedef int (*ww_launch_callback)(const ww_launch*);

extern "C" {
void ww_host_on_launch(ww_launch_callback);
// Tracks the tensors that this thread allocates. Calls nest: tracking ends with the matching stop.
void ww_host_start_tracking();
void ww_host_stop_tracking();
int ww_host_find_region(uint64_t address, ww_region* found);
void ww_host_mark_used(uint64_t address);
int ww_host_register_symbols(const char* extension, const ww_symbol* symbols, uint64_t count);
const ww_symbol* ww_host_find_symbols(const char* extension, uint64_t* count);

// Sets the execution configuration <<<...>>> of the next stub that this thread calls.
void ww_host_configure(const uint32_t* grid, const uint32_t* block, uint64_t shared_bytes, int cooperative, int line);
// Registers a stub by its address, for launches that pass void*. `call` calls the stub with the arguments that the
// pointers point to.
int ww_host_register_stub(const void* stub, void (*call)(void** arguments));
void ww_host_launch(const char* extension, const char* instance, const void* stub, const ww_argument* arguments,
                    uint64_t count);
}
