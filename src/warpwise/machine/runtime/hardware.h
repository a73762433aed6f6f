// What the memory hardware of each architecture does, as tables: nothing here is code that decides.
#pragma once
#include "machine.h"

namespace ww::machine {

constexpr unsigned kSectorBytes = 32, kLineBytes = 128, kBanks = 32;

// How shared memory serves the lanes of one instruction. A wavefront delivers at most one 4-byte word of each of the 32
// banks, 128 bytes in all, so that wider accesses go in groups of lanes whose bytes fill one wavefront. Lanes of a
// group that ask for the same word share it; different words of one bank take a wavefront each.
struct SharedRule {
  u8 group;         // lanes served together: 32 of 4 bytes or fewer, 16 of 8, 8 of 16
  bool pairs_join;  // two neighbouring groups go together if lanes l and l^1, or l and l^2, agree on their addresses
  bool words_join;  // lanes of one word share a pass; atomics serve them one by one instead
};
enum class SharedKind : u8 { kLoad, kStore, kAsyncStore, kAtomic, kMergingAtomic, kMatrix };
constexpr unsigned kWidths = 3;  // 4 bytes or fewer, 8, 16
constexpr SharedRule kSharedRules[][kWidths] = {
    // Loads: an 8-byte load of one address takes 1 wavefront, a 16-byte one 2, since halves of a warp never join there.
    {{32, false, true}, {16, true, true}, {8, true, true}},
    // Stores: the last lane of a word wins, all in one pass.
    {{32, false, true}, {16, true, true}, {8, true, true}},
    // Stores of asynchronous copies.
    {{32, false, true}, {16, false, true}, {8, false, true}},
    // Integer and compare-and-swap atomics: lanes of one word one after another.
    {{32, false, false}, {16, false, false}, {8, false, false}},
    // ATOMS.POPC.INC adds the number of lanes of a word at once.
    {{32, false, true}, {16, false, true}, {8, false, true}},
    // ldmatrix and stmatrix: the 8 rows of 16 bytes of one matrix together.
    {{8, false, true}, {8, false, true}, {8, false, true}},
};
inline const SharedRule& shared_rule(SharedKind kind, unsigned bytes) {
  return kSharedRules[static_cast<unsigned>(kind)][bytes <= 4 ? 0 : bytes == 8 ? 1 : 2];
}

// Cycles from issue until a result can be used, for one warp alone on an SM, and what each further line, wavefront or
// lane adds. From published microbenchmarks of these chips; a model of time wants their order, not their last digit.
struct Latencies {
  u16 architecture;
  u16 l1, l2, dram;                  // a load whose farthest sector is there
  u16 line;                          // each further 128-byte line: the tag stage looks up one a cycle, misses queue
  u16 shared, wavefront;             // a load of one wavefront; each further one
  u16 global_atomic, shared_atomic;  // that return a value
  u16 store;                         // until the registers of a store may be overwritten
};
constexpr Latencies kLatencies[] = {
    {75, 32, 188, 440, 2, 22, 2, 260, 60, 14}, {80, 38, 220, 470, 2, 29, 2, 320, 64, 14},
    {86, 38, 230, 480, 2, 29, 2, 320, 64, 14}, {89, 43, 273, 541, 2, 30, 2, 340, 64, 14},
    {90, 41, 263, 600, 2, 29, 2, 360, 64, 14}, {100, 41, 300, 700, 2, 29, 2, 380, 64, 14},
};
inline const Latencies& latencies_of(unsigned architecture) {
  const Latencies* best = kLatencies;
  for (const Latencies& each : kLatencies)
    if (each.architecture <= architecture) best = &each;
  return *best;
}

// Caches. L1: lines of 4 sectors; loads allocate, stores write through and allocate nothing, atomics pass by. L2: the
// same lines for the whole device; everything allocates.
constexpr unsigned kL1Ways = 8, kL2Ways = 16;

}  // namespace ww::machine
