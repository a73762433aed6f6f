// Data race detection on shadow cells; see shadow.h.
#include "shadow.h"

#include <string.h>

#include <algorithm>

#include "described_access.h"
#include "expected_reads.h"
#include "synchronise.h"
#include "volatile_data.h"

namespace ww {
namespace {

bool of_this_block(uint32_t epoch) {
  if (!runtime.interleaved) return epoch >= runtime.block->first_epoch;
  return block_number_of(epoch) == runtime.block->number;
}

constexpr uint32_t field(uint32_t rest, int shift) { return rest >> shift & 0xf; }

// One stamp for a strong access and an earlier weak one by the same thread: not strong, with the place of the weak one,
// because later accesses race with that one.
constexpr uint64_t weakened(uint64_t strong, uint64_t weak) {
  return (strong & ~(kStrong | kLocationBits)) | (weak & kLocationBits);
}

}  // namespace

static void record_reader(Slot& slot, Cell& cell, uint32_t mask, uint64_t mine, bool strong, Address word);

bool unordered(uint64_t stamp, bool shared, bool lenient) {
  const uint32_t epoch = epoch_of(stamp);
  if (epoch < runtime.epoch_floor[shared]) return false;
  if ((stamp & kClockBits) == kInFlight) return shared || of_this_block(epoch);
  const Block& block = *runtime.block;
  if (runtime.clustered) {
    const int rank = rank_of_epoch(epoch);
    if (rank >= 0 && static_cast<unsigned>(rank) != block.rank) {
      const Seen& seen = block.remote[runtime.current->id][static_cast<size_t>(rank)];
      const unsigned thread = thread_of(stamp);
      if (epoch < seen.epoch) return false;
      if (epoch == seen.epoch && thread < seen.clock.size() && seen.clock[thread] >= clock_of(stamp)) return false;
      return !is_known(stamp, lenient);
    }
  }
  if (block.clocks.is_agent(thread_of(stamp)) && shared)
    return epoch >= block.agents_epoch &&
           !block.clocks.is_ordered(runtime.current->id, thread_of(stamp), clock_of(stamp));
  if (epoch == runtime.epoch) {
    if (thread_of(stamp) == runtime.current->id) return false;
    if (!runtime.block->clocks.used()) return true;
    return !runtime.block->clocks.is_ordered(runtime.current->id, thread_of(stamp), clock_of(stamp)) &&
           !(lenient && is_known(stamp, true));
  }
  if (shared || of_this_block(epoch)) return false;
  return !is_known(stamp, lenient);
}

// Defers the report of a write's race to resolve_pending_store: the stored value, which may equal the old one, is known
// only after this access.
static void report_if_changed(const AccessInfo& access, Address word, const Report& report, PendingStore::Kind kind,
                              uint64_t other) {
  PendingStore& pending = runtime.pending;
  const Address first = std::max(access.address, word), end = access.address + access.bytes;
  const unsigned bytes = static_cast<unsigned>(std::min((word & ~Address{3}) + 4, end) - first);
  if (runtime.pending_store) {  // set by an earlier word of the same access
    if (first != pending.address + pending.bytes || pending.bytes + bytes > sizeof pending.before) return;
    memcpy(pending.before + pending.bytes, reinterpret_cast<const void*>(first), bytes);
    pending.bytes += bytes;
    return;
  }
  pending.kind = kind;
  pending.address = first;
  pending.bytes = bytes;
  memcpy(pending.before, reinterpret_cast<const void*>(first), bytes);
  pending.report = report;
  pending.read = other;
  runtime.pending_store = true;
}

void report_race(const Slot& slot, const AccessInfo& access, Address word, bool write, uint64_t other,
                 bool other_wrote) {
  const Report report = race_report(slot, access, word, write, other, other_wrote);
  const Action mine = report.access.action, its = report.other.action;
  const bool benign_if_equal = mine == kVolatileWrite ? its == kWrite || its == kVolatileWrite || its == kAtomic
                                                      : mine == kWrite && (its == kWrite || its == kVolatileWrite);
  if (other_wrote && benign_if_equal)
    report_if_changed(access, word, report, PendingStore::kRace, other);
  else if (may_be_expected(access, write, other, other_wrote))
    suspect_read(access, write, other, report);
  else
    add_report(report);
}

void record_atomic(Slot& slot, Address address, unsigned bytes, bool compares, bool is_narrow, const uint64_t* writes,
                   const uint64_t* rest) {
  PendingStore& pending = runtime.pending;
  pending.kind = PendingStore::kAtomic;
  pending.address = address;
  pending.bytes = bytes;
  pending.compares = compares;
  pending.is_narrow = is_narrow;
  pending.stamp = cell_of(slot, address)->write;
  memcpy(pending.before, reinterpret_cast<const void*>(address), bytes);
  for (unsigned word = 0; word < (bytes + 3) / 4; word++)
    pending.writes[word] = writes[word], pending.rest[word] = rest[word];
  runtime.pending_store = true;
}

static void resolve_atomic(const PendingStore& pending, bool changed) {
  if (changed) {
    if (const Slot* slot = slot_with_cells(pending.address)) note_observed(*slot, pending.address, pending.writes[0]);
    if (pending.compares) begin_section(*runtime.current, pending.address);
    if (pending.is_narrow) note_narrow(pending.address, pending.stamp);
    return;
  }
  if (pending.compares) withdraw_release();
  Slot* slot = slot_with_cells(pending.address);
  for (unsigned word = 0; word < (pending.bytes + 3) / 4; word++) {
    Cell& cell = *cell_of(*slot, pending.address + 4 * word);
    const uint32_t mask = field(cell.rest, kWriteMask),
                   before = field(static_cast<uint32_t>(pending.rest[word]), kWriteMask);
    cell.write = pending.writes[word];
    cell.rest = (cell.rest & ~(0xfu << kWriteMask)) | before << kWriteMask;
    record_reader(*slot, cell, mask, pending.stamp, true, pending.address + 4 * word);
  }
  note_observed(pending.address);
}

void resolve_pending_store() {
  if (!runtime.pending_store) return;
  runtime.pending_store = false;
  const PendingStore& pending = runtime.pending;
  const bool changed = memcmp(reinterpret_cast<const void*>(pending.address), pending.before, pending.bytes);
  if (pending.kind == PendingStore::kAtomic)
    resolve_atomic(pending, changed);
  else if (changed && pending.kind == PendingStore::kRace)
    add_report(pending.report);
  else if (changed)
    suspect(pending.address, pending.read, pending.report);
}

// True for a weak access of a flag after the acquire that read it. The release precedes the write of the flag by one
// tick of the clock, so the write counts as ordered if the tick before it is.
static bool is_acquired_flag(const AccessInfo& access, Address word, uint64_t write, bool shared) {
  constexpr uint64_t kTick = uint64_t{1} << 19;
  return !access.strong && (write & kStrong) && clock_of(write) > 1 && has_observed(word, write) &&
         !unordered(write - kTick, shared);
}

// A strong access needs no fence after the read of the flag; a volatile write after a lock was taken does.
static bool is_lenient(const AccessInfo& access, bool write) {
  return access.strong && !(write && is_volatile(access) && runtime.current->takes_lock);
}

static void check_against_write(const Slot& slot, const Cell& cell, uint32_t mask, const AccessInfo& access,
                                Address word, bool write) {
  const uint64_t other = cell.write;
  if (epoch_of(other) < runtime.epoch_floor[slot.shared] || !(field(cell.rest, kWriteMask) & mask)) return;
  const bool in_flight = (other & kClockBits) == kInFlight;
  const bool reductions = access.async_copy && (other & kStrong);  // by bulk copies
  if (access.strong && (other & kStrong) && (!in_flight || reductions) && !races_with_write(access, word, write, other))
    return;
  if (same_thread_and_epoch(other, runtime.stamp) && !in_flight) return;
  if (!unordered(other, slot.shared, is_lenient(access, write)) || is_acquired_flag(access, word, other, slot.shared))
    return;
  report_race(slot, access, word, write, other, true);
}

void record_read_slow(Slot& slot, Cell& cell, uint32_t mask, const AccessInfo& access, Address word) {
  check_against_write(slot, cell, mask, access, word, false);
  const uint64_t mine =
      runtime.stamp | (access.strong ? kStrong : 0) | location_of(access.pc, access.line, access.strong);
  record_reader(slot, cell, mask, mine, access.strong, word);
}

static void record_reader(Slot& slot, Cell& cell, uint32_t mask, uint64_t mine, bool strong, Address word) {
  const uint64_t read = cell.read;
  if (same_thread_and_epoch(read, mine)) {
    if (strong && (read & kStrong) && !(mine & kLineFlag) && clock_of(read) < clock_of(mine))
      note_reread(word, read, mine);
    cell.read = strong && !(read & kStrong) ? weakened(mine, read) : mine;
    cell.rest |= mask << kReadMask;
    return;
  }
  if (unordered(read, slot.shared)) {
    if (strong) return;
    if (epoch_of(read) != runtime.epoch) {
      if (slot.shared ? runtime.clustered : runtime.synchronised)
        add_foreign_reader(word >> 2, mine, mask, epoch_of(cell.write) >= runtime.epoch_floor[slot.shared]);
      return;
    }
    const uint32_t set = cell.rest & kReaderSet;
    if (set && !runtime.synchronises_partly && (field(cell.rest, kOthersMask) & mask) == mask) return;
    cell.rest = (cell.rest & ~kReaderSet) | runtime.block->readers.add(set, mine, mask) | mask << kOthersMask;
    return;
  }
  // The earlier read happens before this one, and so before every access that follows this one.
  const bool others = (cell.rest & kReaderSet) && epoch_of(read) == runtime.epoch;
  cell.read = mine;
  cell.rest = (cell.rest & ((others ? kReaderSet | 0xfu << kOthersMask : 0u) | 0xfu << kWriteMask)) | mask << kReadMask;
}

// A volatile write and a strong read that nothing orders.
static void check_volatile_data(const Slot& slot, const AccessInfo& access, Address word, uint64_t read) {
  if (races_with_read(word, read))
    report_race(slot, access, word, true, read, false);
  else if (is_handed_over(word, read))
    report_if_changed(access, word, race_report(slot, access, word, true, read, false), PendingStore::kSuspectedRace,
                      read);
}

// The stamp of a reader other than the first that races with the running thread's write, or 0.
static uint64_t race_with_others(const Slot& slot, const Cell& cell, uint32_t mask, Address word) {
  if (epoch_of(cell.read) == runtime.epoch && (field(cell.rest, kOthersMask) & mask))
    for (uint32_t i = 0, set = cell.rest & kReaderSet; i < runtime.block->readers.count(set); i++) {
      const Reader reader = runtime.block->readers.readers(set)[i];
      const uint64_t stamp = stamp_of(reader);
      if ((mask_of_reader(reader) & mask) && thread_of(stamp) != runtime.current->id && unordered(stamp, slot.shared))
        return stamp;
    }
  return any_foreign_readers() ? foreign_race(word >> 2, mask, slot.shared) : 0;
}

void record_write(Slot& slot, Cell& cell, uint32_t mask, const AccessInfo& access, Address word) {
  const uint64_t write = cell.write, mine = runtime.stamp | (access.strong ? kStrong : 0) |
                                            location_of(access.pc, access.line, access.strong);
  const uint32_t floor = runtime.epoch_floor[slot.shared];
  if (epoch_of(write) >= floor) check_against_write(slot, cell, mask, access, word, true);
  const uint64_t read = cell.read;
  if (epoch_of(read) >= floor) {
    const bool strong_pair = access.strong && (read & kStrong);
    if ((field(cell.rest, kReadMask) & mask) && !strong_pair && !same_thread_and_epoch(read, mine) &&
        unordered(read, slot.shared, is_lenient(access, true))) {
      report_race(slot, access, word, true, read, false);
    } else if (strong_pair && is_volatile(access) && !same_thread_and_epoch(read, mine) &&
               unordered(read, slot.shared, true)) {
      check_volatile_data(slot, access, word, read);
    } else if (uint64_t other = race_with_others(slot, cell, mask, word)) {
      report_race(slot, access, word, true, other, false);
    }
    if (!access.strong && mask == 0xf) {  // the readers can be dropped: a later access that races with one of them also
                                          // races with this write
      if (any_foreign_readers()) drop_foreign_readers(word >> 2);
      cell.rest &= ~(kReaderSet | 0xfu << kOthersMask);
    }
  }
  // A cell has one time stamp. If the same thread wrote other bytes of the word earlier, before it synchronised, their
  // record is replaced by that of this write.
  if (same_thread_and_epoch(write, mine) && clock_of(write) == clock_of(mine) && (write & kClockBits) != kInFlight) {
    cell.write = access.strong && !(write & kStrong) ? weakened(mine, write) : mine;
    cell.rest |= mask << kWriteMask;
  } else {
    cell.write = mine;
    cell.rest = (cell.rest & ~(0xfu << kWriteMask)) | mask << kWriteMask;
  }
}

void check_warp_synchronous(const Slot& slot, Address address, unsigned bytes, bool write, Address pc) {
  const Cell& cell = *cell_of(slot, address);
  const auto by_other_lane = [&](uint64_t stamp) {
    return epoch_of(stamp) == runtime.epoch && (stamp & kStrong) && thread_of(stamp) / 32 == runtime.current->id / 32 &&
           thread_of(stamp) != runtime.current->id && unordered(stamp, true);
  };
  const AccessInfo access{address, bytes, pc, false, 0, false};
  if (by_other_lane(cell.write))
    report_race(slot, access, address, write, cell.write & ~kStrong, true);
  else if (write && by_other_lane(cell.read))
    report_race(slot, access, address, true, cell.read & ~kStrong, false);
}

void report_missing_fence(const Slot& slot, Address at, uint64_t write, Address pc, int line, const char* message) {
  Report report = new_report(kDataRace, pc, line);
  describe(report, slot, at);
  report.access.action = kRead;
  report.access_bytes = 4;
  report.has_other = 1;
  describe_stamp(report.other, write, true);
  set_message(report, "%s", message);
  add_report(report);
}

// ``what`` reads a word through the async proxy that ``write`` wrote through the generic one, without a fence between.
static void report_proxy_fence(const Slot& slot, Address at, uint64_t write, Address pc, int line, const char* what) {
  const std::string message = std::string(what) + " reads " + (slot.shared ? "shared" : "global") +
                              " memory through the async proxy, without a fence.proxy.async after the write by "
                              "another instruction";
  report_missing_fence(slot, at, write, pc, line, message.c_str());
}

// Reports bytes of shared memory that were written through the generic proxy and that no proxy fence makes visible to
// the async proxy, which is about to read them.
void check_proxy_fence(Address address, size_t bytes, Address pc, const char* what, int line) {
  Slot* slot = slot_of(address);
  const Block& block = *runtime.block;
  const unsigned me = runtime.current->id;
  if (!slot || !slot->cells || !slot->shared) return;
  for (Address at = address & ~Address{3}; at < address + bytes; at += 4) {
    const uint64_t write = cell_of(*slot, at)->write;
    const uint32_t epoch = epoch_of(write);
    if (epoch < block.first_epoch || block_number_of(epoch) != block.number) continue;
    if ((write & kClockBits) == kInFlight || block.clocks.is_agent(thread_of(write))) continue;
    if (epoch < block.thread[me].fenced_epoch) continue;
    bool fenced = epoch == block.epoch && block.clocks.proxy_fenced(me, thread_of(write), clock_of(write));
    if (epoch < block.epoch) {
      // Epochs that are no longer kept count as fenced; none are kept before the first proxy fence.
      fenced = block.fenced_epochs.size() == kFencedEpochs && epoch < block.fenced_epochs.front().epoch;
      for (const FencedEpoch& each : block.fenced_epochs)
        fenced |= each.epoch == epoch && each.clock[thread_of(write)] >= clock_of(write);
    }
    if (fenced) continue;
    return report_proxy_fence(*slot, at, write, pc, line, what);
  }
}

// Reports a bulk load of global memory that the same launch has written without a proxy fence.
void check_global_proxy_fence(Address address, size_t bytes, Address pc, int line) {
  Slot* slot = slot_of(address);
  if (!slot || !slot->cells || slot->shared || address - slot->start >= slot->bytes) return;
  const Address end = std::min(address + bytes, slot->start + slot->bytes);
  uint64_t fenced = 0;
  for (Address at = address & ~Address{3}; at < end; at += 4) {
    const uint64_t write = cell_of(*slot, at)->write;
    if (epoch_of(write) < runtime.epoch_floor[0] || (write & kClockBits) == kInFlight) continue;
    if (write >> 19 == fenced >> 19 || runtime.block->clocks.is_agent(thread_of(write))) continue;
    fenced = write;
    if (is_proxy_fenced(*runtime.block, write) || unordered(write, false)) continue;  // the latter: a race, found next
    return report_proxy_fence(*slot, at, write, pc, line, "a bulk copy");
  }
}

static uint32_t mask_of(Address address, Address end) {
  const Address word = address & ~Address{3}, stop = end < word + 4 ? end : word + 4;
  return (0xfu << (address & 3) & 0xfu) & (0xfu >> (word + 4 - stop));
}

void mark_in_flight(Slot& slot, Address to, size_t bytes, uint64_t code) {
  const uint64_t stamp = (runtime.stamp & ~kClockBits) | kInFlight | code;
  for (Address at = to; at < to + bytes; at = (at & ~Address{3}) + 4) {
    Cell& cell = *cell_of(slot, at);
    cell.write = stamp;
    cell.rest = (cell.rest & ~(0xfu << kWriteMask)) | mask_of(at, to + bytes) << kWriteMask;
  }
}

void mark_completed(Slot& slot, Address to, size_t bytes, uint64_t stamp) {
  for (Address at = to; at < to + bytes; at = (at & ~Address{3}) + 4) {
    Cell& cell = *cell_of(slot, at);
    if ((cell.write & kClockBits) == kInFlight) cell.write = stamp | (cell.write & (kLocationBits | kStrong));
  }
}

}  // namespace ww
