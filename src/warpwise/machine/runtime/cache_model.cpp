#include "cache_model.h"

namespace ww::machine {

void SectoredCache::reset(u64 bytes, unsigned ways) {
  ways_ = ways;
  sets_ = static_cast<u32>(bytes / (u64{kLineBytes} * ways));
  entries_.assign(static_cast<size_t>(sets_) * ways, 0);
}

unsigned SectoredCache::access(u64 line, unsigned sectors, bool allocate) {
  if (sets_ == 0) return 0;
  u64* set = set_of(line);
  const u64 tag = line + 1;
  unsigned way = 0;
  while (way < ways_ && set[way] >> 4 != tag) way++;
  u64 entry = tag << 4;
  if (way < ways_) entry = set[way];
  const unsigned found = static_cast<unsigned>(entry) & sectors;
  if (way == ways_) {
    if (!allocate) return 0;
    way--;
  }
  for (; way > 0; way--) set[way] = set[way - 1];
  set[0] = allocate ? entry | sectors : entry;
  return found;
}

void SectoredCache::invalidate(u64 line, unsigned sectors) {
  if (sets_ == 0) return;
  u64* set = set_of(line);
  for (unsigned way = 0; way < ways_; way++)
    if (set[way] >> 4 == line + 1) set[way] &= ~u64{sectors};
}

}  // namespace ww::machine
