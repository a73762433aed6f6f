// What memory there is, to the byte. Tensors that a tracked call makes come through an allocator that stands in front
// of PyTorch's own: it notes each block until it is freed, and fills it with NaN, so that reading torch::empty shows.
#include "memory.h"

#include <c10/core/CPUAllocator.h>

#include <map>
#include <mutex>

namespace warpwise_host {
namespace {
constexpr uint8_t kPriority = 255;

std::mutex guard;
std::map<uint64_t, ww_region> regions;  // by address
thread_local int tracked = 0;

// The last block that begins at or before the address, if the address is in it or at its end.
std::map<uint64_t, ww_region>::iterator around(uint64_t address) {
  auto after = regions.upper_bound(address);
  if (after == regions.begin()) return regions.end();
  --after;
  return address <= after->first + after->second.bytes ? after : regions.end();
}

class Tracking final : public c10::Allocator {
 public:
  explicit Tracking(c10::Allocator* base) : base_(base) { free_ = base->raw_deleter(); }

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr made = base_->allocate(bytes);
    // A block with a context of its own (an arena, a mapped file) has a deleter that only its allocator understands.
    if (tracked == 0 || !made || made.get_context() != made.get()) return made;
    if (!free_ || !made.compare_exchange_deleter(free_, &release)) return made;
    poison(made.get(), bytes);
    remember(made.get(), bytes, false);
    return made;
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_ ? &release : nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { base_->copy_data(to, from, bytes); }

 private:
  static void release(void* block) {
    forget(block, false);
    free_(block);
  }
  static inline c10::DeleterFnPtr free_ = nullptr;
  c10::Allocator* base_;
};

Tracking& tracking() {
  static auto* const allocator = new Tracking(c10::GetCPUAllocator());  // blocks may outlive every static object
  return *allocator;
}
}  // namespace

void remember(const void* address, size_t bytes, bool device) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto key = reinterpret_cast<uint64_t>(address);
  regions[key] = {key, bytes, 1, device};
}

bool forget(const void* address, bool device) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto found = regions.find(reinterpret_cast<uint64_t>(address));
  if (found == regions.end() || bool(found->second.device) != device) return false;
  regions.erase(found);
  return true;
}

int holds(const void* address, size_t bytes) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto key = reinterpret_cast<uint64_t>(address);
  const auto found = around(key);
  if (found == regions.end()) return -1;
  return key + bytes <= found->first + found->second.bytes;
}
}  // namespace warpwise_host

using namespace warpwise_host;

extern "C" {
void ww_host_enter() {
  Tracking& allocator = tracking();
  if (tracked++ == 0 && c10::GetCPUAllocator() != &allocator) c10::SetCPUAllocator(&allocator, kPriority);
}
void ww_host_leave() { tracked--; }

int ww_host_find(uint64_t address, ww_region* found) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto block = around(address);
  if (block == regions.end()) return 0;
  *found = block->second;
  return 1;
}

void ww_host_used(uint64_t address) {
  const std::lock_guard<std::mutex> lock(guard);
  const auto block = around(address);
  if (block != regions.end()) block->second.fresh = 0;
}
}
