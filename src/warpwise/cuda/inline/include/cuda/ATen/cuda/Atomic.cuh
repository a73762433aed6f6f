// A stub for host code: gpuAtomicAdd and the others are device code (include/device/torch.cuh).
#pragma once
