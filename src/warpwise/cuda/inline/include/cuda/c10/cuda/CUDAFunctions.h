// <c10/cuda/CUDAFunctions.h> on a machine without a GPU: device 0 is the only device.
#pragma once
#include <c10/core/Device.h>
#include <c10/cuda/CUDAException.h>

namespace c10::cuda {
inline c10::DeviceIndex device_count() noexcept { return 1; }
inline c10::DeviceIndex current_device() { return 0; }
inline void set_device(c10::DeviceIndex, bool = false) {}
inline void MaybeSetDevice(c10::DeviceIndex) {}
inline void device_synchronize() {}
}  // namespace c10::cuda
