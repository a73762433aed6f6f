// What the memory hardware of each architecture does, as tables: nothing here is code that decides.
#pragma once
#include "machine.h"

namespace ww::machine {

constexpr unsigned kSectorBytes = 32, kLineBytes = 128, kBanks = 32;

// How shared memory serves the lanes of one instruction. A wavefront delivers at most one 4-byte word of each of the 32
// banks, so that wider accesses go in groups of lanes whose bytes fill 128: 32 lanes of up to 4 bytes, 16 of 8, 8
// of 16. A group takes a turn for each different word of the bank that most of its lanes want. What is conflicts to ncu
// are the wavefronts less the groups that have an active lane. Measured on an H200: benchmarks/microbenchmarks.
struct SharedRule {
  bool groups_double;  // when lanes l and l^1, or l and l^2, agree on their address throughout the warp
  bool words_join;     // lanes of one word share a turn; else they take one each
  u8 wavefronts;       // of a turn
};
enum class SharedKind : u8 { kLoad, kStore, kAtomic, kCompareAndSwap, kIncrement, kMatrix };
constexpr SharedRule kSharedRules[] = {
    {true, true, 1},    // a 16-byte load of one address takes 2 wavefronts: a half-warp is the most that goes together
    {false, true, 1},   // of lanes that store to one word the last one wins, in one turn
    {false, false, 1},  // ATOMS with an integer operation
    {false, false, 2},  // ATOMS.CAS reads in one wavefront and writes in another
    {false, true, 1},   // ATOMS.POPC.INC adds the number of a word's lanes at once
    {false, true, 1},   // LDSM, STSM: the 8 rows of a matrix, 16 bytes each, are a group
};
inline const SharedRule& shared_rule(SharedKind kind) { return kSharedRules[static_cast<unsigned>(kind)]; }

// ATOMS.CAST.SPIN, of which the compiler makes loops for float and 64-bit additions: of each group one lane a bank
// stores, the others fail and go round again. Two wavefronts a group, never a conflict.
constexpr unsigned kCastWavefronts = 2;

// DRAM is read in pieces of 64 bytes: a sector that L2 lacks brings its neighbour along.
constexpr unsigned kFetchBytes = 64;

// A store waits in L1 until those before it are on their way, and takes a later store's bytes of the same sectors
// along: so neighbouring scalars that a thread stores one by one leave together, as long as not too many sectors wait.
// Other warps' stores come between. From the stores to L2 of the rungs that store so, on an H200: those of 12 to 20
// sectors merge in 65 to 90 % of the cases, those of 31 and 32 in 4 to 14 %.
constexpr unsigned kWaitingSectors = 24, kMergedOfTen = 7;

// Cycles from issue until a result can be used, for one warp alone on an SM, and what each further line, wavefront or
// lane adds. sm_90 as measured (latency.cu), the others from published microbenchmarks: a model of time wants their
// order, not their last digit.
struct Latencies {
  u16 architecture;
  u16 l1, l2, dram;                  // a load whose farthest sector is there
  u16 line;                          // each further 128-byte line
  u16 shared, wavefront;             // a load of one wavefront; each further one
  u16 global_atomic, shared_atomic;  // that return a value
  u16 store;                         // until the registers of a store may be overwritten
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

// Caches. L1: lines of 4 sectors, filled by sectors; loads and stores allocate, stores go on to L2 at once, atomics
// pass by. L2: the same lines for the whole device; everything allocates, and a store misses nothing.
constexpr unsigned kL1Ways = 8, kL2Ways = 16;

}  // namespace ww::machine
