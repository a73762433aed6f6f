// Memory traffic: counters of memory instructions, cache models, sampled requests.
//
// Block b runs on SM b mod sm_count, and each SM has its own L1. Blocks run one after another here, but concurrently on
// a GPU, where they evict each other's lines. Therefore the L1 model has the size of one block's share of L1, and a
// block's second access to a sector hits in L2 only if the sector is still in the block's share of L2.
#pragma once
#include <vector>
#include "machine.h"

namespace ww::machine {

// Device parameters of the models.
struct MemorySystem {
  u32 architecture = 90;
  u32 sm_count = 132;
  u32 l1_bytes = 0;  // a block's share of L1, without the shared memory carve-out
  u64 l2_bytes = 0;
  u64 resident_blocks = 1;  // resident on the device
};

// A buffer in global memory and the host memory behind it.
struct Region {
  u64 address = 0, bytes = 0;
  u8* host = nullptr;
};

// A sampled request. runtime.py has the same structure: 16 u32, then the addresses.
struct RequestSample {
  u32 instruction, warp, lanes, bytes;
  u32 block[3];
  u32 sectors, wavefronts;
  u32 unused[7];
  u64 addresses[kLanes];
};

struct TrafficTotals {
  u64 sectors_read, sectors_written;  // distinct sectors
  u64 l2_misses;                      // sectors fetched from DRAM for loads and atomics
  u64 l2_rereads;                     // sectors that a block requests again after their eviction from its share of L2
};

// Records the shared-memory side of LDGSTS: the wavefronts of reading the L1 banks and writing the shared-memory banks
// (none if the copy bypasses L1). Its global side is recorded by record_request.
void record_copy_to_shared(const Instruction& instruction, unsigned bytes, Mask reads, const u64* from, Mask writes,
                           const u64* to);

// Call before a launch. record_request adds to `counts`, one entry per instruction.
void begin_traffic(const MemorySystem& system, std::vector<Region> regions, InstructionCounts* counts,
                   u32 instructions);
TrafficTotals traffic_totals();
// Returns the first and the worst request of each memory instruction, and clears them.
std::vector<RequestSample> take_samples();
// The buffer that contains bytes [first, end), or nullptr. The last result of each instruction is cached.
const Region* find_region(const Instruction& instruction, u64 first, u64 end);

// Properties of an instruction for the cache and bank models; decoders store them in scratch[0], bits 32..39.
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
