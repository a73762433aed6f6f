// The memory that kernels may be handed: what tensors and cudaMalloc took while a call was tracked.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <warpwise_host/api.h>

namespace warpwise_host {
// Fills fresh memory with a value that every float type reads as NaN and no program is likely to store.
inline void poison(void* memory, size_t bytes) {
  unsigned char* const at = static_cast<unsigned char*>(memory);
  for (size_t i = 0; i < bytes; i++) at[i] = i % 2 ? 0x7f : 0xff;
}

void remember(const void* address, size_t bytes, bool device);
bool forget(const void* address, bool device);  // false: no such block
// The block that holds [address, address + bytes): 1 if there is one, 0 if it ends too early, -1 if none begins there.
int holds(const void* address, size_t bytes);
}  // namespace warpwise_host
