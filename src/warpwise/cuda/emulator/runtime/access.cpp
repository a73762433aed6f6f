#include "access.h"

#include <string.h>

#include "fibers.h"

namespace ww {

static Report access_report(Kind kind, const Slot& slot, Address address, size_t bytes, bool write, Address pc,
                            int line) {
  Report report = new_report(kind, pc, line);
  describe(report, slot, address);
  report.access.action = write ? kWrite : kRead;
  report.access_bytes = static_cast<uint32_t>(bytes);
  return report;
}

// Which of the slot's bytes an access that begins inside leaves first.
void out_of_bounds(const Slot& slot, Address address, size_t bytes, bool write, Address pc, int line) {
  const Address end = slot.start + slot.bytes;
  const Address first_bad = address >= slot.start && address < end ? end : address;
  Report report = access_report(kOutOfBounds, slot, first_bad, bytes, write, pc, line);
  report.address = address;
  fatal_report(report, "%s",
               report.space == kNoSpace ? "the address belongs to no argument, shared or local variable" : "");
}

void misaligned(const Slot& slot, Address address, size_t bytes, bool write, Address pc, int line) {
  fatal_report(access_report(kMisalignedAccess, slot, address, bytes, write, pc, line), "%s", "");
}

void constant_written(const Slot& slot, Address address, size_t bytes, Address pc, int line) {
  if (slot.constant == kSomeConstant) {  // arguments that overlap: one of them may be writable here
    for (const View& view : slot.views)
      if (!view.constant && address - view.start < view.bytes) return;
  }
  fatal_report(access_report(kReadOnlyWrite, slot, address, bytes, true, pc, line), "%s", "");
}

void unwritten_read(const Slot& slot, Address address, size_t bytes, Address pc, int line) {
  const uint8_t* written = reinterpret_cast<const uint8_t*>(slot.written);
  const Address end = address + bytes;
  Address first = address;
  while (first < end && (written[first >> 3] >> (first & 7) & 1)) first++;
  if (first == end) return;
  add_report(access_report(kUninitializedRead, slot, first, bytes, false, pc, line));
}

void access_elsewhere(Address address, size_t bytes, bool write, Address pc, int line) {
  const Thread* thread = world.current;
  if (!thread || address - reinterpret_cast<Address>(thread->stack) < kStackBytes) return;  // its own variables: most
  if (!runs_kernel()) return;
  Report report = new_report(kOutOfBounds, pc, line);
  report.address = address;
  report.access.action = write ? kWrite : kRead;
  report.access_bytes = static_cast<uint32_t>(bytes);
  if (in_stacks(address)) {
    report.space = kLocal;
    fatal_report(report, "the address belongs to a local variable of another thread");
  }
  if (address < 4096) fatal_report(report, "null pointer");
  check_module_access(address, bytes, write, pc, line);
}

void access_range(Address address, size_t bytes, bool write, Address pc, unsigned flags, int line) {
  if (!bytes) return;
  world.budget -= static_cast<int64_t>(bytes / 8 + 1);
  if (world.budget < 0) budget_spent(pc);
  Slot* found = slot_of(address);
  if (!found) return access_elsewhere(address, bytes, write, pc, line);
  Slot& slot = *found;
  const Address offset = address - slot.start;
  if (offset >= slot.bytes || slot.bytes - offset < bytes) out_of_bounds(slot, address, bytes, write, pc, line);
  if (write && slot.constant) constant_written(slot, address, bytes, pc, line);
  const Address end = address + bytes;
  if (slot.written) {
    if (write)
      mark_written(slot, address, bytes);
    else if (slot.report_unwritten_reads)
      unwritten_read(slot, address, bytes, pc, line);
  }
  if (!slot.cells) return;
  settle_store();
  const Accessed accessed{address, static_cast<unsigned>(bytes), pc, (flags & kStrongAccess) != 0,
                          line,    (flags & kCopyAccess) != 0};
  for (Address at = address; at < end;) {
    const Address word = at & ~Address{3}, next = word + 4 < end ? word + 4 : end;
    const uint32_t mask = (0xfu << (at - word) & 0xfu) & (0xfu >> (word + 4 - next));
    Cell& cell = *cell_of(slot, at);
    if (write)
      note_write(slot, cell, mask, accessed, at);
    else
      note_read_slowly(slot, cell, mask, accessed, at);
    at = next;
  }
}

}  // namespace ww
