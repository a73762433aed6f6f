// Shadow memory: each 4-byte word of an argument or shared variable has a cell with its last write, a read and a set of
// further readers. An access that conflicts with one of them, and is not ordered with it by happens-before, is a data
// race.
#pragma once
#include "places.h"
#include "state.h"

namespace ww {

// A stamp identifies an access, in 64 bits from the highest: epoch (24), thread (10), clock (11), strong (1: atomic or
// volatile), location (18: kLineFlag and the number of a place in the source, see places.h, or an offset in the
// kernel's code; 0 if unknown). `rest` holds the number (20) of the set of the further readers in the epoch of `read`,
// see readers.h, and three masks of the word's bytes (4 each): written, read by the first reader, read by the others.
struct __attribute__((packed, aligned(4))) Cell {
  uint64_t write, read;
  uint32_t rest;
};
static_assert(sizeof(Cell) == 20, "shadow cells take five times the memory of the arrays");

constexpr uint64_t kClockBits = uint64_t{0x7ff} << 19, kInFlight = kClockBits, kStrong = uint64_t{1} << 18;
constexpr uint64_t kLocationBits = kStrong - 1, kLineFlag = kStrong >> 1;
constexpr uint32_t kReaderSet = 0xfffff;
constexpr int kWriteMask = 20, kReadMask = 24, kOthersMask = 28;

inline uint32_t epoch_of(uint64_t stamp) { return static_cast<uint32_t>(stamp >> 40); }
inline unsigned thread_of(uint64_t stamp) { return static_cast<unsigned>(stamp >> 30) & 0x3ff; }
inline uint32_t clock_of(uint64_t stamp) { return static_cast<uint32_t>(stamp >> 19) & 0x7ff; }
inline bool same_thread_and_epoch(uint64_t a, uint64_t b) { return (a ^ b) >> 30 == 0; }
inline uint64_t code_offset(Address pc) {
  const Address offset = pc - runtime.text;
  return offset < kLineFlag ? offset : 0;
}
// A strong access keeps its line, which distinguishes an atomic from a volatile access.
inline uint64_t location_of(Address pc, int line, bool strong = false) {
  if (runtime.ptx && !strong) return code_offset(runtime.ptx);
  return line > 0 ? kLineFlag | number_of_place(line) : code_offset(pc);
}
// The place of a stamp, 0 if it has none.
inline int place_of(uint64_t stamp) {
  return stamp & kLineFlag ? place_of_number(static_cast<uint32_t>(stamp & (kLineFlag - 1))) : 0;
}
inline Cell* cell_of(const Slot& slot, Address address) {
  return reinterpret_cast<Cell*>(slot.cells + (address >> 2) * sizeof(Cell));
}

// The slot of an argument, a shared variable or a __device__ variable, or null.
inline Slot* slot_with_cells(Address address) {
  Slot* slot = slot_of(address);
  return slot ? slot : module_slot(address);
}

// True if the access with this stamp does not happen before the running thread's current access.
// `lenient`: a strong access, ordered by the read of a flag without a fence; see synchronise.h.
bool unordered(uint64_t stamp, bool shared, bool lenient = false);

struct AccessInfo {
  Address address;  // of the first byte, for the report
  unsigned bytes;
  Address pc;
  bool strong;
  int line;         // 0 if only `pc` is known
  bool async_copy;  // made by an asynchronous copy
};
void report_race(const Slot& slot, const AccessInfo& access, Address word, bool write, uint64_t other,
                 bool other_wrote);
void resolve_pending_store();
// Call it before the next access of the thread. A copy of a structure calls the hook of its write, then that of its
// read, and then writes.
inline void resolve_before(bool write) {
  if (write || runtime.pending.kind == PendingStore::kAtomic) resolve_pending_store();
}
// Call it after the access of an atomic is checked. `writes`, `rest`: those of the words before the access.
void record_atomic(Slot& slot, Address address, unsigned bytes, bool compares, bool is_narrow, const uint64_t* writes,
                   const uint64_t* rest);

void record_read_slow(Slot& slot, Cell& cell, uint32_t mask, const AccessInfo& access, Address word);
void record_write(Slot& slot, Cell& cell, uint32_t mask, const AccessInfo& access, Address word);

// Records a weak read of the bytes `mask` of one word and returns true, or returns false if the slow path must record
// it. The fast cases:
//   - the same thread reads again;
//   - the first read of a shared word after a barrier of the block;
//   - a second reader for which a set of readers is cached: ReaderSets::remembered;
//   - a third reader, if only barriers of the whole block synchronise its threads: it need not be recorded, because
//     every write that races with it also races with one of the two recorded readers.
inline __attribute__((always_inline)) bool record_read(const Slot& slot, Cell& cell, uint32_t mask, Address pc) {
  const uint32_t floor = runtime.epoch_floor[slot.shared], wrote = epoch_of(cell.write), rest = cell.rest;
  const uint64_t read = cell.read;
  if (runtime.clustered) return false;
  if (wrote >= floor && (!slot.shared || wrote == runtime.epoch || (cell.write & kClockBits) == kInFlight))
    return false;
  if (same_thread_and_epoch(read, runtime.stamp)) {
    if ((rest >> kReadMask & mask) != mask) return false;
    cell.read = runtime.stamp | code_offset(pc);
    return true;
  }
  if (epoch_of(read) == runtime.epoch) {
    if (!(rest & kReaderSet) && !runtime.clocks_used) {
      const uint32_t reader = static_cast<uint32_t>(runtime.stamp >> 19 & 0x1fffff) << 4 | mask;
      const uint32_t next = runtime.block->readers.remembered(kNoReaders, reader);
      if (next) cell.rest = (rest & ~kReaderSet) | next | mask << kOthersMask;
      return next;
    }
    if (!(rest & kReaderSet) || (rest >> kOthersMask & mask) != mask) return false;
    if (!runtime.synchronises_partly) return true;
    const uint32_t reader = static_cast<uint32_t>(runtime.stamp >> 19 & 0x1fffff) << 4 | mask;
    const uint32_t next = runtime.block->readers.remembered(rest & kReaderSet, reader);
    if (next) cell.rest = (rest & ~kReaderSet) | next;
    return next;
  }
  if (slot.shared && !runtime.clocks_used) {  // a barrier of the block orders the recorded reader before this one
    cell.read = runtime.stamp | code_offset(pc);
    cell.rest = (rest & 0xfu << kWriteMask) | mask << kReadMask;
    return true;
  }
  // The recorded reader, in another block, races with every write that this read races with.
  return !slot.shared && epoch_of(read) >= floor && !runtime.clocks_used && !(read & kStrong) &&
         epoch_of(read) < runtime.block->first_epoch && !runtime.synchronised && (rest >> kReadMask & mask) == mask;
}

// Reports implicit warp-synchronous code: a volatile access to shared memory that another lane of the same warp has
// accessed since the last barrier or __syncwarp().
void check_warp_synchronous(const Slot& slot, Address address, unsigned bytes, bool write, Address pc);

constexpr size_t kFencedEpochs = 16;  // of a block, for which the proxy fences are kept
void check_proxy_fence(Address address, size_t bytes, Address pc, const char* what, int line);
void check_global_proxy_fence(Address address, size_t bytes, Address pc, int line);

// A read of a word that `write` wrote, with no fence of another proxy between; `message` names the fence.
void report_missing_fence(const Slot& slot, Address at, uint64_t write, Address pc, int line, const char* message);

// Mark words as the destination of a pending asynchronous copy of the running thread, and of a completed one.
void mark_in_flight(Slot& slot, Address to, size_t bytes, uint64_t code);
void mark_completed(Slot& slot, Address to, size_t bytes, uint64_t stamp);

}  // namespace ww
