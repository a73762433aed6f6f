// UTMALDG and UTMASTG (cp.async.bulk.tensor): boxes of a tensor to and from shared memory. Copies complete immediately.
// The copy engine reads and writes L2, not L1: the sectors are counted, its requests are units of up to 16 bytes.
#include <algorithm>

#include "access.h"
#include "mbarrier.h"
#include "tensor_map.h"

namespace ww::machine {

namespace {

TensorMap read_map(Warp& warp, const Instruction& instruction, u64 address) {
  Addresses addresses{};
  constexpr Mask kWords = (Mask{1} << sizeof(TensorMap) / 8) - 1;
  for (unsigned l = 0; l < sizeof(TensorMap) / 8; l++) addresses.lane[l] = address + 8 * l;
  const LanePointers pointers(warp, instruction, Space::kGlobal, kWords, addresses, 8);
  TensorMap map;
  for_lanes(kWords, [&](unsigned l) { std::memcpy(reinterpret_cast<u8*>(&map) + 8 * l, pointers(l), 8); });
  if (map.magic != TensorMap::kMagic) fault(warp, instruction, "the address is not that of a tensor map");
  return map;
}

constexpr u64 kMulticast = 1;  // in scratch[0]

// Up to 32 units of one size between shared and global memory.
class Units {
 public:
  Units(Warp& warp, const Instruction& instruction, bool loads)
      : warp_(warp), instruction_(instruction), loads_(loads) {}
  void add(u64 global, u32 shared, unsigned bytes) {
    if (count_ == kLanes || (count_ && bytes != bytes_)) flush();
    bytes_ = bytes;
    global_.lane[count_] = global;
    shared_[count_++] = shared;
  }
  void flush() {
    if (!count_) return;
    const Mask lanes = count_ == kLanes ? ~Mask{0} : (Mask{1} << count_) - 1;
    const LanePointers pointers(warp_, instruction_, Space::kGlobal, lanes, global_, bytes_);
    for_lanes(lanes, [&](unsigned l) {
      u8* here = shared_memory(shared_[l], bytes_, warp_, instruction_);
      std::memcpy(loads_ ? here : pointers(l), loads_ ? pointers(l) : here, bytes_);
    });
    record_access(warp_, instruction_, Space::kGlobal, loads_ ? Action::kLoad : Action::kStore, bytes_, lanes, global_);
    count_ = 0;
  }

 private:
  Warp& warp_;
  const Instruction& instruction_;
  const bool loads_;
  unsigned count_ = 0, bytes_ = 0;
  Addresses global_;
  u32 shared_[kLanes];
};

// UTMALDG.2D [UR], [UR']: UR is the shared address, the next registers the mbarrier's address and the coordinates; UR'
// is the address of the map. UTMASTG.2D has no mbarrier.
// .MULTICAST: the upper half of a third operand has a bit for each block of the cluster, which receives the box at the
// same offset and completes the bytes at its own mbarrier.
void multicast(Warp& warp, const Instruction& instruction, u32 shared, u32 barrier, u32 bytes, u32 blocks) {
  const u32 first = static_cast<u32>(__builtin_ctz(blocks)), offset = shared & 0xffffff;
  const u8* from = shared_memory(first << 24 | offset, bytes, warp, instruction);
  for (u32 rest = blocks; rest; rest &= rest - 1) {
    const u32 rank = static_cast<u32>(__builtin_ctz(rest)) << 24;
    if (rank >> 24 != first) std::memcpy(shared_memory(rank | offset, bytes, warp, instruction), from, bytes);
    complete_transactions(warp, instruction, rank | (barrier & 0xffffff), bytes);
  }
}

template <bool Loads>
void copy_box(Warp& warp, const Instruction& instruction, Mask) {
  const unsigned first = instruction.operands[0].uniform_base, at_map = instruction.operands[1].uniform_base;
  const auto uniform = [&](unsigned index) { return warp.uniforms[index].lane[0]; };
  const TensorMap map = read_map(warp, instruction, uniform(at_map) | u64{uniform(at_map + 1)} << 32);
  const bool to_several = instruction.scratch[0] & kMulticast;
  const u32 blocks = to_several ? uniform(instruction.operands[2].index) >> 16 : 0;
  if (to_several && !blocks) return;
  const u32 shared =
      to_several ? (uniform(first) & 0xffffff) | static_cast<u32>(__builtin_ctz(blocks)) << 24 : uniform(first);
  if (map.rank != instruction.scratch[1]) fault(warp, instruction, "the tensor map has another number of dimensions");
  i32 at[5] = {};
  for (unsigned d = 0; d < map.rank; d++) at[d] = static_cast<i32>(uniform(first + (Loads ? 2 : 1) + d));
  const u32 bytes = static_cast<u32>(map.box_bytes());
  if (Loads)
    for (u32 done = 0; done < bytes; done++) *shared_memory(shared + done, 1, warp, instruction) = 0;
  Units units(warp, instruction, Loads);
  for_each_segment(map, at, map.address, [&](u64 address, u64 offset, u64 row_bytes) {
    for (u64 done = 0; done < row_bytes;) {
      const u64 global = address + done, place = shared + offset + done;
      const bool whole = global % 16 == 0 && place % 16 == 0 && row_bytes - done >= 16;
      const unsigned unit = whole ? 16 : map.element_bytes;
      units.add(global, static_cast<u32>(swizzled(place, map.swizzle)), unit);
      done += unit;
    }
  });
  units.flush();
  if (!Loads) return;
  if (map.type == TensorMap::kTf32)
    for (u32 done = 0; done < bytes; done += 4) {
      u8* word = shared_memory(shared + done, 4, warp, instruction);
      write_as(word, rounded_to_tf32(read_as<u32>(word)));
    }
  if (to_several)
    multicast(warp, instruction, shared, uniform(first + 1), bytes, blocks);
  else
    complete_transactions(warp, instruction, uniform(first + 1), bytes);
}

template <bool Loads>
Handler decode(Instruction& i) {
  static const char* const dimensions[] = {"1D", "2D", "3D", "4D", "5D"};
  const bool has_policy = i.operands.size() >= 3 && i.text.find("desc[") != std::string::npos;  // of L2
  const bool to_several = Loads && i.has("MULTICAST");
  const size_t operands = 2 + has_policy + to_several;
  if (i.operands.size() != operands || i.modifiers.size() != 1u + to_several) return nullptr;
  if (to_several && i.operands[2].kind != Kind::kUniform) return nullptr;
  const auto found = std::find(std::begin(dimensions), std::end(dimensions), i.modifiers[0]);
  if (found == std::end(dimensions)) return nullptr;
  if (i.operands[0].kind != Kind::kMemory || i.operands[1].kind != Kind::kMemory) return nullptr;
  i.scratch[0] = u64{kBypassL1} << 32 | (to_several ? kMulticast : 0);
  i.scratch[1] = static_cast<u64>(found - std::begin(dimensions)) + 1;
  return copy_box<Loads>;
}
constexpr const char* kRequests =
    "data are exact; the copy completes at once, and TMA's requests are not those of a GPU";
Opcode UTMALDG_opcode("UTMALDG", kLsu, decode<true>, kRequests);
Opcode UTMASTG_opcode("UTMASTG", kLsu, decode<false>, kRequests);
// UTMACCTL.PF [UR]: prefetch.tensormap.
void nothing(Warp&, const Instruction&, Mask) {}
Opcode UTMACCTL_opcode("UTMACCTL", kLsu, [](Instruction& i) -> Handler { return i.has("PF") ? nothing : nullptr; });

}  // namespace

}  // namespace ww::machine
