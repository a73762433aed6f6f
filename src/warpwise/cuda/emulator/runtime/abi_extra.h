// The rest of the ABI between compiled kernels and the runtime: inline PTX, and the table of global variables that a
// kernel's library exports.
#pragma once
#include "abi.h"

// One asm statement of a kernel. `program` is the parsed PTX, set at the statement's first execution.
struct ww_ptx_site {
  const char* text;
  int line;
  const void* program;
};

// One operand of an asm statement. An output's result is stored to `target`; for an input `target` is null and `value`
// holds its bits.
struct ww_ptx_operand {
  const char* name;        // its symbolic name ("[name]"), or null
  const char* constraint;  // "=r", "+f", "l", ...
  void* target;
  unsigned bytes;
  unsigned char value[16];
};
extern "C" void ww_ptx(ww_ptx_site*, ww_ptx_operand*, unsigned count);

enum { kConstant = 1, kUninitialisedConstant = 3 };

// A __device__ or __constant__ variable; a kernel library exports `const ww_global* ww_entry_globals(size_t* count)`.
struct ww_global {
  const char* name;  // qualified with its namespaces
  void* address;
  size_t bytes;
  uint32_t element_bytes;
  int constant;  // 0 for __device__, kConstant for __constant__, kUninitialisedConstant without an initialiser
};
