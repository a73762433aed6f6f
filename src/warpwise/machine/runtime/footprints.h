// The lines, sectors and banks that the lanes of one instruction touch.
#pragma once
#include "hardware.h"

namespace ww::machine {

// How the addresses of the lanes that are on follow one another.
struct Shape {
  bool regular;  // every lane is on and lane l asks for address[0] + l * stride
  i64 stride;    // in bytes
};
Shape shape_of(Mask lanes, const u64* addresses);

// Distinct 128-byte lines, in the order met, with the sectors asked for of each.
struct Lines {
  static constexpr unsigned kMost = kLanes * 4;  // 16 bytes of interleaved local memory are four words of a lane
  unsigned count = 0, sectors = 0, bytes = 0;    // of all lines; bytes: distinct ones
  u64 line[kMost];
  u8 mask[kMost];
};
void global_lines(Mask lanes, const u64* addresses, unsigned bytes, Lines& lines);
// Local memory: word w of lane l lies at (w * 32 + l) * 4. Addresses are a lane's own.
void local_lines(Mask lanes, const u64* addresses, unsigned bytes, Lines& lines);

// Sectors as atomics count them: each as often as the most lanes that share one address in it.
unsigned atomic_sectors(Mask lanes, const u64* addresses, const Lines& lines);

struct Passes {
  unsigned turns, groups;  // of shared memory; groups: those with an active lane
};
Passes shared_passes(Mask lanes, const u64* addresses, unsigned bytes, SharedKind kind);
// What LDGSTS copies out of L1: four lines at a time, and in each turn the first lane of each bank that is read, and of
// those the first of each bank that is written.
Passes copy_passes(Mask reads, const u64* from, Mask writes, const u64* to, unsigned bytes);
// The first lane of each bank in each group.
Mask first_of_each_bank(Mask lanes, const u64* addresses, unsigned bytes);

}  // namespace ww::machine
