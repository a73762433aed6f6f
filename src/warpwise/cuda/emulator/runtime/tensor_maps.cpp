// Tensor maps in global memory that the launch has written. TMA reads them through the tensormap proxy: the writing
// block releases them, and the block that uses them acquires each, by fence.proxy.tensormap.
#include "access.h"

using namespace ww;

namespace {

constexpr unsigned kMapBytes = 128;

struct Writes {
  uint64_t state = 0;   // changes with each write by the launch; 0: none
  uint64_t latest = 0;  // the stamp of a write of the latest epoch
  Address at = 0;       // its word
};

Writes writes_of(const Slot& slot, Address map) {
  Writes found;
  for (Address at = map; at < map + kMapBytes; at += 4) {
    const uint64_t write = cell_of(slot, at)->write;
    if (epoch_of(write) < runtime.epoch_floor[0]) continue;
    found.state = (found.state ^ write >> 19) * 0x9e3779b97f4a7c15u + at - map + 1;
    if (epoch_of(write) >= epoch_of(found.latest)) found.latest = write, found.at = at;
  }
  return found;
}

// The slot of a map in memory that kernels write, or null.
Slot* slot_of_map(Address map) {
  Slot* slot = slot_with_cells(map);
  const bool inside = slot && map - slot->start < slot->bytes && slot->bytes - (map - slot->start) >= kMapBytes;
  return inside && slot->cells ? slot : nullptr;
}

}  // namespace

extern "C" {

void ww_tensor_map_read(const void* object, int line) {
  if (!runtime.checks.any) return;
  const Address pc = reinterpret_cast<Address>(__builtin_return_address(0)), map = reinterpret_cast<Address>(object);
  Slot* slot = slot_of_map(map);
  if (slot_of(map) && slot_of(map)->shared)
    fatal_report(new_report(kUndefinedBehaviour, pc, line),
                 "the tensor map is in shared memory: TMA reads maps in global, constant or parameter memory");
  if (!slot) return;
  resolve_pending_store();
  const Writes writes = writes_of(*slot, map);
  if (writes.state && !unordered(writes.latest, false)) {
    const auto released = runtime.maps_released.find(block_number_of(epoch_of(writes.latest)));
    const auto acquired = runtime.block->acquired_maps.find(map);
    const char* missing = nullptr;
    if (released == runtime.maps_released.end() || released->second < epoch_of(writes.latest))
      missing = "a fence.proxy.tensormap::generic.release, or tensormap.cp_fenceproxy, after the write";
    else if (acquired == runtime.block->acquired_maps.end() || acquired->second != writes.state)
      missing = "a fence.proxy.tensormap::generic.acquire of its 128 bytes before the copy";
    if (missing) {
      const std::string message = std::string("TMA reads a tensor map that the kernel has written, without ") + missing;
      report_missing_fence(*slot, writes.at, writes.latest, pc, line, message.c_str());
      return;
    }
  }
  access_range(map, kMapBytes, false, pc, kCopyAccess, line);
}

void ww_tensor_map_release() {
  resolve_pending_store();
  runtime.maps_released[runtime.block->number] = runtime.epoch;
}

void ww_tensor_map_acquire(const void* object) {
  const Address map = reinterpret_cast<Address>(object);
  resolve_pending_store();
  if (Slot* slot = slot_of_map(map)) runtime.block->acquired_maps[map] = writes_of(*slot, map).state;
}

}  // extern "C"
