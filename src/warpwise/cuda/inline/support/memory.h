// The record of the memory that kernels may access: tensors allocated while a call is tracked, and cudaMalloc's blocks.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <warpwise_host/api.h>

namespace warpwise_host {
// Fills new memory with a pattern that is NaN in every floating-point type and that programs are unlikely to store.
inline void poison(void* memory, size_t bytes) {
  unsigned char* const at = static_cast<unsigned char*>(memory);
  for (size_t i = 0; i < bytes; i++) at[i] = i % 2 ? 0x7f : 0xff;
}

void track(const void* address, size_t bytes, bool device);
bool untrack(const void* address, bool device);  // returns false if there is no such block
// Checks [address, address + bytes): 1 if it is inside a tracked block, 0 if it extends past the block's end, -1 if the
// address is in no tracked block.
int check_range(const void* address, size_t bytes);
}  // namespace warpwise_host
