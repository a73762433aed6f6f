// Fibers: user-mode threads, each a stack and a saved stack pointer, switched without a system call. Each CUDA thread
// runs as one fiber; all fibers of a launch run on the OS thread that launched it.
#pragma once
#include <stddef.h>

#include "report.h"

namespace ww {

constexpr size_t kStackBytes = 640 * 1024;  // reserved; a page is backed by memory only once it is touched
constexpr size_t kMaxFibers = 16 * 1024;    // each needs two mappings; Linux allows 65,530 per process

// Saves the running fiber in *save and resumes the fiber `to`.
#if defined(__x86_64__) && !defined(WW_UCONTEXT)
#ifdef __AVX512F__
#define WW_AVX512                                                                                               \
  , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", \
      "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define WW_AVX512
#endif

// Inline, because the processor predicts this jump well, but never a `ret` to another stack. A saved fiber is its
// address of return and its frame pointer on its stack, below the red zone; the compiler saves all other registers.
inline __attribute__((always_inline)) void switch_fiber(void** save, void* to) {
  asm volatile(R"(
  leaq -128(%%rsp), %%rsp
  pushq %%rbp
  leaq 1f(%%rip), %%rax
  pushq %%rax
  movq %%rsp, (%0)
  movq %1, %%rsp
  popq %%rax
  jmpq *%%rax
1:
  popq %%rbp
  leaq 128(%%rsp), %%rsp
)"
               : "+D"(save), "+S"(to)
               :
               : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc", "memory",
                 "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                 "xmm12", "xmm13", "xmm14", "xmm15" WW_AVX512);
}
#else
void switch_fiber(void** save, void* to);
#endif
// Creates a fiber that runs `entry` on `stack`. Returns the value to pass to switch_fiber as `to`.
void* make_fiber(char* stack, void (*entry)());

// A pool of stacks, never returned to the system. The stack released last is reused first, while it is in the cache.
// acquire_stack returns null once kMaxFibers stacks are in use.
char* acquire_stack();
void release_stack(char* stack);
size_t stacks_in_use();
void reclaim_all_stacks();
bool in_stacks(Address address);      // in a stack of the pool or its guard page
bool in_guard_page(Address address);  // in a guard page: the stack overflowed

}  // namespace ww
