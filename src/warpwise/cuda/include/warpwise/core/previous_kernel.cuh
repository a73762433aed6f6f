// Programmatic dependent launch: a kernel that starts before the previous kernel of its stream completes.
#pragma once

namespace warpwise {

// Waits until the previous kernels of the stream have completed and their writes are visible; from sm_90 on. Until then
// a thread may access only shared memory and the kernel's arguments, because previous kernels may still write any other
// memory. The next kernel of the stream may start when all blocks of this grid have returned from this function or from
// the kernel: its launch and its work before its own call overlap this kernel. It does not start before, since several
// kernels that wait would hold the registers and shared memory of SMs on which kernels of another stream could run.
// Every block must call it before it returns.
__device__ inline void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace warpwise
