#include "traffic.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "cache_model.h"
#include "footprints.h"

namespace ww::machine {

namespace {

constexpr u64 kLocalLine = u64{1} << 56;  // line number of local memory, above all global lines

struct SampledRequests {
  std::unique_ptr<RequestSample> first, worst;
  u32 worst_excess = 0;
};

// Sectors of a line that the current block accessed; valid if `epoch` is the current one.
struct BlockMark {
  u32 epoch;
  u8 sectors;
};
struct Release {
  void operator()(BlockMark* block_marks) const { std::free(block_marks); }
};

// Stored sectors that wait in L1 to be written to L2, oldest first.
struct StoreBuffer {
  unsigned lines = 0, sectors = 0;
  u64 line[kStoreBufferSectors];
  u8 mask[kStoreBufferSectors];
};

struct Model {
  MemorySystem system;
  const Latencies* latency = kLatencies;
  std::vector<Region> regions;     // sorted by address
  std::vector<size_t> first_mark;  // of each region: index of its first line in the footprint
  std::vector<u32> recent;         // per instruction: index of the region last accessed
  InstructionCounts* counts = nullptr;
  std::vector<SampledRequests> samples;
  std::vector<SectoredCache> l1;  // per SM
  SectoredCache l2;
  Footprint footprint;
  u64 l2_misses = 0, l2_rereads = 0;
  SectoredCache l2_share;                             // one block's share of L2
  u64 block = 0;                                      // current block
  u32 epoch = 0;                                      // number of blocks started
  std::unique_ptr<BlockMark[], Release> block_marks;  // per line of the footprint; calloc: zero pages until touched
  StoreBuffer store_buffer;
  u64 merge_count = 0;
};
Model model;

void save_sample(std::unique_ptr<RequestSample>& place, const Warp& warp, const Instruction& instruction,
                 const Request& request, unsigned sectors, unsigned wavefronts) {
  if (!place) place = std::make_unique<RequestSample>();
  *place = {instruction.index,
            warp.number,
            request.lanes,
            request.bytes,
            {warp.block->x, warp.block->y, warp.block->z},
            sectors,
            wavefronts,
            {},
            {}};
  for_lanes(request.lanes, [&](unsigned l) { place->addresses[l] = request.addresses[l]; });
}

void sample_request(const Warp& warp, const Instruction& instruction, const Request& request, unsigned got,
                    unsigned ideal, unsigned sectors, unsigned wavefronts) {
  SampledRequests& samples = model.samples[instruction.index];
  if (!samples.first) save_sample(samples.first, warp, instruction, request, sectors, wavefronts);
  if (got > ideal + samples.worst_excess) {
    samples.worst_excess = got - ideal;
    save_sample(samples.worst, warp, instruction, request, sectors, wavefronts);
  }
}

constexpr size_t kNoLine = ~size_t{0};

// Index of a line in the footprint.
size_t footprint_line(const Instruction& instruction, const Lines& lines, unsigned i) {
  const Region* region = find_region(instruction, lines.line[i] * kLineBytes, lines.line[i] * kLineBytes + 1);
  if (!region) {  // a buffer can start inside a line
    const u64 inside = lines.line[i] * kLineBytes + __builtin_ctz(lines.mask[i]) * kSectorBytes + kSectorBytes - 1;
    region = find_region(instruction, inside, inside + 1);
    if (!region) return kNoLine;
  }
  const size_t index = static_cast<size_t>(region - model.regions.data());
  return model.first_mark[index] + (lines.line[i] - region->address / kLineBytes);
}

void begin_block(u64 block) {
  model.block = block, model.epoch++;
  model.l2_share.reset(std::max<u64>(model.system.l2_bytes / model.system.resident_blocks, 8192), kL2Ways);
  model.store_buffer.lines = model.store_buffer.sectors = 0;
}

// Records that the current block accesses these sectors of a line in L2. Returns those that it accessed before and that
// have been evicted since.
unsigned record_l2_access(size_t mark, u64 line, unsigned sectors) {
  const unsigned resident = model.l2_share.access(line, sectors, true);
  BlockMark& entry = model.block_marks[mark];
  if (entry.epoch != model.epoch) entry = {model.epoch, 0};
  const unsigned before = entry.sectors;
  entry.sectors |= static_cast<u8>(sectors);
  return before & sectors & ~resident;
}

// Returns the sectors of a store that are merged into an earlier store.
unsigned merged(u64 line, unsigned sectors) {
  StoreBuffer& store_buffer = model.store_buffer;
  unsigned place = 0, found = 0;
  while (place < store_buffer.lines && store_buffer.line[place] != line) place++;
  if (place < store_buffer.lines) {
    for (unsigned rest = store_buffer.mask[place] & sectors; rest; rest &= rest - 1)
      if (model.merge_count++ % 10 < kMergedPerTen) found |= rest & -rest;
    sectors &= ~unsigned{store_buffer.mask[place]};
  }
  const unsigned more = static_cast<unsigned>(__builtin_popcount(sectors));
  unsigned drained = 0;
  while (drained < store_buffer.lines && store_buffer.sectors + more > kStoreBufferSectors)
    store_buffer.sectors -= static_cast<unsigned>(__builtin_popcount(store_buffer.mask[drained++]));
  if (drained) {
    store_buffer.lines -= drained, place -= std::min(place, drained);
    std::memmove(store_buffer.line, store_buffer.line + drained, store_buffer.lines * sizeof *store_buffer.line);
    std::memmove(store_buffer.mask, store_buffer.mask + drained, store_buffer.lines);
  }
  if (!more) return found;
  if (place < store_buffer.lines && store_buffer.line[place] == line) {
    store_buffer.mask[place] |= static_cast<u8>(sectors);
  } else {
    store_buffer.line[store_buffer.lines] = line, store_buffer.mask[store_buffer.lines++] = static_cast<u8>(sectors);
  }
  store_buffer.sectors += more;
  return found;
}

// Adds the other sector of each 64-byte fetch.
unsigned with_neighbours(unsigned sectors) { return (sectors | (sectors & 5) << 1 | (sectors & 10) >> 1) & 15; }

// Global and local memory: tags, sectors, caches. Returns the latency in cycles.
u32 record_lines(Warp& warp, const Instruction& instruction, const Request& request) {
  Lines lines;
  const bool local = request.space == Space::kLocal;
  (local ? local_lines : global_lines)(request.lanes, request.addresses, request.bytes, lines);
  const bool stores = request.action == Action::kStore;
  const bool loads = request.action == Action::kLoad || request.action == Action::kAsyncCopy;
  const unsigned sectors = stores || loads ? lines.sectors : atomic_sectors(request.lanes, request.addresses, lines);
  const unsigned ideal = (lines.bytes + kSectorBytes - 1) / kSectorBytes;
  InstructionCounts& count = model.counts[instruction.index];
  if (local && request.bytes > 4) count.requests += request.bytes / 4 - 1;  // each 4-byte word is a request
  count.tags += lines.count;
  count.sectors += sectors;
  count.ideal_sectors += ideal;
  if (!local) {
    u64 bits = 0;
    for_lanes(request.lanes, [&](unsigned l) { bits |= request.addresses[l]; });
    count.off4 += (bits & 3) != 0, count.off8 += (bits & 7) != 0, count.off16 += (bits & 15) != 0;
  }
  sample_request(warp, instruction, request, sectors, ideal, sectors, 0);

  const u8 caching = caching_of(instruction);
  const bool through_l1 = stores || (loads && !(caching & kBypassL1));
  const u32 sm = static_cast<u32>(warp.block->number % model.system.sm_count);
  // Local memory has one address range per warp slot of an SM; later blocks reuse it.
  const u64 base = local ? kLocalLine + (u64{sm} << 36) + (u64{warp.number} << 24) : 0;
  SectoredCache& l1 = model.l1[sm];
  if (model.block != warp.block->number || model.epoch == 0) begin_block(warp.block->number);
  unsigned hits = 0, requested = 0, missed = 0, fetched = 0;
  for (unsigned i = 0; i < lines.count; i++) {
    const u64 line = base + lines.line[i];
    unsigned needed = lines.mask[i];
    if (through_l1) {
      const unsigned found = l1.access(line, needed, !(caching & kNoAllocate));
      if (loads) {
        hits += static_cast<unsigned>(__builtin_popcount(found));
        needed &= ~found;
      }
    } else if (!loads) {
      l1.invalidate(line, needed);
    }
    if (!needed) continue;
    const unsigned sent = stores && !local ? needed & ~merged(line, needed) : needed;
    requested += static_cast<unsigned>(__builtin_popcount(sent));
    const unsigned transferred = stores ? needed : with_neighbours(needed);
    unsigned l2_resident = model.l2.access(line, transferred, true);
    const size_t mark = local ? kNoLine : footprint_line(instruction, lines, i);
    if (mark != kNoLine) {
      if (!stores) model.footprint.read(mark, lines.mask[i]);
      if (!loads) model.footprint.write(mark, lines.mask[i]);
      const unsigned evicted = record_l2_access(mark, line, transferred);
      l2_resident &= ~evicted;
      if (!stores) model.l2_rereads += static_cast<unsigned>(__builtin_popcount(evicted));
    }
    if (!stores && needed & ~l2_resident) {
      missed += static_cast<unsigned>(__builtin_popcount(needed & ~l2_resident));
      fetched += static_cast<unsigned>(__builtin_popcount(with_neighbours(needed & ~l2_resident) & ~l2_resident));
    }
  }
  count.l1_hits += local && stores ? sectors : hits;  // ncu counts all local stores as hits
  if (!loads && !stores) requested = sectors;
  count.l2_sectors += requested;
  count.l2_hits += requested - missed;
  count.dram_sectors += fetched;
  model.l2_misses += fetched;
  const Latencies& latency = *model.latency;
  if (stores) return latency.store;
  const u32 farthest = fetched ? latency.dram : requested ? latency.l2 : latency.l1;
  return std::max<u32>(farthest, loads ? 0 : latency.global_atomic) + (lines.count - 1) * latency.line;
}

SharedKind shared_kind(const Instruction& instruction, Action action) {
  const u8 caching = caching_of(instruction);
  if (caching & kMatrixRows) return SharedKind::kMatrix;
  switch (action) {
    case Action::kLoad:
      return SharedKind::kLoad;
    case Action::kStore:
      return SharedKind::kStore;
    default:
      return caching & kIncrements ? SharedKind::kIncrement
             : caching & kCompares ? SharedKind::kCompareAndSwap
                                   : SharedKind::kAtomic;
  }
}

u32 record_banks(Warp& warp, const Instruction& instruction, const Request& request) {
  const SharedKind kind = shared_kind(instruction, request.action);
  const Passes passes = shared_passes(request.lanes, request.addresses, request.bytes, kind);
  const Latencies& latency = *model.latency;
  const bool casts = caching_of(instruction) & kCasts;
  const unsigned conflicts = casts ? 0 : passes.passes - passes.groups;
  const unsigned wavefronts = casts ? kCastWavefronts * passes.groups : passes.passes * shared_rule(kind).wavefronts;
  InstructionCounts& count = model.counts[instruction.index];
  count.wavefronts += wavefronts;
  count.ideal_wavefronts += casts ? wavefronts : passes.groups * shared_rule(kind).wavefronts;
  count.conflicts += conflicts;
  sample_request(warp, instruction, request, wavefronts, wavefronts - conflicts, 0, wavefronts);
  if (request.action == Action::kStore) return latency.store;
  const bool loads = request.action == Action::kLoad;
  return (loads ? latency.shared : latency.shared_atomic) + (wavefronts - 1) * latency.wavefront;
}

}  // namespace

u32 record_request(Warp& warp, const Instruction& instruction, const Request& request) {
  InstructionCounts& count = model.counts[instruction.index];
  count.requests++;
  count.bytes += static_cast<u64>(__builtin_popcount(request.lanes)) * request.bytes;
  return request.space == Space::kShared ? record_banks(warp, instruction, request)
                                         : record_lines(warp, instruction, request);
}

void record_copy_to_shared(const Instruction& instruction, unsigned bytes, Mask reads, const u64* from, Mask writes,
                           const u64* to) {
  if (caching_of(instruction) & kBypassL1) return;
  const Passes passes = copy_passes(reads, from, writes, to, bytes);
  InstructionCounts& count = model.counts[instruction.index];
  count.wavefronts += passes.passes;
  count.ideal_wavefronts += passes.groups;
  count.conflicts += passes.passes - passes.groups;
}

void begin_traffic(const MemorySystem& system, std::vector<Region> regions, InstructionCounts* counts,
                   u32 instructions) {
  model.system = system;
  if (model.system.sm_count == 0) model.system.sm_count = 1;
  model.latency = &latencies_of(system.architecture);
  std::sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) { return a.address < b.address; });
  model.regions = std::move(regions);
  model.first_mark.clear();
  size_t lines = 0;
  for (const Region& region : model.regions) {
    model.first_mark.push_back(lines);
    lines += (region.address + region.bytes) / kLineBytes - region.address / kLineBytes + 1;
  }
  model.footprint.reset(lines);
  model.recent.assign(instructions, 0);
  model.counts = counts;
  model.samples.clear();
  model.samples.resize(instructions);
  model.l1.resize(model.system.sm_count);
  for (SectoredCache& l1 : model.l1) l1.reset(system.l1_bytes, kL1Ways);
  model.l2.reset(system.l2_bytes, kL2Ways);
  model.l2_misses = model.l2_rereads = 0;
  model.epoch = 0, model.merge_count = 0;
  model.block_marks.reset(static_cast<BlockMark*>(std::calloc(lines + 1, sizeof(BlockMark))));
  if (!model.block_marks) throw std::bad_alloc();
}

const Region* find_region(const Instruction& instruction, u64 first, u64 end) {
  const std::vector<Region>& regions = model.regions;
  if (regions.empty()) return nullptr;
  u32& recent = model.recent[instruction.index];
  const auto holds = [&](const Region& region) {
    return first >= region.address && end <= region.address + region.bytes;
  };
  if (holds(regions[recent])) return &regions[recent];
  auto after = std::upper_bound(regions.begin(), regions.end(), first,
                                [](u64 address, const Region& region) { return address < region.address; });
  if (after == regions.begin() || !holds(*--after)) return nullptr;
  recent = static_cast<u32>(after - regions.begin());
  return &*after;
}

TrafficTotals traffic_totals() {
  return {model.footprint.sectors_read(), model.footprint.sectors_written(), model.l2_misses, model.l2_rereads};
}

std::vector<RequestSample> take_samples() {
  std::vector<RequestSample> all;
  for (SampledRequests& samples : model.samples) {
    if (samples.first) all.push_back(*samples.first);
    if (samples.worst) all.push_back(*samples.worst);
  }
  model.samples.clear();
  return all;
}

}  // namespace ww::machine
