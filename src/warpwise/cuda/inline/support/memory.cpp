// The memory that kernels may access, with exact bounds. While a call is tracked, tensors are allocated by a wrapper
// around PyTorch's CPU allocator, which records each block until it is freed and poisons it with NaN, so that a read of
// uninitialised memory is found.
#include "memory.h"

#include <c10/core/CPUAllocator.h>

#include <stdlib.h>

#include <map>
#include <mutex>

namespace warpwise_host {
namespace {
constexpr uint8_t kPriority = 255;

std::mutex guard;
std::map<uint64_t, ww_region> regions;  // keyed by address
thread_local int tracking_depth = 0;

// The block that contains the address or ends at it.
std::map<uint64_t, ww_region>::iterator find_block(uint64_t address) {
  auto after = regions.upper_bound(address);
  if (after == regions.begin()) return regions.end();
  --after;
  return address <= after->first + after->second.bytes ? after : regions.end();
}

class TrackingAllocator final : public c10::Allocator {
 public:
  explicit TrackingAllocator(c10::Allocator* base) : base_(base) { free_ = base->raw_deleter(); }

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr made = base_->allocate(bytes);
    // If the context is not the block itself (an arena, a mapped file), the deleter cannot be wrapped.
    if (tracking_depth == 0 || !made || made.get_context() != made.get()) return made;
    if (!free_ || !made.compare_exchange_deleter(free_, &release)) return made;
    poison(made.get(), bytes);
    track(made.get(), bytes, false);
    return made;
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_ ? &release : nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { base_->copy_data(to, from, bytes); }

 private:
  static void release(void* block) {
    untrack(block, false);
    free_(block);
  }
  static inline c10::DeleterFnPtr free_ = nullptr;
  c10::Allocator* base_;
};

TrackingAllocator& tracking_allocator() {
  // Never destroyed: blocks may be freed after static destructors have run.
  static auto* const allocator = new TrackingAllocator(c10::GetCPUAllocator());
  return *allocator;
}
}  // namespace

void track(const void* address, size_t bytes, bool device) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto key = reinterpret_cast<uint64_t>(address);
  regions[key] = {key, bytes, 1, device};
}

bool untrack(const void* address, bool device) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto found = regions.find(reinterpret_cast<uint64_t>(address));
  if (found == regions.end() || bool(found->second.device) != device) return false;
  regions.erase(found);
  return true;
}

void* allocate(size_t bytes, Kind) {
  void* block = aligned_alloc(256, (bytes + 255) / 256 * 256);  // cudaMalloc aligns to at least 256 bytes
  if (!block) return nullptr;
  poison(block, bytes);
  track(block, bytes, true);
  return block;
}
bool release(void* address) {
  if (!untrack(address, true)) return false;
  free(address);
  return true;
}
bool kind_of(const void* address, Kind& kind) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto found = find_block(reinterpret_cast<uint64_t>(address));
  kind = Kind::kDevice;
  return found != regions.end() && found->second.device;
}
// All device memory is the host's: nothing to protect, and the error code is the report.
void attach(void*, bool) {}
void synchronized() {}
void written(const void*, size_t) {}
void report(const char*, const void*, size_t) {}
bool wrong_direction(const void*, bool, int) { return false; }
Access::Access(const void* address) : address_(address) {}
Access::~Access() {}

int check_range(const void* address, size_t bytes) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto key = reinterpret_cast<uint64_t>(address);
  const auto found = find_block(key);
  if (found == regions.end()) return -1;
  return key + bytes <= found->first + found->second.bytes;
}
}  // namespace warpwise_host

using namespace warpwise_host;

extern "C" {
void ww_host_start_tracking() {
  TrackingAllocator& allocator = tracking_allocator();
  if (tracking_depth++ == 0 && c10::GetCPUAllocator() != &allocator) c10::SetCPUAllocator(&allocator, kPriority);
}
void ww_host_stop_tracking() { tracking_depth--; }

int ww_host_find_region(uint64_t address, ww_region* found) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto block = find_block(address);
  if (block == regions.end()) return 0;
  *found = block->second;
  return 1;
}

void ww_host_mark_used(uint64_t address) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto block = find_block(address);
  if (block != regions.end()) block->second.fresh = 0;
}
}
