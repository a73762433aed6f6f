// What memory instructions ask of the hardware: counters, models of the caches, kept requests.
//
// Blocks run one after another here. On a GPU they are dealt out to the SMs in order, so block b belongs to SM
// b mod sm_count, and each SM has an L1 of its own, which sees its blocks one after another in place of interleaved. So
// that a block does not find what its neighbours would have pushed out meanwhile, L1 is as large as its share of it,
// and what it asks L2 for again must also lie in its share of L2.
#pragma once
#include <vector>
#include "machine.h"

namespace ww::machine {

// The part of the device that the models need.
struct MemorySystem {
  u32 architecture = 90;
  u32 sm_count = 132;
  u32 l1_bytes = 0;  // a block's share: L1 and shared memory together, less what is configured as shared memory
  u64 l2_bytes = 0;
  u64 blocks_at_once = 1;  // on the whole device
};

// A buffer in global memory and where its bytes are.
struct Region {
  u64 address = 0, bytes = 0;
  u8* host = nullptr;
};

// One request kept for pictures. Python mirrors this (counts.Sample): 16 u32, then the addresses.
struct KeptRequest {
  u32 instruction, warp, lanes, bytes;
  u32 block[3];
  u32 sectors, wavefronts;
  u32 unused[7];
  u64 addresses[kLanes];
};

struct TrafficTotals {
  u64 sectors_read, sectors_written;  // distinct
  u64 l2_misses;                      // sectors fetched from DRAM for loads and atomics
  u64 l2_rereads;  // sectors that a block asked L2 for again after it had pushed them out of its share
};

// The shared-memory side of LDGSTS, whose global side is a request of its own: nothing past L1, else the wavefronts
// that reading L1's banks or writing those of shared memory takes, whichever are more.
void note_copy_into_shared(const Instruction& instruction, unsigned bytes, Mask reads, const u64* from, Mask writes,
                           const u64* to);

// Before a launch: `counts` has one entry an instruction and is added to by note_request.
void begin_traffic(const MemorySystem& system, std::vector<Region> regions, InstructionCounts* counts,
                   u32 instructions);
TrafficTotals traffic_totals();
// First and worst request of each memory instruction, first ones first; empties the store.
std::vector<KeptRequest> take_requests();
// The buffer that holds bytes [first, end), or nullptr; a run of calls for one instruction is fast.
const Region* find_region(const Instruction& instruction, u64 first, u64 end);

// What of an instruction the caches and banks heed; decoders of memory instructions leave it in scratch[0],
// bits 32..39.
enum Caching : u8 {
  kCached = 0,
  kBypassL1 = 1,
  kNoAllocate = 2,
  kIncrements = 4,
  kMatrixRows = 8,
  kCompares = 16,
  kCasts = 32
};
inline u8 caching_of(const Instruction& instruction) { return static_cast<u8>(instruction.scratch[0] >> 32); }

}  // namespace ww::machine
