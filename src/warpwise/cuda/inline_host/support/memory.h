// The memory that kernels may be handed: what tensors and cudaMalloc took while a call was tracked.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <warpwise_host/api.h>

namespace warpwise_host {
void remember(const void* address, size_t bytes, bool device);
bool forget(const void* address, bool device);  // false: no such block
// The block that holds [address, address + bytes): 1 if there is one, 0 if it ends too early, -1 if none begins there.
int holds(const void* address, size_t bytes);
}  // namespace warpwise_host
