// A launch on its way from a stub to Python: the configuration waits here for its stub.
#include <warpwise_host/api.h>

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

namespace {
struct Configuration {
  uint32_t grid[3], block[3];
  uint64_t shared_bytes;
  int cooperative, line;
  bool set;
};
thread_local Configuration next{};
ww_launch_callback on_launch = nullptr;

std::mutex guard;
std::map<const void*, int64_t> shared_limits;                          // by stub
std::map<std::string, std::pair<const ww_symbol*, uint64_t>> symbols;  // by extension
}  // namespace

extern "C" {
void ww_host_on_launch(ww_launch_callback callback) { on_launch = callback; }

void ww_host_configure(const uint32_t* grid, const uint32_t* block, uint64_t shared_bytes, int cooperative, int line) {
  next = {{grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes, cooperative, line, true};
}

void ww_host_launch(const char* extension, const char* instance, const void* stub, const ww_argument* arguments,
                    uint64_t count) {
  const Configuration now = next;
  next.set = false;
  if (!now.set) throw std::runtime_error("a __global__ function was called without <<<grid, block>>>");
  if (!on_launch)
    throw std::runtime_error("no emulator is there to launch kernels: load the extension by warpwise.cuda.load_inline");
  int64_t limit = -1;
  {
    const std::lock_guard<std::mutex> lock(guard);
    const auto found = shared_limits.find(stub);
    if (found != shared_limits.end()) limit = found->second;
  }
  const ww_launch launch = {extension,
                            instance,
                            {now.grid[0], now.grid[1], now.grid[2]},
                            {now.block[0], now.block[1], now.block[2]},
                            now.shared_bytes,
                            limit,
                            now.cooperative,
                            now.line,
                            arguments,
                            count};
  // The callback keeps the Python error; this exception unwinds the extension's own frames on the way back to Python.
  if (on_launch(&launch) != 0) throw std::runtime_error("a kernel launch failed");
}

cudaError_t ww_cuda_function_attribute(const void* stub, enum cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    const std::lock_guard<std::mutex> lock(guard);
    shared_limits[stub] = value;
  }
  return cudaSuccess;
}

int ww_host_declare(const char* extension, const ww_symbol* table, uint64_t count) {
  const std::lock_guard<std::mutex> lock(guard);
  symbols[extension] = {table, count};
  return 0;
}

const ww_symbol* ww_host_declared(const char* extension, uint64_t* count) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto found = symbols.find(extension);
  *count = found == symbols.end() ? 0 : found->second.second;
  return found == symbols.end() ? nullptr : found->second.first;
}
}
