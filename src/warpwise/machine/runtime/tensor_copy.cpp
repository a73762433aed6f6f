// UTMALDG, UTMASTG (cp.async.bulk.tensor) and UTMAREDG (cp.reduce.async.bulk.tensor): boxes of a tensor, or pixels in
// im2col mode, to and from shared memory. A copy completes when it is issued. TMA accesses L2 and bypasses L1; the
// sectors of units of up to 16 bytes are counted.
#include <algorithm>

#include "bulk.h"
#include "mbarrier.h"
#include "tensor_map.h"

namespace ww::machine {

namespace {

TensorMap read_map(Warp& warp, const Instruction& instruction, u64 address) {
  Addresses addresses{};
  constexpr unsigned kUnits = TensorMap::kBytes / 8;
  constexpr Mask kWords = (Mask{1} << kUnits) - 1;
  for (unsigned l = 0; l < kUnits; l++) addresses.lane[l] = address + 8 * l;
  const LanePointers pointers(warp, instruction, Space::kGlobal, kWords, addresses, 8);
  u8 bytes[TensorMap::kBytes];
  for_lanes(kWords, [&](unsigned l) { std::memcpy(bytes + 8 * l, pointers(l), 8); });
  TensorMap map;
  const MapError error = decode(bytes, map);
  if (error == MapError::kNoMap) fault(warp, instruction, "there is no tensor map at the address");
  if (error == MapError::kType) fault(warp, instruction, "tensor maps of this element type are not supported");
  if (error != MapError::kNone) fault(warp, instruction, "tensor maps with an interleaved layout are not supported");
  return map;
}

enum Direction : u8 { kLoads, kStores, kReduces };

// Decoded form of the instruction, in scratch[1].
struct Form {
  u8 rank;
  bool to_several, is_im2col;
  Update update;
};
static_assert(sizeof(Form) <= sizeof(u64));

constexpr Element kElementOf[] = {Element::kU32, Element::kU32, Element::kU32, Element::kS32, Element::kU64,
                                  Element::kS64, Element::kF16, Element::kF32, Element::kF64, Element::kBF16};

Reduction reduction_of(Warp& warp, const Instruction& instruction, const TensorMap& map, Update update) {
  const bool is_tf32 = map.type >= std::size(kElementOf);
  if (map.element_bytes == 1 || map.type == 1)
    fault(warp, instruction, "there are no reductions of the tensor map's element type");
  return {true, update, is_tf32 ? Element::kF32 : kElementOf[map.type]};
}

// Calls segment(address, offset, bytes) for each part of the box inside the tensor. `offsets` of im2col, from bit 0 on:
// one of 16 bits, two of 8 or three of 5.
template <class Segment>
void for_each_part(const TensorMap& map, const i32 (&at)[5], u32 offsets, const Segment& segment) {
  if (!map.is_im2col) return for_each_segment(map, at, map.address, segment);
  const unsigned count = map.rank - 2u, bits = count == 1 ? 16 : count == 2 ? 8 : 5;
  u32 offset[3] = {};
  for (unsigned d = 0; d < count; d++) offset[d] = offsets >> d * bits & ((1u << bits) - 1);
  for_each_pixel(map, at, offset, map.address, segment);
}

// UTMALDG.2D [UR], [UR']: UR is the shared address, the next registers the mbarrier's address and the coordinates; UR'
// is the address of the map. UTMASTG.2D and UTMAREDG.2D.ADD have no mbarrier. A third operand holds the .IM2COL offsets
// in its lower half and the .MULTICAST mask of blocks in its upper half. Each of these blocks receives the box at the
// same offset, with complete_tx on its own mbarrier.
template <Direction To>
void copy_box(Warp& warp, const Instruction& instruction, Mask) {
  constexpr bool kLoading = To == kLoads;
  Form form;
  std::memcpy(&form, &instruction.scratch[1], sizeof form);
  const unsigned first = instruction.operands[0].uniform_base, at_map = instruction.operands[1].uniform_base;
  const auto uniform = [&](unsigned index) { return warp.uniforms[index].lane[0]; };
  const TensorMap map = read_map(warp, instruction, uniform(at_map) | u64{uniform(at_map + 1)} << 32);
  const bool has_more = form.to_several || (kLoading && form.is_im2col);
  const u32 more = has_more ? source_word(warp, instruction.operands[2], 0).lane[0] : 0;
  const u32 blocks = form.to_several ? more >> 16 : 0;
  if (form.to_several && !blocks) return;
  const u32 shared = form.to_several ? in_lowest_block(uniform(first), blocks) : uniform(first);
  if (map.rank != form.rank)
    fault(warp, instruction, "a copy of %u dimensions with a tensor map of %u", form.rank, map.rank);
  if (form.is_im2col != (map.is_im2col != 0))
    fault(warp, instruction, "%s",
          form.is_im2col ? "a copy in im2col mode with a tiled tensor map"
                         : "a tiled copy with a tensor map in im2col mode");
  i32 at[5] = {};
  for (unsigned d = 0; d < map.rank; d++) at[d] = static_cast<i32>(uniform(first + (kLoading ? 2 : 1) + d));
  const u32 bytes = static_cast<u32>(map.box_bytes());
  if (kLoading)
    for (u32 done = 0; done < bytes; done++)
      *shared_memory(shared + done, 1, warp, instruction) = static_cast<u8>(map.fill_byte(done));
  Units units(warp, instruction, kLoading,
              To == kReduces ? reduction_of(warp, instruction, map, form.update) : Reduction{});
  for_each_part(map, at, more, [&](u64 address, u64 offset, u64 row_bytes) {
    for (u64 done = 0; done < row_bytes;) {
      const u64 global = address + done, place = shared + offset + done;
      const bool whole = global % 16 == 0 && place % 16 == 0 && row_bytes - done >= 16;
      const unsigned unit = whole ? 16 : map.element_bytes;
      units.add(global, static_cast<u32>(swizzled(place, map.swizzle)), unit);
      done += unit;
    }
  });
  units.flush();
  if (!kLoading) return;
  if (map.type == TensorMap::kTf32)
    for (u32 done = 0; done < bytes; done += 4) {
      u8* word = shared_memory(shared + done, 4, warp, instruction);
      write_as(word, rounded_to_tf32(read_as<u32>(word)));
    }
  if (form.to_several)
    multicast(warp, instruction, shared, uniform(first + 1), bytes, blocks);
  else
    complete_transactions(warp, instruction, uniform(first + 1), bytes);
}

template <Direction To>
Handler decode(Instruction& i) {
  static const char* const dimensions[] = {"1D", "2D", "3D", "4D", "5D"};
  Form form{};
  bool updates = false;
  for (const std::string& modifier : i.modifiers) {
    const auto found = std::find(std::begin(dimensions), std::end(dimensions), modifier);
    if (found != std::end(dimensions))
      form.rank = static_cast<u8>(found - std::begin(dimensions) + 1);
    else if (modifier == "IM2COL")
      form.is_im2col = true;
    else if (To == kLoads && modifier == "MULTICAST")
      form.to_several = true;
    else if (To == kReduces && read_update(modifier, form.update))
      updates = true;
    else
      return nullptr;
  }
  const bool has_policy = i.operands.size() >= 3 && i.text.find("desc[") != std::string::npos;  // of L2
  const bool has_more = form.to_several || (To == kLoads && form.is_im2col);
  if (i.operands.size() != 2u + has_policy + has_more || !form.rank || updates != (To == kReduces)) return nullptr;
  if (has_more && i.operands[2].kind != Kind::kUniform) return nullptr;
  if (i.operands[0].kind != Kind::kMemory || i.operands[1].kind != Kind::kMemory) return nullptr;
  std::memcpy(&i.scratch[1], &form, sizeof form);
  set_caching(i, kBypassL1);
  return copy_box<To>;
}
constexpr const char* kRequests =
    "data are exact; a copy completes at once, and the number of requests differs from a GPU's";
Opcode UTMALDG_opcode("UTMALDG", kLsu, decode<kLoads>, kRequests);
Opcode UTMASTG_opcode("UTMASTG", kLsu, decode<kStores>, kRequests);
Opcode UTMAREDG_opcode("UTMAREDG", kLsu, decode<kReduces>, kRequests);
// Operations on the cache of tensor maps: UTMACCTL.PF [UR] (prefetch.tensormap), .IV [UR] (fence.proxy.tensormap of one
// map) and .IVALL. They have no effect, because copies read maps from memory.
void nothing(Warp&, const Instruction&, Mask) {}
Opcode UTMACCTL_opcode("UTMACCTL", kLsu, [](Instruction& i) -> Handler {
  return i.has("PF") || i.has("IV") || i.has("IVALL") ? nothing : nullptr;
});

}  // namespace

}  // namespace ww::machine
