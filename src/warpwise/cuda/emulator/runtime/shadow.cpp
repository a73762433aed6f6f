#include "shadow.h"

#include <stdio.h>
#include <string.h>

namespace ww {
namespace {

// Block-wide or wider fences make what came before them visible to those who then read a flag.
bool published_in_block(uint64_t stamp) {
  return world.block->strong_seen && world.block->clocks.fenced(thread_of(stamp), clock_of(stamp));
}

bool published_by_block(uint32_t epoch) {
  const uint64_t number = block_number_of(epoch);
  return number < world.fence_epochs.size() && world.fence_epochs[number] >= epoch;
}

bool of_this_block(uint32_t epoch) {
  if (!world.interleaved) return epoch >= world.block->first_epoch;
  return block_number_of(epoch) == world.block->number;
}

Action action_of(bool write, uint64_t stamp) {
  if ((stamp & kClockBits) == kInFlight && write) return kAsyncCopy;
  return stamp & kStrong ? kAtomic : write ? kWrite : kRead;
}

void fill_other(Report& report, uint64_t other, bool wrote) {
  report.has_other = 1;
  copy_index(report.other.block, block_index_of(epoch_of(other)));
  copy_index(report.other.thread, world.thread_index[thread_of(other)]);
  report.other.action = action_of(wrote, other);
  if (other & kLine)
    report.other.line = static_cast<int32_t>(other & (kLine - 1));
  else
    report.other.pc = other & kCodeBits ? world.text + (other & kCodeBits) : 0;
}

constexpr uint32_t field(uint32_t rest, int shift) { return rest >> shift & 0xf; }

}  // namespace

bool unordered(uint64_t stamp, bool shared) {
  const uint32_t epoch = epoch_of(stamp);
  if (epoch < world.floors[shared]) return false;
  if ((stamp & kClockBits) == kInFlight) return shared || of_this_block(epoch);
  if (epoch == world.epoch) {
    if (thread_of(stamp) == world.current->id) return false;
    if (!world.block->clocks.used()) return true;
    return !world.block->clocks.knows(world.current->id, thread_of(stamp), clock_of(stamp)) &&
           !published_in_block(stamp);
  }
  if (shared || of_this_block(epoch)) return false;
  return !published_by_block(epoch);
}

void report_race(const Slot& slot, const Accessed& access, Address word, bool write, uint64_t other, bool other_wrote) {
  Report report = new_report(kDataRace, access.pc, access.line);
  const Address first = access.address > word ? access.address : word;
  describe(report, slot, first);
  report.access.action = access.copying ? kAsyncCopy : access.strong ? kAtomic : write ? kWrite : kRead;
  report.access_bytes = access.bytes;
  fill_other(report, other, other_wrote);
  const bool both_plain_writes =
      report.access.action == kWrite && other_wrote && !(other & kStrong) && report.other.action == kWrite;
  if (!both_plain_writes) {
    add_report(report);
    return;
  }
  // Two threads that store the same value do no harm: wait and see what this one stores.
  if (world.pending_store) return;  // an earlier word of the same access
  PendingStore& pending = world.pending;
  const Address end = access.address + access.bytes;
  pending.address = first;
  pending.bytes = static_cast<unsigned>(end - first < sizeof pending.before ? end - first : sizeof pending.before);
  memcpy(pending.before, reinterpret_cast<const void*>(first), pending.bytes);
  pending.report = report;
  world.pending_store = true;
}

void settle_store() {
  if (!world.pending_store) return;
  world.pending_store = false;
  const PendingStore& pending = world.pending;
  if (memcmp(reinterpret_cast<const void*>(pending.address), pending.before, pending.bytes)) add_report(pending.report);
}

static void check_against_write(const Slot& slot, const Cell& cell, uint32_t mask, const Accessed& access, Address word,
                                bool write) {
  const uint64_t other = cell.write;
  if (epoch_of(other) < world.floors[slot.shared] || !(field(cell.rest, kWriteMask) & mask)) return;
  const bool in_flight = (other & kClockBits) == kInFlight;
  if (access.strong && (other & kStrong) && !in_flight) return;
  if (same_thread_and_epoch(other, world.stamp) && !in_flight) return;
  if (unordered(other, slot.shared)) report_race(slot, access, word, write, other, true);
}

void note_read_slowly(Slot& slot, Cell& cell, uint32_t mask, const Accessed& access, Address word) {
  check_against_write(slot, cell, mask, access, word, false);
  const uint64_t read = cell.read, mine = world.stamp | (access.strong ? kStrong : 0) | code_of(access.pc, access.line);
  const unsigned me = world.current->id;
  if (same_thread_and_epoch(read, mine)) {
    cell.read = access.strong && !(read & kStrong) ? mine & ~kStrong : mine;
    cell.rest |= mask << kReadMask;
    return;
  }
  if (unordered(read, slot.shared)) {
    if (access.strong || epoch_of(read) != world.epoch) return;
    const unsigned second = cell.rest & kReader2;
    const uint32_t clock = (cell.rest & kReader2Clock) >> 10;
    const bool replace = second == thread_of(read) || !unordered(make_stamp(world.epoch, second, clock), slot.shared);
    const uint32_t now = clock_of(mine);
    if (!replace || now > 0x3ff) return;
    const uint32_t before = second == me ? cell.rest & 0xfu << kRead2Mask : 0;
    cell.rest = (cell.rest & (0xffu << kWriteMask)) | me | now << 10 | before | mask << kRead2Mask;
    return;
  }
  cell.read = mine;  // the earlier reader is ordered before this one, and so before whoever comes after this one
  cell.rest = (cell.rest & 0xfu << kWriteMask) | me | mask << kReadMask;
}

void note_write(Slot& slot, Cell& cell, uint32_t mask, const Accessed& access, Address word) {
  const uint64_t write = cell.write,
                 mine = world.stamp | (access.strong ? kStrong : 0) | code_of(access.pc, access.line);
  const uint32_t floor = world.floors[slot.shared];
  if (epoch_of(write) >= floor) check_against_write(slot, cell, mask, access, word, true);
  const uint64_t read = cell.read;
  if (epoch_of(read) >= floor) {
    const unsigned second = cell.rest & kReader2;
    const bool strong_pair = access.strong && (read & kStrong);
    if ((field(cell.rest, kReadMask) & mask) && !strong_pair && !same_thread_and_epoch(read, mine) &&
        unordered(read, slot.shared)) {
      report_race(slot, access, word, true, read, false);
    } else if (epoch_of(read) == world.epoch && second != thread_of(read) && second != world.current->id &&
               (field(cell.rest, kRead2Mask) & mask)) {
      const uint64_t other = make_stamp(world.epoch, second, (cell.rest & kReader2Clock) >> 10) | (read & kCodeBits);
      if (unordered(other, slot.shared)) report_race(slot, access, word, true, other, false);
    }
  }
  if (same_thread_and_epoch(write, mine) && (write & kClockBits) != kInFlight) {
    cell.write = access.strong && !(write & kStrong) ? mine & ~kStrong : mine;
    cell.rest |= mask << kWriteMask;
  } else {
    cell.write = mine;
    cell.rest = (cell.rest & ~(0xfu << kWriteMask)) | mask << kWriteMask;
  }
}

void check_lockstep(const Slot& slot, Address address, unsigned bytes, bool write, Address pc) {
  const Cell& cell = *cell_of(slot, address);
  const auto by_other_lane = [&](uint64_t stamp) {
    return epoch_of(stamp) == world.epoch && (stamp & kStrong) && thread_of(stamp) / 32 == world.current->id / 32 &&
           thread_of(stamp) != world.current->id && unordered(stamp, true);
  };
  const Accessed access{address, bytes, pc, false, 0, false};
  if (by_other_lane(cell.write))
    report_race(slot, access, address, write, cell.write & ~kStrong, true);
  else if (write && by_other_lane(cell.read))
    report_race(slot, access, address, true, cell.read & ~kStrong, false);
}

static uint32_t mask_of(Address address, Address end) {
  const Address word = address & ~Address{3}, stop = end < word + 4 ? end : word + 4;
  return (0xfu << (address & 3) & 0xfu) & (0xfu >> (word + 4 - stop));
}

void mark_in_flight(Slot& slot, Address to, size_t bytes, uint64_t code) {
  const uint64_t stamp = (world.stamp & ~kClockBits) | kInFlight | code;
  for (Address at = to; at < to + bytes; at = (at & ~Address{3}) + 4) {
    Cell& cell = *cell_of(slot, at);
    cell.write = stamp;
    cell.rest = (cell.rest & ~(0xfu << kWriteMask)) | mask_of(at, to + bytes) << kWriteMask;
  }
}

void mark_landed(Slot& slot, Address to, size_t bytes, uint64_t stamp) {
  for (Address at = to; at < to + bytes; at = (at & ~Address{3}) + 4) {
    Cell& cell = *cell_of(slot, at);
    if ((cell.write & kClockBits) == kInFlight) cell.write = stamp | (cell.write & kCodeBits);
  }
}

}  // namespace ww
