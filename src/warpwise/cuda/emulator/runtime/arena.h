// The arena: one huge stretch of reserved address space cut into slots. Each tensor and each shared variable lies in
// the middle of a slot of its own, so that an access past its end still tells whose end it was, however far off.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "report.h"

namespace ww {

constexpr int kSlotShift = 35;  // 32 GiB a slot: a 32-bit index times 4 bytes stays inside
constexpr Address kSlotBytes = Address{1} << kSlotShift;
constexpr unsigned kTensorSlots = 128, kSharedSlots = 384, kSlots = kTensorSlots + kSharedSlots;
constexpr Address kArenaBytes = Address{kSlots} << kSlotShift;

constexpr size_t kPage = 4096;

// A named stretch of a slot: one argument, or one shared variable.
struct View {
  Address start;
  size_t bytes;
  uint32_t element_bytes;
  bool constant, output;
  const char* name;
};

struct Slot {
  Address start;     // first byte that may be touched
  size_t bytes;      // how many may be; 0 while the slot is not in use
  Address cells;     // biased: the cell of address p is at cells + (p >> 2) * sizeof(Cell); 0 without race checks
  Address written;   // biased: bit p & 7 of the byte at written + (p >> 3); 0 if not followed
  uint8_t shared;    // 1 for shared memory, indexes World::floors
  uint8_t constant;  // no view may be written; kSomeConstant if it depends on the view
  uint8_t report_unwritten_reads;
  Space space;
  std::vector<View> views;

  size_t committed;  // bytes readable and writable from `middle`
  Address middle;
  char* cell_memory;
  size_t cell_bytes;
  char* written_memory;
  size_t written_bytes;
};
constexpr uint8_t kSomeConstant = 2;

extern Slot slots[kSlots + 1];
extern Address arena_start;

// Reserves the address space; false if the system refuses it.
bool reserve_arena();
// Makes `bytes` bytes usable, `offset` bytes past the slot's middle.
bool commit(Slot& slot, size_t offset, size_t bytes, bool exact);
void follow_races(Slot& slot);   // gives the slot cells for its extent
bool follow_writes(Slot& slot);  // gives the slot cleared written-bits for its extent
void mark_written(Slot& slot, Address from, size_t bytes);
void retire(Slot& slot);  // ends a use; returns large memory to the system
void forget_cells();      // zeroes every cell, for when epochs run out

inline Slot* slot_of(Address address) {
  const Address offset = address - arena_start;
  return offset < kArenaBytes ? &slots[offset >> kSlotShift] : nullptr;
}
// The view that holds the address, or the one nearest to it.
const View* nearest_view(const Slot& slot, Address address);
// Fills variable, index, size and space for an address in a slot.
void describe(Report& report, const Slot& slot, Address address);

}  // namespace ww
