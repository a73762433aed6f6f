// The C interface between the support library of whole programs and Python (native.py mirrors the structures).
#pragma once
#include <stdint.h>

constexpr int kFrames = 12;

struct ww_trace {
  uint64_t frames[kFrames];  // one past each call, or past the start of the faulting instruction; innermost first
  int32_t count;
};

enum ww_problem_kind {
  WW_BAD_RANGE,       // a range or an address that an API function refuses
  WW_MANAGED_ACCESS,  // the host accesses managed memory between a launch and the next synchronization
  WW_DEVICE_ACCESS,   // the host accesses device memory
  WW_HOST_FAULT,      // any other invalid access of the host
  WW_BAD_TENSOR_MAP,  // arguments that the driver refuses; function: the message
  WW_UNSUPPORTED_MAP  // arguments that the emulator does not support; function: the message
};

struct ww_problem {
  int32_t kind;
  const char* function;
  uint64_t address, bytes;
  ww_trace at;
};

// A block from cudaMalloc and similar functions. memory: warpwise_host::Kind.
struct ww_program_block {
  uint64_t address, bytes;
  int32_t memory, live;
  ww_trace allocated, freed;
};

typedef int (*ww_problem_callback)(const ww_problem*);
typedef int (*ww_exit_callback)(int status);

extern "C" {
void ww_program_prepare(ww_problem_callback, ww_exit_callback);
void ww_program_run(int (*main)(int, char**, char**), int count, char** arguments);
void ww_program_launched();
// Reports a problem, with the place of the caller in the program.
void ww_program_report(int kind, const char* message);
int ww_program_find(uint64_t address, ww_program_block* found);
uint64_t ww_program_live(ww_program_block* list, uint64_t room);
}
