// One access by the kernel: where it may go, what it may do there, and what the shadow says.
#pragma once
#include "shadow.h"

namespace ww {

enum : unsigned { kPlainAccess = 0, kStrongAccess = 1, kCopyAccess = 2 };

void out_of_bounds(const Slot& slot, Address address, size_t bytes, bool write, Address pc, int line = 0);
void misaligned(const Slot& slot, Address address, size_t bytes, bool write, Address pc, int line = 0);
void constant_written(const Slot& slot, Address address, size_t bytes, Address pc, int line = 0);
void unwritten_read(const Slot& slot, Address address, size_t bytes, Address pc, int line = 0);
void access_elsewhere(Address address, size_t bytes, bool write, Address pc, int line = 0);
void budget_spent(Address pc);
// Any length and alignment, word by word; `flags` as above.
void access_range(Address address, size_t bytes, bool write, Address pc, unsigned flags = kPlainAccess, int line = 0);

// Up to 16 bytes: sets the written-bits, or reports the ones that are missing.
inline __attribute__((always_inline)) void follow_bytes(const Slot& slot, Address address, unsigned bytes, bool write,
                                                        Address pc) {
  char* at = reinterpret_cast<char*>(slot.written + (address >> 3));
  const uint32_t bits = ((1u << bytes) - 1) << (address & 7);  // at most 16 + 7 bits
  uint32_t have;
  __builtin_memcpy(&have, at, sizeof have);
  if (write) {
    have |= bits;
    __builtin_memcpy(at, &have, sizeof have);
  } else if (__builtin_expect((have & bits) != bits && slot.report_unwritten_reads, 0)) {
    unwritten_read(slot, address, bytes, pc);
  }
}

template <unsigned kBytes, bool kWriting>
inline __attribute__((always_inline)) void access(Address address, Address pc) {
  if (__builtin_expect(--world.budget < 0, 0)) budget_spent(pc);
  Slot* found = slot_of(address);
  if (__builtin_expect(!found, 0)) return access_elsewhere(address, kBytes, kWriting, pc);
  Slot& slot = *found;
  const Address offset = address - slot.start;
  if (__builtin_expect(offset >= slot.bytes || slot.bytes - offset < kBytes, 0))
    out_of_bounds(slot, address, kBytes, kWriting, pc);
  if (__builtin_expect(address & (kBytes - 1), 0)) misaligned(slot, address, kBytes, kWriting, pc);
  if (kWriting && __builtin_expect(slot.constant, 0)) constant_written(slot, address, kBytes, pc);
  if (slot.written) follow_bytes(slot, address, kBytes, kWriting, pc);
  if (!slot.cells) return;
  if (__builtin_expect(world.pending_store, 0)) settle_store();
  constexpr uint32_t kMask = kBytes >= 4 ? 0xf : (1u << kBytes) - 1;
  const uint32_t mask = kBytes >= 4 ? kMask : kMask << (address & 3);
  Cell* cell = cell_of(slot, address);
  for (unsigned word = 0; word < (kBytes + 3) / 4; word++) {
    const Address at = address + 4 * word;
    if (kWriting)
      note_write(slot, cell[word], mask, {address, kBytes, pc, false, 0, false}, at);
    else
      note_read(slot, cell[word], mask, at, kBytes, pc);
  }
}

}  // namespace ww
