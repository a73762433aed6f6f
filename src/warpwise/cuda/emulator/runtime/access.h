// The checks of one memory access by a kernel: bounds, alignment, const, initialisation, and data races by way of
// shadow memory. access() is the hot path, called before each load and store; access_range() takes any size and
// alignment.
#pragma once
#include "shadow.h"

namespace ww {

enum : unsigned { kPlainAccess = 0, kStrongAccess = 1, kCopyAccess = 2 };

void report_out_of_bounds(const Slot& slot, Address address, size_t bytes, bool write, Address pc, int line = 0);
void report_misaligned(const Slot& slot, Address address, size_t bytes, bool write, Address pc, int line = 0);
void report_const_write(const Slot& slot, Address address, size_t bytes, Address pc, int line = 0);
void report_uninitialized_read(const Slot& slot, Address address, size_t bytes, Address pc, int line = 0);
void access_outside_arena(Address address, size_t bytes, bool write, Address pc, unsigned flags = kPlainAccess,
                          int line = 0);
void budget_exhausted();
// Records the words of an access that is in bounds.
void record_words(Slot& slot, Address address, size_t bytes, bool write, Address pc, unsigned flags, int line);
// Checks an access of any size and alignment, one 4-byte word at a time.
void access_range(Address address, size_t bytes, bool write, Address pc, unsigned flags = kPlainAccess, int line = 0);

// For an access of up to 16 bytes: a write sets the written bits; a read reports bytes that were never written.
inline __attribute__((always_inline)) void check_written_bits(const Slot& slot, Address address, unsigned bytes,
                                                              bool write, Address pc) {
  char* at = reinterpret_cast<char*>(slot.written + (address >> 3));
  const uint32_t bits = ((1u << bytes) - 1) << (address & 7);  // at most 16 + 7 bits
  uint32_t have;
  __builtin_memcpy(&have, at, sizeof have);
  if (write) {
    have |= bits;
    __builtin_memcpy(at, &have, sizeof have);
  } else if (__builtin_expect((have & bits) != bits && slot.report_unwritten_reads, 0)) {
    report_uninitialized_read(slot, address, bytes, pc);
  }
}

// The complete checks. Not inlined: the fast path then needs neither a stack frame nor saved registers.
template <unsigned kBytes, bool kWriting>
__attribute__((noinline)) void access_slowly(Address address, Address pc) {
  if (__builtin_expect(runtime.budget < 0, 0)) budget_exhausted();
  Slot* found = slot_of(address);
  if (__builtin_expect(!found, 0)) return access_outside_arena(address, kBytes, kWriting, pc);
  Slot& slot = *found;
  runtime.last_access = pc;
  const Address offset = address - slot.start;
  if (__builtin_expect(offset >= slot.bytes || slot.bytes - offset < kBytes, 0))
    report_out_of_bounds(slot, address, kBytes, kWriting, pc);
  if (__builtin_expect(address & (kBytes - 1), 0)) report_misaligned(slot, address, kBytes, kWriting, pc);
  if (kWriting && __builtin_expect(slot.constant, 0)) report_const_write(slot, address, kBytes, pc);
  if (slot.written) check_written_bits(slot, address, kBytes, kWriting, pc);
  if (!slot.cells) return;
  if (__builtin_expect(runtime.pending_store, 0)) resolve_before(kWriting);
  constexpr uint32_t kMask = kBytes >= 4 ? 0xf : (1u << kBytes) - 1;
  const uint32_t mask = kBytes >= 4 ? kMask : kMask << (address & 3);
  Cell* cell = cell_of(slot, address);
  for (unsigned word = 0; word < (kBytes + 3) / 4; word++) {
    const Address at = address + 4 * word;
    if (kWriting)
      record_write(slot, cell[word], mask, {address, kBytes, pc, false, 0, false}, at);
    else if (!record_read(slot, cell[word], mask, pc))
      record_read_slow(slot, cell[word], mask, {at, kBytes, pc, false, 0, false}, at);
  }
}

// The fast path: a read in bounds, aligned, of written bytes, which changes at most the reader in the shadow cell. Any
// other access takes the slow path.
template <unsigned kBytes, bool kWriting>
inline __attribute__((always_inline)) void access(Address address, Address pc) {
  runtime.budget--;
  Slot* slot = slot_of(address);
  if (kWriting || kBytes > 4 || runtime.budget < 0 || !slot) return access_slowly<kBytes, kWriting>(address, pc);
  const Address offset = address - slot->start;
  if (offset >= slot->bytes || slot->bytes - offset < kBytes || (address & (kBytes - 1)))
    return access_slowly<kBytes, kWriting>(address, pc);
  if (slot->written) {
    const uint32_t bits = ((1u << kBytes) - 1) << (address & 7);
    if ((*reinterpret_cast<const uint8_t*>(slot->written + (address >> 3)) & bits) != bits)
      return access_slowly<kBytes, kWriting>(address, pc);
  }
  if (slot->cells) {
    const uint32_t mask = kBytes >= 4 ? 0xf : ((1u << kBytes) - 1) << (address & 3);
    if (runtime.pending_store || !record_read(*slot, *cell_of(*slot, address), mask, pc))
      return access_slowly<kBytes, kWriting>(address, pc);
  }
  runtime.last_access = pc;
}

}  // namespace ww
