// A stub for host code: kernels, which use this header's contents, are compiled by the emulator.
#pragma once
#include <cuda_runtime.h>

namespace cooperative_groups {
namespace __v1 = ::cooperative_groups;  // CUDA's inline namespace
class thread_group;
class thread_block;
class grid_group;
class cluster_group;
class coalesced_group;
template <unsigned size, class Parent = void>
class thread_block_tile;
}  // namespace cooperative_groups
