// Constant operands with a base register, and host pointers of memory accesses.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "core.h"

namespace ww::machine {

alignas(64) const Vector kZeroVector{};
alignas(64) Vector discarded;
Segment recent_segment{};
LaunchState launch{};
Run run;

const Vector& indirect_source(Warp& warp, const Instruction& instruction, unsigned i, Vector& temporary,
                              unsigned word) {
  const Operand& operand = instruction.operands[i];
  if (operand.kind != Kind::kConstant) fault(warp, instruction, "unsupported operand %u: %s", i, operand.name.c_str());
  const Vector& base = warp.registers[operand.base];
  const Vector& uniform = warp.uniforms[operand.uniform_base];
  for_lanes(warp.running, [&](unsigned l) {
    const u32 offset = base.lane[l] + uniform.lane[l] + static_cast<u32>(operand.value) + 4 * word;
    memcpy(&temporary.lane[l], constant_memory(operand.bank, offset, 4, warp, instruction), 4);
  });
  return temporary;
}

namespace {

// The region that holds `bytes` bytes at `address`, or null.
const Region* region_of(u64 address, unsigned bytes) {
  const auto after = std::upper_bound(run.segments.begin(), run.segments.end(), address,
                                      [](u64 value, const Region& each) { return value < each.address; });
  if (after == run.segments.begin()) return nullptr;
  const Region& found = *(after - 1);
  const u64 offset = address - found.address;
  return offset < found.bytes && found.bytes - offset >= bytes ? &found : nullptr;
}

// True if 2^32 elements of a power of two of bytes before or after `address` is memory of a region.
bool is_wrapped_around(u64 address, unsigned bytes) {
  for (u64 apart = u64{1} << 32; apart <= u64{16} << 32; apart *= 2)
    if (region_of(address + apart, bytes) || region_of(address - apart, bytes)) return true;
  return false;
}

}  // namespace

u8* find_global(u64 address, unsigned bytes, const Warp& warp, const Instruction& instruction) {
  if (const Region* found = region_of(address, bytes)) {
    recent_segment = {found->address, found->bytes, found->host};
    return found->host + (address - found->address);
  }
  fault(warp, instruction,
        "out-of-bounds access of %u bytes at global address 0x%llx, in no argument and no variable%s", bytes,
        static_cast<unsigned long long>(address),
        is_wrapped_around(address, bytes) ? "; the address is that of an index that wraps around at 32 bits" : "");
}

const Block& block_of_rank(u32 rank, const Warp& warp, const Instruction& instruction) {
  const std::vector<Block*>& blocks = warp.block->cluster->blocks;
  if (rank >= blocks.size())
    fault(warp, instruction, "access to the shared memory of block %u in a cluster of %zu blocks", rank, blocks.size());
  return *blocks[rank];
}

void shared_fault(u32 address, unsigned bytes, const Warp& warp, const Instruction& instruction) {
  fault(warp, instruction, "out-of-bounds access of %u bytes at shared address 0x%x; valid: 0x%x to 0x%x", bytes,
        address, launch.reserved_shared, warp.block->shared_bytes);
}

u8* local_memory(u32 address, unsigned bytes, unsigned lane, const Warp& warp, const Instruction& instruction) {
  if (address >= launch.local_bytes || launch.local_bytes - address < bytes)
    fault(warp, instruction, "out-of-bounds access of %u bytes at local address 0x%x; size: 0x%x", bytes, address,
          launch.local_bytes);
  return warp.local + static_cast<u64>(lane) * launch.local_bytes + address;
}

const u8* constant_memory(unsigned bank, u32 offset, unsigned bytes, const Warp& warp, const Instruction& instruction) {
  if (bank >= 8 || offset + u64{bytes} > run.banks[bank].bytes)
    fault(warp, instruction, "out-of-bounds access of %u bytes at c[0x%x][0x%x]; bank size: 0x%llx", bytes, bank,
          offset, bank < 8 ? static_cast<unsigned long long>(run.banks[bank].bytes) : 0ull);
  return run.banks[bank].data + offset;
}

void fault(const Warp& warp, const Instruction& instruction, const char* format, ...) {
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  char where[160];
  snprintf(where, sizeof where, " (block (%u, %u, %u), warp %u, lanes 0x%08x)", warp.block->x, warp.block->y,
           warp.block->z, warp.number, warp.running);
  throw Fault{Fault::kFault, instruction.index, instruction.text + ": " + message + where};
}

}  // namespace ww::machine
