#include "footprints.h"

#include <cstring>

namespace ww::machine {

AddressPattern pattern_of(Mask lanes, const u64* addresses) {
  if (lanes != ~Mask{0}) return {false, 0};
  const u64 first = addresses[0], stride = addresses[1] - first;
  u64 wrong = 0;
  for (unsigned l = 0; l < kLanes; l++) wrong |= addresses[l] ^ (first + stride * l);
  return {wrong == 0, static_cast<i64>(stride)};
}

namespace {

unsigned sector_mask(u64 low, u64 high) {
  return (static_cast<u32>(low) != 0) | (low >> 32 != 0) << 1 | (static_cast<u32>(high) != 0) << 2 |
         (high >> 32 != 0) << 3;
}

// Collects distinct lines in an open-addressing hash table, with a 128-bit mask of the bytes of each.
class Collector {
 public:
  explicit Collector(Lines& lines) : lines_(lines) {
    std::memset(table_, 0xff, sizeof table_);
    lines.count = 0;
  }
  void add(u64 line, unsigned offset, u64 ones) {
    unsigned slot = last_;
    if (lines_.count == 0 || lines_.line[slot] != line) slot = find(line);
    last_ = slot;
    bytes_[slot][offset >> 6] |= ones << (offset & 63);
  }
  void finish() {
    unsigned sectors = 0, bytes = 0;
    for (unsigned i = 0; i < lines_.count; i++) {
      const unsigned mask = sector_mask(bytes_[i][0], bytes_[i][1]);
      lines_.mask[i] = static_cast<u8>(mask);
      sectors += __builtin_popcount(mask);
      bytes += __builtin_popcountll(bytes_[i][0]) + __builtin_popcountll(bytes_[i][1]);
    }
    lines_.sectors = sectors, lines_.bytes = bytes;
  }

 private:
  unsigned find(u64 line) {
    unsigned bucket = static_cast<u32>(line * 0x9e3779b1u) >> 24;
    for (;; bucket = (bucket + 1) & 255) {
      if (table_[bucket] == 0xff) {
        const unsigned slot = lines_.count++;
        table_[bucket] = static_cast<u8>(slot);
        lines_.line[slot] = line;
        bytes_[slot][0] = bytes_[slot][1] = 0;
        return slot;
      }
      if (lines_.line[table_[bucket]] == line) return table_[bucket];
    }
  }
  Lines& lines_;
  unsigned last_ = 0;
  u64 bytes_[Lines::kMaxLines][2];
  u8 table_[256];
};

// Lines of the bytes [first, first + length), length <= 32 lanes x 16 bytes.
void consecutive(u64 first, unsigned length, Lines& lines) {
  lines.count = 0, lines.sectors = 0, lines.bytes = length;
  for (u64 at = first, end = first + length; at < end;) {
    const u64 line = at / kLineBytes, next = (line + 1) * kLineBytes;
    const u64 stop = next < end ? next : end;
    const unsigned from = static_cast<unsigned>(at % kLineBytes / kSectorBytes);
    const unsigned to = static_cast<unsigned>((stop - 1) % kLineBytes / kSectorBytes);
    lines.line[lines.count] = line;
    lines.mask[lines.count++] = static_cast<u8>((1u << (to + 1)) - (1u << from));
    lines.sectors += to - from + 1;
    at = stop;
  }
}

}  // namespace

void global_lines(Mask lanes, const u64* addresses, unsigned bytes, Lines& lines) {
  const AddressPattern shape = pattern_of(lanes, addresses);
  if (shape.regular && shape.stride == 0) return consecutive(addresses[0], bytes, lines);
  if (shape.regular && shape.stride == static_cast<i64>(bytes)) return consecutive(addresses[0], bytes * kLanes, lines);
  Collector collector(lines);
  const u64 ones = (u64{1} << bytes) - 1;
  for_lanes(lanes, [&](unsigned l) {
    collector.add(addresses[l] / kLineBytes, static_cast<unsigned>(addresses[l] % kLineBytes), ones);
  });
  collector.finish();
}

void local_lines(Mask lanes, const u64* addresses, unsigned bytes, Lines& lines) {
  Collector collector(lines);
  const unsigned words = bytes <= 4 ? 1 : bytes / 4;
  const u64 ones = (u64{1} << (bytes < 4 ? bytes : 4)) - 1;
  for (unsigned word = 0; word < words; word++)
    for_lanes(lanes, [&](unsigned l) {
      const u64 own = addresses[l] / 4 + word;
      collector.add(own, l * 4 + static_cast<unsigned>(addresses[l] % 4), ones);
    });
  collector.finish();
}

unsigned atomic_sectors(Mask lanes, const u64* addresses, const Lines& lines) {
  if (pattern_of(lanes, addresses).regular && addresses[1] != addresses[0]) return lines.sectors;
  // Count the lanes of each address; per sector, take the maximum.
  unsigned total = 0;
  u64 sector[kLanes];
  unsigned most[kLanes], found = 0;
  for (Mask rest = lanes; rest;) {
    const u64 address = addresses[__builtin_ctz(rest)];
    Mask same = 0;
    for_lanes(rest, [&](unsigned l) { same |= static_cast<Mask>(addresses[l] == address) << l; });
    rest &= ~same;
    const unsigned sharing = static_cast<unsigned>(__builtin_popcount(same));
    unsigned slot = 0;
    while (slot < found && sector[slot] != address / kSectorBytes) slot++;
    if (slot == found) sector[found] = address / kSectorBytes, most[found++] = 0;
    if (sharing > most[slot]) total += sharing - most[slot], most[slot] = sharing;
  }
  return total;
}

namespace {

unsigned shift_of(unsigned bytes) { return bytes <= 4 ? 2 : bytes == 8 ? 3 : 4; }

// Passes of a group of lanes: the maximum over the banks of the lanes (or of the distinct words) in a bank.
unsigned passes_of(Mask lanes, const u64* addresses, unsigned shift, bool merges_same_word) {
  const unsigned places = kLineBytes >> shift;
  u8 head[kBanks], next[kLanes], count[kBanks];
  std::memset(head, 0xff, sizeof head);
  std::memset(count, 0, sizeof count);
  unsigned most = 0;
  for (Mask rest = lanes; rest; rest &= rest - 1) {
    const unsigned l = static_cast<unsigned>(__builtin_ctz(rest));
    const u32 unit = static_cast<u32>(addresses[l] >> shift);
    const unsigned slot = unit & (places - 1);
    unsigned other = 0xff;
    if (merges_same_word)
      for (other = head[slot]; other != 0xff && static_cast<u32>(addresses[other] >> shift) != unit;)
        other = next[other];
    if (other != 0xff) continue;
    next[l] = head[slot], head[slot] = static_cast<u8>(l);
    if (++count[slot] > most) most = count[slot];
  }
  return most;
}

// True if each active lane l has the same address as lane l ^ distance, or that lane is inactive.
bool partners_agree(Mask lanes, const u64* addresses, unsigned distance) {
  for (Mask rest = lanes; rest; rest &= rest - 1) {
    const unsigned l = static_cast<unsigned>(__builtin_ctz(rest)), partner = l ^ distance;
    if (lanes >> partner & 1 && addresses[partner] != addresses[l]) return false;
  }
  return true;
}

Mask group_at(unsigned first, unsigned size) { return size == kLanes ? ~Mask{0} : ((Mask{1} << size) - 1) << first; }

}  // namespace

Passes shared_passes(Mask lanes, const u64* addresses, unsigned bytes, SharedKind kind) {
  const SharedRule rule = shared_rule(kind);
  const unsigned shift = shift_of(bytes);
  unsigned size = kind == SharedKind::kMatrix ? 8 : kLineBytes >> shift;
  const AddressPattern shape = pattern_of(lanes, addresses);
  // Constant stride in units of the access width: the number of passes is gcd(stride, group size).
  if (shape.regular && shape.stride != 0 && shape.stride % (1 << shift) == 0) {
    const unsigned groups = kLanes / size, units = static_cast<unsigned>(shape.stride >> shift) | size;
    return {groups * (units & -units), groups};
  }
  if (rule.doubles_groups && size < kLanes &&
      (partners_agree(lanes, addresses, 1) || partners_agree(lanes, addresses, 2)))
    size *= 2;
  if (shape.regular && shape.stride == 0 && rule.merges_same_word) return {kLanes / size, kLanes / size};
  Passes passes{0, 0};
  for (unsigned first = 0; first < kLanes; first += size) {
    const Mask group = group_at(first, size) & lanes;
    if (group) passes.passes += passes_of(group, addresses, shift, rule.merges_same_word), passes.groups++;
  }
  return passes;
}

Passes copy_passes(Mask reads, const u64* from, Mask writes, const u64* to, unsigned bytes) {
  constexpr unsigned kLinesTogether = 4;  // tag look-ups per cycle
  Passes passes{0, 0};
  const unsigned shift = shift_of(bytes), size = kLineBytes >> shift;
  for (Mask rest = writes; rest;) {
    u64 lines[kLinesTogether];
    unsigned count = 0;
    Mask together = rest & ~reads;  // lanes that write zeros
    for_lanes(rest & reads, [&](unsigned l) {
      const u64 line = from[l] / kLineBytes;
      unsigned slot = 0;
      while (slot < count && lines[slot] != line) slot++;
      if (slot == kLinesTogether) return;
      if (slot == count) lines[count++] = line;
      together |= Mask{1} << l;
    });
    rest &= ~together;
    for (unsigned first = 0; first < kLanes; first += size) {
      Mask group = group_at(first, size) & together;
      passes.groups += group != 0;
      for (; group; passes.passes++) {
        const Mask readers = group & reads;
        const Mask served = first_of_each_bank(readers, from, bytes) | (group & ~reads);
        group &= ~first_of_each_bank(served, to, bytes);
      }
    }
  }
  return passes;
}

Mask first_of_each_bank(Mask lanes, const u64* addresses, unsigned bytes) {
  const unsigned shift = shift_of(bytes), size = kLineBytes >> shift;
  Mask chosen = 0;
  for (unsigned first = 0; first < kLanes; first += size) {
    u32 taken = 0;
    for_lanes(group_at(first, size) & lanes, [&](unsigned l) {
      const u32 slot = u32{1} << (addresses[l] >> shift & (size - 1));
      if (!(taken & slot)) chosen |= Mask{1} << l;
      taken |= slot;
    });
  }
  return chosen;
}

}  // namespace ww::machine
