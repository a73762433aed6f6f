// What compiled kernels and the runtime agree on beside abi.h: inline PTX, and the table of global variables.
#pragma once
#include "abi.h"

// One asm statement of a kernel; `program` is the interpreter's, parsed at the first execution.
struct ww_ptx_site {
  const char* text;
  int line;
  const void* program;
};

// An operand of it: `target` is where a result goes (null for an input, whose bits are in `value`).
struct ww_ptx_operand {
  const char* name;        // of "[name]", or null
  const char* constraint;  // "=r", "+f", "l", ...
  void* target;
  unsigned bytes;
  unsigned char value[16];
};
extern "C" void ww_ptx(ww_ptx_site*, ww_ptx_operand*, unsigned count);

// A __device__ or __constant__ variable; a kernel library exports `const ww_global* ww_entry_globals(size_t* count)`.
struct ww_global {
  const char* name;  // with its namespaces
  void* address;
  size_t bytes;
  uint32_t element_bytes;
  int constant;
};
