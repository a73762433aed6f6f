// Passes kernel launches from the extension's host stubs to Python. configure() stores the launch configuration; the
// stub called next uses it.
#include <warpwise_host/api.h>

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "memory.h"

namespace {
struct Configuration {
  uint32_t grid[3], block[3];
  uint64_t shared_bytes;
  int cooperative, line;
  bool set;
  uint32_t cluster[3];
};
thread_local Configuration pending{};
ww_launch_callback on_launch = nullptr;

std::mutex launch_guard;
std::map<const void*, int64_t> shared_limits;  // keyed by stub

// Stubs register while their libraries are loaded, before or after this file's own variables are initialised.
std::map<const void*, void (*)(void**)>& stubs() {
  static auto* const made = new std::map<const void*, void (*)(void**)>;
  return *made;
}
void run(const ww_launch& launch) {
  // The callback stores the Python exception. This one unwinds the extension's C++ frames; Python then raises the
  // stored one.
  const std::lock_guard<std::recursive_mutex> lock(warpwise_host::device_mutex());
  std::vector<ww_argument> arguments(launch.arguments, launch.arguments + launch.count);
  std::vector<void*> pointers(launch.count);
  for (uint64_t i = 0; i < launch.count; i++) {
    if (arguments[i].kind != WW_POINTER) continue;
    memcpy(&pointers[i], arguments[i].data, sizeof pointers[i]);
    pointers[i] = warpwise_host::address_on_device(pointers[i]);
    arguments[i].data = &pointers[i];
  }
  ww_launch on_device = launch;
  on_device.arguments = arguments.data();
  warpwise_host::read_symbols();
  const int failed = on_launch(&on_device);
  warpwise_host::write_symbols();
  if (failed) throw std::runtime_error("a kernel launch failed");
}
}  // namespace

std::recursive_mutex& warpwise_host::device_mutex() {
  static auto* const made = new std::recursive_mutex;
  return *made;
}

extern "C" {
void ww_host_on_launch(ww_launch_callback callback) { on_launch = callback; }

void ww_host_configure(const uint32_t* grid, const uint32_t* block, uint64_t shared_bytes, int cooperative, int line) {
  pending = {
      {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes, cooperative, line, true, {1, 1, 1}};
}

void ww_host_launch(const char* extension, const char* instance, const void* stub, const ww_argument* arguments,
                    uint64_t count) {
  const Configuration configuration = pending;
  pending.set = false;
  if (!configuration.set)
    throw std::runtime_error("a __global__ function is called without an execution configuration <<<grid, block>>>");
  if (!on_launch)
    throw std::runtime_error("the emulator is not loaded: load the extension with warpwise.cuda.load_inline");
  int64_t limit = -1;
  {
    const std::lock_guard<std::mutex> lock(launch_guard);
    const auto found = shared_limits.find(stub);
    if (found != shared_limits.end()) limit = found->second;
  }
  const ww_launch launch = {extension,
                            instance,
                            {configuration.grid[0], configuration.grid[1], configuration.grid[2]},
                            {configuration.block[0], configuration.block[1], configuration.block[2]},
                            configuration.shared_bytes,
                            limit,
                            configuration.cooperative,
                            configuration.line,
                            arguments,
                            count,
                            {configuration.cluster[0], configuration.cluster[1], configuration.cluster[2]}};
  if (!warpwise_host::capture_launch(launch, run)) run(launch);
}

cudaError_t ww_cuda_function_attribute(const void* stub, enum cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    const std::lock_guard<std::mutex> lock(launch_guard);
    shared_limits[stub] = value;
  }
  return cudaSuccess;
}

int ww_host_register_stub(const void* stub, void (*call)(void**)) {
  const std::lock_guard<std::mutex> lock(launch_guard);
  stubs()[stub] = call;
  return 0;
}

cudaError_t ww_cuda_launch(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                           int cooperative) {
  void (*call)(void**) = nullptr;
  {
    const std::lock_guard<std::mutex> lock(launch_guard);
    const auto found = stubs().find(stub);
    if (found == stubs().end()) return cudaErrorInvalidDeviceFunction;
    call = found->second;
  }
  const uint32_t blocks[3] = {grid.x, grid.y, grid.z}, threads[3] = {block.x, block.y, block.z};
  ww_host_configure(blocks, threads, shared_bytes, cooperative, 0);
  call(arguments);
  return cudaPeekAtLastError();
}

void ww_cuda_configure(const cudaLaunchConfig_t* config, int line) {
  const dim3 grid = config->gridDim, block = config->blockDim;
  const uint32_t blocks[3] = {grid.x, grid.y, grid.z}, threads[3] = {block.x, block.y, block.z};
  ww_host_configure(blocks, threads, config->dynamicSmemBytes, 0, line);
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative) pending.cooperative = attribute.val.cooperative;
    if (attribute.id != cudaLaunchAttributeClusterDimension) continue;
    pending.cluster[0] = attribute.val.clusterDim.x;
    pending.cluster[1] = attribute.val.clusterDim.y;
    pending.cluster[2] = attribute.val.clusterDim.z;
  }
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** arguments) {
  void (*call)(void**) = nullptr;
  {
    const std::lock_guard<std::mutex> lock(launch_guard);
    const auto found = stubs().find(stub);
    if (found == stubs().end()) return cudaErrorInvalidDeviceFunction;
    call = found->second;
  }
  ww_cuda_configure(config, 0);
  call(arguments);
  return cudaPeekAtLastError();
}
}
