// What an extension built for the CPU and the support library behind it agree on; plain C, so Python can call it too.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum ww_argument_kind { WW_BY_VALUE, WW_POINTER, WW_OBJECT };  // WW_OBJECT: a class by value, which may hold pointers

// One parameter of a kernel: where its value lies, and what it declares.
struct ww_argument {
  const char* name;
  const void* data;
  const char* element;     // typeid().name() of what a pointer points to, or of the value
  uint32_t bytes;          // sizeof the parameter
  uint32_t element_bytes;  // sizeof what a pointer points to (1 for void)
  int32_t kind;
  int32_t pointee_const;
};

// One kernel<<<grid, block, shared>>>(arguments...).
struct ww_launch {
  const char* extension;
  const char* instance;  // typeid().name() of warpwise_host::instance<&kernel<float, 4>>
  uint32_t grid[3], block[3];
  uint64_t shared_bytes;
  int64_t shared_limit;  // what cudaFuncSetAttribute allows this kernel, -1 unless it was called
  int32_t cooperative, line;
  const ww_argument* arguments;
  uint64_t count;
};

// Memory that a tensor or cudaMalloc took while a call was tracked. `fresh`: nothing has been launched on it yet.
struct ww_region {
  uint64_t address, bytes;
  int32_t fresh, device;  // device: from cudaMalloc
};

// A __device__ or __constant__ variable as host code sees it. Kernels have copies, brought up to date around a launch.
struct ww_symbol {
  const char* name;
  void* data;
  uint64_t bytes;
  int32_t constant;
};

typedef int (*ww_launch_callback)(const ww_launch*);

extern "C" {
void ww_host_on_launch(ww_launch_callback);
void ww_host_enter();  // tensors that this thread makes from here on are tracked, until as many ww_host_leave
void ww_host_leave();
int ww_host_find(uint64_t address, ww_region* found);
void ww_host_used(uint64_t address);
int ww_host_declare(const char* extension, const ww_symbol* symbols, uint64_t count);
const ww_symbol* ww_host_declared(const char* extension, uint64_t* count);

// The <<<...>>> of the next stub that this thread calls.
void ww_host_configure(const uint32_t* grid, const uint32_t* block, uint64_t shared_bytes, int cooperative, int line);
void ww_host_launch(const char* extension, const char* instance, const void* stub, const ww_argument* arguments,
                    uint64_t count);
}
