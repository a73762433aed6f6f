// Properties of the memory hardware of each architecture, as tables.
#pragma once
#include "machine.h"

namespace ww::machine {

constexpr unsigned kSectorBytes = 32, kLineBytes = 128, kBanks = 32;

// Shared-memory wavefronts of an instruction. A wavefront delivers at most one 4-byte word per bank (32 banks), so
// wider accesses are split into groups of lanes that access 128 bytes: 32 lanes of up to 4 bytes, 16 lanes of 8 bytes,
// 8 lanes of 16 bytes. The passes of a group are the maximum over the banks of distinct words accessed in the bank.
// ncu's bank conflicts are passes minus groups with an active lane. Measured on an H200: benchmarks/microbenchmarks.
struct SharedRule {
  bool doubles_groups;    // if lanes l and l^1 (or l and l^2) have equal addresses in the whole warp
  bool merges_same_word;  // lanes that access the same word share a pass
  u8 wavefronts;          // per pass
};
enum class SharedKind : u8 { kLoad, kStore, kAtomic, kCompareAndSwap, kIncrement, kMatrix };
constexpr SharedRule kSharedRules[] = {
    {true, true, 1},    // a 16-byte load of one address takes 2 wavefronts: the largest group is a half-warp
    {false, true, 1},   // lanes that store to the same word: one pass, the last lane wins
    {false, false, 1},  // ATOMS with an integer operation
    {false, false, 2},  // ATOMS.CAS reads in one wavefront and writes in another
    {false, true, 1},   // ATOMS.POPC.INC adds the number of lanes of a word in one pass
    {false, true, 1},   // LDSM, STSM: the 8 rows of a matrix, 16 bytes each, are a group
};
inline const SharedRule& shared_rule(SharedKind kind) { return kSharedRules[static_cast<unsigned>(kind)]; }

// ATOMS.CAST.SPIN, which the compiler emits in loops for float and 64-bit additions: in each group one lane per bank
// succeeds, the others retry. Two wavefronts per group, no conflicts.
constexpr unsigned kCastWavefronts = 2;

// DRAM fetch granularity: an L2 miss also fetches the other sector of its 64 bytes.
constexpr unsigned kFetchBytes = 64;

// Write coalescing in L1: a buffer holds stores that wait for earlier stores, and a later store to the same sectors is
// merged into the buffered one. Consecutive scalar stores of a thread can therefore reach L2 as one write. Stores of
// other warps interleave. Measured on an H200: stores of 12 to 20 sectors merge in 65 to 90 % of the cases, stores
// of 31 and 32 sectors in 4 to 14 %.
constexpr unsigned kStoreBufferSectors = 24, kMergedPerTen = 7;

// Cycles from issue until the result can be used, for one warp alone on an SM, and the cycles per further line or
// wavefront. sm_90 is measured (latency.cu), the others are from published microbenchmarks.
struct Latencies {
  u16 architecture;
  u16 l1, l2, dram;                  // load latency by the farthest level accessed
  u16 line;                          // per further 128-byte line
  u16 shared, wavefront;             // a load of one wavefront; per further wavefront
  u16 global_atomic, shared_atomic;  // atomics that return a value
  u16 store;                         // until the source registers of a store can be overwritten
};
constexpr Latencies kLatencies[] = {
    {75, 32, 188, 440, 2, 22, 2, 260, 60, 14}, {80, 38, 220, 470, 2, 29, 2, 320, 64, 14},
    {86, 38, 230, 480, 2, 29, 2, 320, 64, 14}, {89, 43, 273, 541, 2, 30, 2, 340, 64, 14},
    {90, 44, 290, 675, 2, 23, 2, 392, 32, 14}, {100, 44, 300, 700, 2, 23, 2, 400, 32, 14},
};
inline const Latencies& latencies_of(unsigned architecture) {
  const Latencies* best = kLatencies;
  for (const Latencies& each : kLatencies)
    if (each.architecture <= architecture) best = &each;
  return *best;
}

// Caches. L1: 128-byte lines of 4 sectors, filled by sector; loads and stores allocate, stores are written through,
// atomics bypass L1. L2: the same lines, one cache for the device; all accesses allocate, stores never miss.
constexpr unsigned kL1Ways = 8, kL2Ways = 16;

}  // namespace ww::machine
