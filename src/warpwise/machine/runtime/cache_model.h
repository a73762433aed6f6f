// Cache models of L1 and L2, and the footprint of a launch in sectors.
#pragma once
#include <cstddef>
#include <vector>
#include "hardware.h"

namespace ww::machine {

// A set-associative cache of 128-byte lines of four sectors, with LRU replacement.
class SectoredCache {
 public:
  void reset(u64 bytes, unsigned ways);
  // Returns which of `sectors` (4 bits) hit; if `allocate`, all of them are valid afterwards.
  unsigned access(u64 line, unsigned sectors, bool allocate);
  // Invalidates sectors of a line.
  void invalidate(u64 line, unsigned sectors);

 private:
  u64* set_of(u64 line) {
    const u32 mixed = static_cast<u32>(line ^ (line >> 11) ^ (line >> 23));
    return &entries_[static_cast<size_t>(mixed % sets_) * ways_];
  }
  unsigned ways_ = 0;
  u32 sets_ = 0;
  std::vector<u64> entries_;  // (line + 1) << 4 | sectors, 0 if empty; in each set from most to least recently used
};

// Distinct sectors read and written in all buffers.
class Footprint {
 public:
  void reset(size_t lines) { marks_.assign(lines, 0), read_ = written_ = 0; }
  void read(size_t line, unsigned sectors) {
    const unsigned fresh = sectors & ~marks_[line];
    read_ += __builtin_popcount(fresh), marks_[line] |= fresh;
  }
  void write(size_t line, unsigned sectors) {
    const unsigned fresh = sectors & ~(marks_[line] >> 4);
    written_ += __builtin_popcount(fresh), marks_[line] |= fresh << 4;
  }
  u64 sectors_read() const { return read_; }
  u64 sectors_written() const { return written_; }

 private:
  std::vector<u8> marks_;  // per line: low 4 bits read, high 4 bits written
  u64 read_ = 0, written_ = 0;
};

}  // namespace ww::machine
