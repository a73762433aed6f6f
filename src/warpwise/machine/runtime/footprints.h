// The lines, sectors and banks that the lanes of one instruction access.
#pragma once
#include "hardware.h"

namespace ww::machine {

// Address pattern of the active lanes.
struct AddressPattern {
  bool regular;  // all lanes are active, and lane l accesses addresses[0] + l * stride
  i64 stride;    // in bytes
};
AddressPattern pattern_of(Mask lanes, const u64* addresses);

// Distinct 128-byte lines in order of first access, with the sectors accessed in each.
struct Lines {
  static constexpr unsigned kMaxLines = kLanes * 4;  // a 16-byte local access is four words in four lines
  unsigned count = 0, sectors = 0, bytes = 0;        // totals; bytes: distinct bytes
  u64 line[kMaxLines];
  u8 mask[kMaxLines];
};
void global_lines(Mask lanes, const u64* addresses, unsigned bytes, Lines& lines);
// Local memory is interleaved: word w of lane l is at (w * 32 + l) * 4. `addresses` are offsets per lane.
void local_lines(Mask lanes, const u64* addresses, unsigned bytes, Lines& lines);

// Sector count of atomics: each sector counts n times, where n is the maximum number of lanes on one of its addresses.
unsigned atomic_sectors(Mask lanes, const u64* addresses, const Lines& lines);

struct Passes {
  unsigned passes, groups;  // of shared memory; groups with an active lane
};
Passes shared_passes(Mask lanes, const u64* addresses, unsigned bytes, SharedKind kind);
// LDGSTS reads L1 four lines at a time. A pass serves the first remaining lane of each bank read and, among these, the
// first of each bank written.
Passes copy_passes(Mask reads, const u64* from, Mask writes, const u64* to, unsigned bytes);
// The first lane of each bank in each group.
Mask first_of_each_bank(Mask lanes, const u64* addresses, unsigned bytes);

}  // namespace ww::machine
