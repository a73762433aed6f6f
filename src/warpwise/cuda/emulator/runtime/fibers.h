// Fibers: a stack and a saved stack pointer each, switched without the kernel. One CUDA thread is one fiber.
#pragma once
#include <stddef.h>

#include "report.h"

namespace ww {

constexpr size_t kStackBytes = 640 * 1024;  // reserved; a page is used only once it is touched
constexpr size_t kMaxFibers = 16 * 1024;    // two mappings each, and Linux allows 65,530 a process

// Saves the running fiber in *save and runs the one saved as `to`.
void switch_fiber(void** save, void* to);
// A fiber that will run `entry` on `stack` when it is first switched to; returns what switch_fiber takes.
void* make_fiber(char* stack, void (*entry)());

// Stacks come from a pool that grows and is kept. The one given back last is taken first, while it is in the cache.
char* take_stack();
void give_stack(char* stack);
size_t stacks_in_use();
void reclaim_all_stacks();
// The stack whose guard page holds the address, or null.
bool in_guard_page(Address address);
bool in_stacks(Address address);

}  // namespace ww
