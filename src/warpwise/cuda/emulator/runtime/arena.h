// The arena: reserved address space divided into slots of 32 GiB. Each array argument and each shared variable is
// placed in the middle of its own slot, so that any out-of-bounds address within 16 GiB identifies the array it was
// computed from. Most of a slot is never backed by memory.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "report.h"

namespace ww {

constexpr int kSlotShift = 35;  // 32 GiB per slot: a 32-bit index of 4-byte elements stays inside
constexpr Address kSlotBytes = Address{1} << kSlotShift;
constexpr unsigned kTensorSlots = 128, kSharedSlots = 384, kResidentSlots = 1536;
constexpr unsigned kResidentFirst = kTensorSlots + kSharedSlots, kSlots = kResidentFirst + kResidentSlots;
constexpr Address kArenaBytes = Address{kSlots} << kSlotShift;

constexpr size_t kPage = 4096;

// A named range of a slot: one argument or one shared variable.
struct View {
  Address start;
  size_t bytes;
  uint32_t element_bytes;
  bool constant, output;
  const char* name;
  uint32_t inner[2] = {};  // of ww_site
};

struct alignas(64) Slot {  // hot members first, and 128 bytes: an index is a shift
  Address start;           // first byte that is in bounds
  size_t bytes;            // number of bytes in bounds; 0 while the slot is not in use
  Address cells;     // biased: address p's shadow cell is at cells + (p >> 2) * sizeof(Cell); 0 without race checks
  Address written;   // biased: address p's written bit is bit p & 7 of the byte at written + (p >> 3); 0 if not tracked
  uint8_t shared;    // 1 for shared memory, 0 for global; an index of Runtime::epoch_floor
  uint8_t constant;  // 1 if every view is const, kMixedConstant if some are
  uint8_t report_unwritten_reads;
  Space space;
  std::vector<View> views;

  size_t committed;  // bytes from `middle` on that are mapped readable and writable
  Address middle;
  char* cell_memory;
  size_t cell_bytes;
  char* written_memory;
  size_t written_bytes;
};
static_assert(sizeof(Slot) == 128, "indexing a slot takes a shift");
constexpr uint8_t kMixedConstant = 2;

extern Slot slots[kSlots + 1];
extern Address arena_start, arena_bytes;

// Reserves the address space, with the slots of resident memory or without; false if the system refuses it, or if it is
// reserved without them already.
bool reserve_arena(bool resident = false);
// Maps `bytes` bytes, from `offset` bytes past the slot's middle. `exact`: unmaps pages beyond them.
bool commit(Slot& slot, size_t offset, size_t bytes, bool exact);
void allocate_shadow_cells(Slot& slot);  // for the slot's bytes
bool allocate_written_bits(Slot& slot);  // for the slot's bytes, all clear
void mark_written(Slot& slot, Address from, size_t bytes);
void release_slot(Slot& slot);  // ends the slot's use; returns large allocations to the system
void clear_shadow_cells();      // called when epoch numbers run out

inline Slot* slot_of(Address address) {
  const Address offset = address - arena_start;
  return offset < arena_bytes ? &slots[offset >> kSlotShift] : nullptr;
}
// The view that contains the address, or the nearest one.
const View* nearest_view(const Slot& slot, Address address);
// Fills in the report's variable, index, size and memory space for an address in a slot.
void describe(Report& report, const Slot& slot, Address address);

}  // namespace ww
