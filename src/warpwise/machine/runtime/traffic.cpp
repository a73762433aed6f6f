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

constexpr u64 kLocalLine = u64{1} << 56;  // lines of local memory, apart from every global address

struct Kept {
  std::unique_ptr<KeptRequest> first, worst;
  u32 worst_excess = 0;
};

// What a block touched: a line's sectors, as far as `turn` is that of the one that runs.
struct Seen {
  u32 turn;
  u8 sectors;
};
struct Release {
  void operator()(Seen* seen) const { std::free(seen); }
};

// Sectors that were stored and wait in L1 to leave, oldest first.
struct Waiting {
  unsigned lines = 0, sectors = 0;
  u64 line[kWaitingSectors];
  u8 mask[kWaitingSectors];
};

struct Model {
  MemorySystem system;
  const Latencies* latency = kLatencies;
  std::vector<Region> regions;     // by address
  std::vector<size_t> first_mark;  // of each region, in the footprint
  std::vector<u32> recent;         // by instruction: the region it last met
  InstructionCounts* counts = nullptr;
  std::vector<Kept> kept;
  std::vector<SectoredCache> l1;  // by SM
  SectoredCache l2;
  Footprint footprint;
  u64 l2_misses = 0, l2_rereads = 0;
  SectoredCache share;                    // of L2, for one of the blocks that run at once
  u64 block = 0;                          // that runs
  u32 turn = 0;                           // how many did
  std::unique_ptr<Seen[], Release> seen;  // by mark; zeros until touched
  Waiting waiting;
  u64 merges = 0;
};
Model model;

void keep(std::unique_ptr<KeptRequest>& place, const Warp& warp, const Instruction& instruction, const Request& request,
          unsigned sectors, unsigned wavefronts) {
  if (!place) place = std::make_unique<KeptRequest>();
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

void keep_if_telling(const Warp& warp, const Instruction& instruction, const Request& request, unsigned got,
                     unsigned ideal, unsigned sectors, unsigned wavefronts) {
  Kept& kept = model.kept[instruction.index];
  if (!kept.first) keep(kept.first, warp, instruction, request, sectors, wavefronts);
  if (got > ideal + kept.worst_excess) {
    kept.worst_excess = got - ideal;
    keep(kept.worst, warp, instruction, request, sectors, wavefronts);
  }
}

constexpr size_t kNowhere = ~size_t{0};

// The place of a line in the footprint.
size_t mark_of(const Instruction& instruction, const Lines& lines, unsigned i) {
  const Region* region = find_region(instruction, lines.line[i] * kLineBytes, lines.line[i] * kLineBytes + 1);
  if (!region) {  // a buffer may begin inside its first line
    const u64 inside = lines.line[i] * kLineBytes + __builtin_ctz(lines.mask[i]) * kSectorBytes + kSectorBytes - 1;
    region = find_region(instruction, inside, inside + 1);
    if (!region) return kNowhere;
  }
  const size_t index = static_cast<size_t>(region - model.regions.data());
  return model.first_mark[index] + (lines.line[i] - region->address / kLineBytes);
}

void begin_turn(u64 block) {
  model.block = block, model.turn++;
  model.share.reset(std::max<u64>(model.system.l2_bytes / model.system.blocks_at_once, 8192), kL2Ways);
  model.waiting.lines = model.waiting.sectors = 0;
}

// The block that runs takes these sectors of a line to L2. Returns those that it had before and has pushed out since.
unsigned lost_since(size_t mark, u64 line, unsigned sectors) {
  const unsigned kept = model.share.access(line, sectors, true);
  Seen& seen = model.seen[mark];
  if (seen.turn != model.turn) seen = {model.turn, 0};
  const unsigned before = seen.sectors;
  seen.sectors |= static_cast<u8>(sectors);
  return before & sectors & ~kept;
}

// Of the sectors that a store writes to a line, those that leave with a store before it.
unsigned merged(u64 line, unsigned sectors) {
  Waiting& waiting = model.waiting;
  unsigned place = 0, found = 0;
  while (place < waiting.lines && waiting.line[place] != line) place++;
  if (place < waiting.lines) {
    for (unsigned rest = waiting.mask[place] & sectors; rest; rest &= rest - 1)
      if (model.merges++ % 10 < kMergedOfTen) found |= rest & -rest;
    sectors &= ~unsigned{waiting.mask[place]};
  }
  const unsigned more = static_cast<unsigned>(__builtin_popcount(sectors));
  unsigned gone = 0;
  while (gone < waiting.lines && waiting.sectors + more > kWaitingSectors)
    waiting.sectors -= static_cast<unsigned>(__builtin_popcount(waiting.mask[gone++]));
  if (gone) {
    waiting.lines -= gone, place -= std::min(place, gone);
    std::memmove(waiting.line, waiting.line + gone, waiting.lines * sizeof *waiting.line);
    std::memmove(waiting.mask, waiting.mask + gone, waiting.lines);
  }
  if (!more) return found;
  if (place < waiting.lines && waiting.line[place] == line) {
    waiting.mask[place] |= static_cast<u8>(sectors);
  } else {
    waiting.line[waiting.lines] = line, waiting.mask[waiting.lines++] = static_cast<u8>(sectors);
  }
  waiting.sectors += more;
  return found;
}

// Sectors of 4 whose 64-byte piece is asked for in part or whole.
unsigned with_neighbours(unsigned sectors) { return (sectors | (sectors & 5) << 1 | (sectors & 10) >> 1) & 15; }

// Global and local memory: tags, sectors, caches. Returns the latency.
u32 note_lines(Warp& warp, const Instruction& instruction, const Request& request) {
  Lines lines;
  const bool local = request.space == Space::kLocal;
  (local ? local_lines : global_lines)(request.lanes, request.addresses, request.bytes, lines);
  const bool stores = request.action == Action::kStore;
  const bool loads = request.action == Action::kLoad || request.action == Action::kAsyncCopy;
  const unsigned sectors = stores || loads ? lines.sectors : atomic_sectors(request.lanes, request.addresses, lines);
  const unsigned ideal = (lines.bytes + kSectorBytes - 1) / kSectorBytes;
  InstructionCounts& count = model.counts[instruction.index];
  if (local && request.bytes > 4) count.requests += request.bytes / 4 - 1;  // each word is a request of its own
  count.tags += lines.count;
  count.sectors += sectors;
  count.ideal_sectors += ideal;
  keep_if_telling(warp, instruction, request, sectors, ideal, sectors, 0);

  const u8 caching = caching_of(instruction);
  const bool through_l1 = stores || (loads && !(caching & kBypassL1));
  const u32 sm = static_cast<u32>(warp.block->number % model.system.sm_count);
  // Each resident warp of an SM has its local memory at a place of its own, which later warps take over.
  const u64 base = local ? kLocalLine + (u64{sm} << 36) + (u64{warp.number} << 24) : 0;
  SectoredCache& l1 = model.l1[sm];
  if (model.block != warp.block->number || model.turn == 0) begin_turn(warp.block->number);
  unsigned hits = 0, asked = 0, missed = 0, fetched = 0;
  for (unsigned i = 0; i < lines.count; i++) {
    const u64 line = base + lines.line[i];
    unsigned wanted = lines.mask[i];
    if (through_l1) {
      const unsigned found = l1.access(line, wanted, !(caching & kNoAllocate));
      if (loads) {
        hits += static_cast<unsigned>(__builtin_popcount(found));
        wanted &= ~found;
      }
    } else if (!loads) {
      l1.drop(line, wanted);
    }
    if (!wanted) continue;
    const unsigned sent = stores && !local ? wanted & ~merged(line, wanted) : wanted;
    asked += static_cast<unsigned>(__builtin_popcount(sent));
    const unsigned taken = stores ? wanted : with_neighbours(wanted);
    unsigned held = model.l2.access(line, taken, true);
    const size_t mark = local ? kNowhere : mark_of(instruction, lines, i);
    if (mark != kNowhere) {
      if (!stores) model.footprint.read(mark, lines.mask[i]);
      if (!loads) model.footprint.write(mark, lines.mask[i]);
      const unsigned lost = lost_since(mark, line, taken);
      held &= ~lost;
      if (!stores) model.l2_rereads += static_cast<unsigned>(__builtin_popcount(lost));
    }
    if (!stores && wanted & ~held) {
      missed += static_cast<unsigned>(__builtin_popcount(wanted & ~held));
      fetched += static_cast<unsigned>(__builtin_popcount(with_neighbours(wanted & ~held) & ~held));
    }
  }
  count.l1_hits += local && stores ? sectors : hits;  // so ncu counts local stores
  if (!loads && !stores) asked = sectors;
  count.l2_sectors += asked;
  count.l2_hits += asked - missed;
  count.dram_sectors += fetched;
  model.l2_misses += fetched;
  const Latencies& latency = *model.latency;
  if (stores) return latency.store;
  const u32 farthest = fetched ? latency.dram : asked ? latency.l2 : latency.l1;
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

u32 note_banks(Warp& warp, const Instruction& instruction, const Request& request) {
  const SharedKind kind = shared_kind(instruction, request.action);
  const Passes passes = shared_passes(request.lanes, request.addresses, request.bytes, kind);
  const Latencies& latency = *model.latency;
  const bool casts = caching_of(instruction) & kCasts;
  const unsigned conflicts = casts ? 0 : passes.turns - passes.groups;
  const unsigned wavefronts = casts ? kCastWavefronts * passes.groups : passes.turns * shared_rule(kind).wavefronts;
  InstructionCounts& count = model.counts[instruction.index];
  count.wavefronts += wavefronts;
  count.ideal_wavefronts += casts ? wavefronts : passes.groups * shared_rule(kind).wavefronts;
  count.conflicts += conflicts;
  keep_if_telling(warp, instruction, request, wavefronts, wavefronts - conflicts, 0, wavefronts);
  if (request.action == Action::kStore) return latency.store;
  const bool loads = request.action == Action::kLoad;
  return (loads ? latency.shared : latency.shared_atomic) + (wavefronts - 1) * latency.wavefront;
}

}  // namespace

u32 note_request(Warp& warp, const Instruction& instruction, const Request& request) {
  InstructionCounts& count = model.counts[instruction.index];
  count.requests++;
  count.bytes += static_cast<u64>(__builtin_popcount(request.lanes)) * request.bytes;
  return request.space == Space::kShared ? note_banks(warp, instruction, request)
                                         : note_lines(warp, instruction, request);
}

void note_copy_into_shared(const Instruction& instruction, unsigned bytes, Mask reads, const u64* from, Mask writes,
                           const u64* to) {
  if (caching_of(instruction) & kBypassL1) return;
  const Passes passes = copy_passes(reads, from, writes, to, bytes);
  InstructionCounts& count = model.counts[instruction.index];
  count.wavefronts += passes.turns;
  count.ideal_wavefronts += passes.groups;
  count.conflicts += passes.turns - passes.groups;
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
  model.kept.clear();
  model.kept.resize(instructions);
  model.l1.resize(model.system.sm_count);
  for (SectoredCache& l1 : model.l1) l1.reset(system.l1_bytes, kL1Ways);
  model.l2.reset(system.l2_bytes, kL2Ways);
  model.l2_misses = model.l2_rereads = 0;
  model.turn = 0, model.merges = 0;
  model.seen.reset(static_cast<Seen*>(std::calloc(lines + 1, sizeof(Seen))));
  if (!model.seen) throw std::bad_alloc();
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

std::vector<KeptRequest> take_requests() {
  std::vector<KeptRequest> all;
  for (Kept& kept : model.kept) {
    if (kept.first) all.push_back(*kept.first);
    if (kept.worst) all.push_back(*kept.worst);
  }
  model.kept.clear();
  return all;
}

}  // namespace ww::machine
