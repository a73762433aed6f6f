// Fibers: user-mode threads, each a stack and a saved stack pointer, switched without a system call. Each CUDA thread
// runs as one fiber; all fibers of a launch run on the OS thread that launched it.
#pragma once
#include <stddef.h>

#include "report.h"

namespace ww {

constexpr size_t kStackBytes = 640 * 1024;  // reserved; a page is backed by memory only once it is touched
constexpr size_t kMaxFibers = 16 * 1024;    // each needs two mappings; Linux allows 65,530 per process

// Saves the running fiber in *save and resumes the fiber `to`.
void switch_fiber(void** save, void* to);
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
