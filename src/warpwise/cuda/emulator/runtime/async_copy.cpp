// Asynchronous copies (cp.async and cuda::memcpy_async). The source is read when a copy is issued, and the destination
// is written when a wait completes the copy. In between, an access to the destination, or a write to the source, is a
// data race with the copy.
#include <string.h>

#include "access.h"

namespace ww {

static void complete_copy(Copy& copy, unsigned thread, uint64_t stamp) {
  char* to = reinterpret_cast<char*>(copy.to);
  if (runtime.checks.races && copy.from_bytes &&
      memcmp(reinterpret_cast<const void*>(copy.from), copy.data.data(), copy.from_bytes)) {
    Report report = new_report(kDataRace, copy.pc, copy.line);
    if (const Slot* slot = slot_of(copy.from)) describe(report, *slot, copy.from);
    copy_index(report.access.thread, runtime.thread_index[thread]);
    report.access.action = kAsyncCopy;
    report.access_bytes = copy.bytes;
    set_message(report, "the source of an asynchronous copy was written before the copy completed");
    add_report(report);
  }
  memcpy(to, copy.data.data(), copy.from_bytes);
  memset(to + copy.from_bytes, 0, copy.bytes - copy.from_bytes);
  Slot* slot = slot_of(copy.to);
  if (slot && slot->cells) mark_completed(*slot, copy.to, copy.bytes, stamp);
}

void complete_barrier_copies(Block& block, Barrier& barrier) {
  for (const Barrier::Arrival& arrival : barrier.arrivals) {
    Thread& thread = block.thread[arrival.thread];
    for (size_t i = 0; i < thread.copies.size();) {
      if (thread.copies[i].barrier != &barrier) {
        i++;
        continue;
      }
      complete_copy(thread.copies[i], thread.id, arrival.stamp);
      thread.copies.erase(thread.copies.begin() + static_cast<long>(i));
    }
  }
}

}  // namespace ww

using namespace ww;

extern "C" void ww_copy_async(void* to, const void* from, size_t bytes, size_t from_bytes, int line) {
  const Address pc = reinterpret_cast<Address>(__builtin_return_address(0));
  const Address target = reinterpret_cast<Address>(to), source = reinterpret_cast<Address>(from);
  if (from_bytes > bytes) from_bytes = bytes;
  if (runtime.checks.any) {
    access_range(source, from_bytes, false, pc, kCopyAccess, line);
    access_range(target, bytes, true, pc, kCopyAccess, line);
  }
  Thread& thread = *runtime.current;
  resolve_pending_store();
  thread.copies.push_back(
      {target, source, static_cast<uint32_t>(bytes), static_cast<uint32_t>(from_bytes), thread.copy_group, nullptr,
       line, pc, std::vector<char>(static_cast<const char*>(from), static_cast<const char*>(from) + from_bytes)});
  Slot* slot = slot_of(target);
  if (slot && slot->cells) mark_in_flight(*slot, target, bytes, location_of(pc, line));
}

extern "C" void ww_copy_commit() { runtime.current->copy_group++; }

extern "C" void ww_copy_wait(unsigned still_pending) {
  Thread& thread = *runtime.current;
  resolve_pending_store();
  size_t kept = 0;
  for (size_t i = 0; i < thread.copies.size(); i++) {
    Copy& copy = thread.copies[i];
    if (copy.barrier || copy.group + still_pending >= thread.copy_group) {
      if (kept != i) thread.copies[kept] = std::move(copy);
      kept++;
    } else {
      complete_copy(copy, thread.id, runtime.stamp);
    }
  }
  thread.copies.erase(thread.copies.begin() + static_cast<long>(kept), thread.copies.end());
}
