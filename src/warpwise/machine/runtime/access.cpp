#include "access.h"

#include <algorithm>
#include <string_view>

namespace ww::machine {

void wide_addresses(const Warp& warp, const Operand& operand, Addresses& out) {
  u64 start = static_cast<u64>(operand.value);
  if (operand.uniform_base != kUniformZero) {
    const Vector* pair = &warp.uniforms[operand.uniform_base];
    start += pair[0].lane[0] | u64{pair[1].lane[0]} << 32;
  }
  if (operand.base == kRegisterZero) {
    for (u64& address : out.lane) address = start;
    return;
  }
  const Vector& low = warp.registers[operand.base];
  if (operand.uniform_base != kUniformZero && !operand.base_wide) {
    for (unsigned l = 0; l < kLanes; l++) out.lane[l] = start + low.lane[l];
    return;
  }
  const Vector& high = warp.registers[operand.base + 1];
  for (unsigned l = 0; l < kLanes; l++) out.lane[l] = start + (low.lane[l] | u64{high.lane[l]} << 32);
}

void narrow_addresses(const Warp& warp, const Operand& operand, Addresses& out) {
  u32 start = static_cast<u32>(operand.value);
  if (operand.uniform_base != kUniformZero) start += warp.uniforms[operand.uniform_base].lane[0];
  if (operand.base == kRegisterZero) {
    for (u64& address : out.lane) address = start;
    return;
  }
  unsigned shift = 0;
  if (!operand.suffix.empty() && operand.suffix[0] == 'X')
    shift = operand.suffix == "X4" ? 2 : operand.suffix == "X8" ? 3 : 4;
  const Vector& base = warp.registers[operand.base];
  for (unsigned l = 0; l < kLanes; l++) out.lane[l] = start + (base.lane[l] << shift);
}

Extent extent_of(const Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& addresses,
                 unsigned bytes) {
  u64 low = ~u64{0}, high = 0, bits = 0;
  for_lanes(lanes, [&](unsigned l) {
    const u64 address = addresses.lane[l];
    low = std::min(low, address);
    high = std::max(high, address);
    bits |= address;
  });
  if (bits & (bytes - 1)) {
    for_lanes(lanes, [&](unsigned l) {
      if (addresses.lane[l] & (bytes - 1))
        fault(warp, instruction, "lane %u: an access of %u bytes at address 0x%llx, not a multiple of %u", l, bytes,
              static_cast<unsigned long long>(addresses.lane[l]), bytes);
    });
  }
  return {low, high};
}

LanePointers::LanePointers(const Warp& warp, const Instruction& instruction, Space space, Mask lanes,
                           const Addresses& addresses, unsigned bytes)
    : warp_(warp), instruction_(instruction), addresses_(addresses), space_(space), bytes_(bytes) {
  const Extent extent = extent_of(warp, instruction, lanes, addresses, bytes);
  if (space == Space::kShared) {
    if (instruction.reaches_cluster && warp.block->cluster->blocks.size() > 1) return;
    if (extent.low < launch.reserved_shared || extent.high + bytes > warp.block->shared_bytes) return;
    direct_ = true;
    offset_ = reinterpret_cast<u64>(warp.block->shared);
  } else if (space == Space::kGlobal) {
    if (const Region* region = find_region(instruction, extent.low, extent.high + bytes)) {
      direct_ = true;
      offset_ = reinterpret_cast<u64>(region->host) - region->address;
    }
  }
}

u8* LanePointers::look_up(unsigned lane) const {
  const u64 address = addresses_.lane[lane];
  switch (space_) {
    case Space::kGlobal:
      return global_memory(address, bytes_, warp_, instruction_);
    case Space::kShared:
      return shared_memory(static_cast<u32>(address), bytes_, warp_, instruction_);
    default:
      return local_memory(static_cast<u32>(address), bytes_, lane, warp_, instruction_);
  }
}

Generic split_generic(Mask lanes, Addresses& addresses) {
  Generic parts{0, 0, 0};
  for_lanes(lanes, [&](unsigned l) {
    u64& address = addresses.lane[l];
    parts.shared |= static_cast<Mask>(in_shared_window(address)) << l;
    parts.local |= static_cast<Mask>(in_local_window(address)) << l;
  });
  parts.global = lanes & ~(parts.shared | parts.local);
  for_lanes(parts.shared | parts.local, [&](unsigned l) { addresses.lane[l] &= ~u32{0}; });
  return parts;
}

void record_access(Warp& warp, const Instruction& instruction, Space space, Action action, unsigned bytes, Mask lanes,
                   const Addresses& addresses) {
  const Request request{space, action, static_cast<u8>(bytes), lanes, addresses.lane};
  warp.latency = record_request(warp, instruction, request);
}

bool is_hint(const std::string& modifier) {
  static constexpr std::string_view kHints[] = {"E",  "SYS",    "GPU",     "SM",      "CTA",     "VC",  "CONSTANT",
                                                "EF", "STRONG", "WEAK",    "EL",      "LU",      "NA",  "EN",
                                                "U",  "LTC64B", "LTC128B", "LTC256B", "PRIVATE", "MMIO"};
  return std::any_of(std::begin(kHints), std::end(kHints), [&](std::string_view hint) { return hint == modifier; });
}

bool only_modifiers(const Instruction& instruction, std::initializer_list<const char*> known) {
  return std::all_of(instruction.modifiers.begin(), instruction.modifiers.end(), [&](const std::string& modifier) {
    return is_hint(modifier) ||
           std::any_of(known.begin(), known.end(), [&](const char* name) { return modifier == name; });
  });
}

u8 caching_modifiers(const Instruction& instruction) {
  u8 caching = kCached;
  if (instruction.has("STRONG") && (instruction.has("GPU") || instruction.has("SYS"))) caching |= kBypassL1;
  if (instruction.has("BYPASS") || instruction.has("MMIO")) caching |= kBypassL1;
  if (instruction.has("NA")) caching |= kNoAllocate;
  return caching;
}

}  // namespace ww::machine
