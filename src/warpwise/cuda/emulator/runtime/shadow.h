// Shadow memory: for each 4-byte word the last writer and two readers, by which races are found.
#pragma once
#include "state.h"

namespace ww {

// A stamp says who accessed, when: epoch (24 bits: one for each block and barrier) | thread (10) | clock (11) |
// strong (1: atomic or volatile) | where: kLine and a source line, or an offset in the kernel's code (18, 0 if
// unknown). `rest` holds the second reader's thread (10) and clock (10), and a mask of 4 bytes each for writer and
// readers. A second reader that equals the first means that there is none.
struct __attribute__((packed, aligned(4))) Cell {
  uint64_t write, read;
  uint32_t rest;
};
static_assert(sizeof(Cell) == 20, "memory with race checks is five times the tensors for cells");

constexpr uint64_t kClockBits = uint64_t{0x7ff} << 19, kInFlight = kClockBits, kStrong = uint64_t{1} << 18;
constexpr uint64_t kCodeBits = kStrong - 1, kLine = kStrong >> 1;
constexpr uint32_t kReader2 = 0x3ff, kReader2Clock = 0xffc00;
constexpr int kWriteMask = 20, kReadMask = 24, kRead2Mask = 28;

inline uint32_t epoch_of(uint64_t stamp) { return static_cast<uint32_t>(stamp >> 40); }
inline unsigned thread_of(uint64_t stamp) { return static_cast<unsigned>(stamp >> 30) & 0x3ff; }
inline uint32_t clock_of(uint64_t stamp) { return static_cast<uint32_t>(stamp >> 19) & 0x7ff; }
inline bool same_thread_and_epoch(uint64_t a, uint64_t b) { return (a ^ b) >> 30 == 0; }
inline uint64_t code_offset(Address pc) {
  const Address offset = pc - world.text;
  return offset < kLine ? offset : 0;
}
inline uint64_t code_of(Address pc, int line) {
  return line > 0 && static_cast<uint64_t>(line) < kLine ? kLine | static_cast<uint64_t>(line) : code_offset(pc);
}
inline Cell* cell_of(const Slot& slot, Address address) {
  return reinterpret_cast<Cell*>(slot.cells + (address >> 2) * sizeof(Cell));
}

// Whether the access with that stamp is not ordered before what the running thread does now.
bool unordered(uint64_t stamp, bool shared);

struct Accessed {
  Address address;  // of the access, for the report
  unsigned bytes;
  Address pc;
  bool strong;
  int line;      // 0 if only pc tells
  bool copying;  // by an asynchronous copy
};
void report_race(const Slot& slot, const Accessed& access, Address word, bool write, uint64_t other, bool other_wrote);
void settle_store();

void note_read_slowly(Slot& slot, Cell& cell, uint32_t mask, const Accessed& access, Address word);
void note_write(Slot& slot, Cell& cell, uint32_t mask, const Accessed& access, Address word);

// A plain read of the bytes `mask` of one word. What happens most is decided here: the same thread reads again, or
// there are two readers already and nothing new to learn.
inline __attribute__((always_inline)) void note_read(Slot& slot, Cell& cell, uint32_t mask, Address address,
                                                     unsigned bytes, Address pc) {
  const uint32_t floor = world.floors[slot.shared], wrote = epoch_of(cell.write), rest = cell.rest;
  const uint64_t read = cell.read;
  if (wrote < floor || (slot.shared && wrote != world.epoch && (cell.write & kClockBits) != kInFlight)) {
    if (same_thread_and_epoch(read, world.stamp)) {
      if ((rest >> kReadMask & mask) == mask) {
        cell.read = world.stamp | code_offset(pc);
        return;
      }
    } else if (epoch_of(read) == world.epoch) {
      if (!world.clocks_used && (rest & kReader2) != thread_of(read) && (rest >> kRead2Mask & mask) == mask) return;
    } else if (!slot.shared && epoch_of(read) >= floor && !world.clocks_used && !(read & kStrong) &&
               epoch_of(read) < world.block->first_epoch && world.fence_epochs.empty() &&
               (rest >> kReadMask & mask) == mask) {
      return;  // a reader in another block conflicts with any writer here as well as this reader would
    }
  }
  note_read_slowly(slot, cell, mask, {address, bytes, pc, false, 0, false}, address);
}

// A volatile access to shared memory that relies on the lanes of a warp running in lockstep is a race.
void check_lockstep(const Slot& slot, Address address, unsigned bytes, bool write, Address pc);

// Marks or unmarks words as the target of a copy in flight by the running thread.
void mark_in_flight(Slot& slot, Address to, size_t bytes, uint64_t code);
void mark_landed(Slot& slot, Address to, size_t bytes, uint64_t stamp);

}  // namespace ww
