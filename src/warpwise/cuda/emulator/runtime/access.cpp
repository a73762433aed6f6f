// Reports of accesses that are not allowed, and the slow path of access checks.
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

// Reports the first byte that is out of bounds: of an access that starts in bounds, the byte past the end.
void report_out_of_bounds(const Slot& slot, Address address, size_t bytes, bool write, Address pc, int line) {
  const Address end = slot.start + slot.bytes;
  const Address first_bad = address >= slot.start && address < end ? end : address;
  Report report = access_report(kOutOfBounds, slot, first_bad, bytes, write, pc, line);
  report.address = address;
  fatal_report(
      report, "%s",
      report.space == kNoSpace ? "the address is not in an argument, a shared variable or a local variable" : "");
}

void report_misaligned(const Slot& slot, Address address, size_t bytes, bool write, Address pc, int line) {
  fatal_report(access_report(kMisalignedAccess, slot, address, bytes, write, pc, line), "%s", "");
}

void report_const_write(const Slot& slot, Address address, size_t bytes, Address pc, int line) {
  if (slot.constant == kMixedConstant) {  // overlapping arguments: a writable one may cover the address
    for (const View& view : slot.views)
      if (!view.constant && address - view.start < view.bytes) return;
  }
  fatal_report(access_report(kReadOnlyWrite, slot, address, bytes, true, pc, line), "%s", "");
}

void report_uninitialized_read(const Slot& slot, Address address, size_t bytes, Address pc, int line) {
  const uint8_t* written = reinterpret_cast<const uint8_t*>(slot.written);
  const Address end = address + bytes;
  Address first = address;
  while (first < end && (written[first >> 3] >> (first & 7) & 1)) first++;
  if (first == end) return;
  add_report(access_report(kUninitializedRead, slot, first, bytes, false, pc, line));
}

void access_outside_arena(Address address, size_t bytes, bool write, Address pc, unsigned flags, int line) {
  const Thread* thread = runtime.current;
  if (!thread || address - reinterpret_cast<Address>(thread->stack) < kStackBytes)
    return;  // the most frequent case: the thread's own stack
  if (!on_kernel_fiber()) return;
  Report report = new_report(kOutOfBounds, pc, line);
  report.address = address;
  report.access.action = write ? kWrite : kRead;
  report.access_bytes = static_cast<uint32_t>(bytes);
  if (in_stacks(address)) {
    report.space = kLocal;
    fatal_report(report, "the address is in a local variable of another thread");
  }
  if (address < 4096) fatal_report(report, "null pointer");
  check_module_access(address, bytes, write, pc, flags, line);
}

void access_range(Address address, size_t bytes, bool write, Address pc, unsigned flags, int line) {
  if (!bytes) return;
  runtime.budget -= static_cast<int64_t>(bytes / 8 + 1);
  if (runtime.budget < 0) budget_exhausted();
  Slot* found = slot_of(address);
  if (!found) return access_outside_arena(address, bytes, write, pc, flags, line);
  Slot& slot = *found;
  if (in_kernel_code(pc)) runtime.last_access = pc;
  const Address offset = address - slot.start;
  if (offset >= slot.bytes || slot.bytes - offset < bytes) report_out_of_bounds(slot, address, bytes, write, pc, line);
  if (write && slot.constant) report_const_write(slot, address, bytes, pc, line);
  if (slot.written) {
    if (write)
      mark_written(slot, address, bytes);
    else if (slot.report_unwritten_reads)
      report_uninitialized_read(slot, address, bytes, pc, line);
  }
  if (slot.cells) record_words(slot, address, bytes, write, pc, flags, line);
}

void record_words(Slot& slot, Address address, size_t bytes, bool write, Address pc, unsigned flags, int line) {
  resolve_before(write);
  const Address end = address + bytes;
  const AccessInfo accessed{address, static_cast<unsigned>(bytes), pc, (flags & kStrongAccess) != 0,
                            line,    (flags & kCopyAccess) != 0};
  for (Address at = address; at < end;) {
    const Address word = at & ~Address{3}, next = word + 4 < end ? word + 4 : end;
    const uint32_t mask = (0xfu << (at - word) & 0xfu) & (0xfu >> (word + 4 - next));
    Cell& cell = *cell_of(slot, at);
    if (write)
      record_write(slot, cell, mask, accessed, at);
    else
      record_read_slow(slot, cell, mask, accessed, at);
    at = next;
  }
}

}  // namespace ww
