// Handlers of bulk copies: cp.async.bulk and cp.reduce.async.bulk, with and without a tensor map.
#pragma once
#include "ptx_cluster.h"
#include "tensor_map.h"

namespace ptx {
using ww::TensorMap;

inline TensorMap read_map(Context& c, const Instruction& i, const Operand& operand) {
  TensorMap map;
  const u64 at = c.bits(operand);
  ww_tensor_map_read(reinterpret_cast<const void*>(at), c.line);
  const ww::MapError error = ww::decode(reinterpret_cast<const void*>(at), map);
  if (error == ww::MapError::kNoMap)
    c.fail(WW_UNDEFINED, "inline PTX: " + i.name + ": there is no tensor map made by cuda.tensor_map at the address");
  if (error != ww::MapError::kNone)
    c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + ": tensor maps " +
                               (error == ww::MapError::kType ? "of this element type" : "with an interleaved layout") +
                               " are not emulated");
  return map;
}

// The address of the tensor's copy in the emulator's memory: a launch copies its arguments.
inline u64 tensor_of(const TensorMap& map) { return reinterpret_cast<u64>(ww_argument_address(map.address)); }

// Splits the `bytes` bytes at `offset` in the box at the shared address `box` into units of at most 16 bytes. Calls
// copy(place, done, count) for each unit: its swizzled offset in the box, the number of bytes before it, and its size.
template <class Copy>
inline void for_each_unit(u64 box, u64 offset, u64 bytes, unsigned swizzle, const Copy& copy) {
  for (u64 done = 0; done < bytes;) {
    const u64 at = offset + done, count = std::min<u64>(bytes - done, 16 - (box + at) % 16);
    copy(ww::swizzled(box + at, swizzle) - box, done, count);
    done += count;
  }
}

inline void copy_coordinates(Context& c, const Instruction& i, const Operand& tensor, const TensorMap& map,
                             int (&at)[5]) {
  const Operand& coordinates = tensor.parts[1];
  if (coordinates.parts.size() != map.rank)
    c.fail(WW_UNDEFINED, "inline PTX: " + i.name + ": " + std::to_string(coordinates.parts.size()) +
                             " coordinates for a tensor map of " + std::to_string(map.rank) + " dimensions");
  for (size_t d = 0; d < coordinates.parts.size(); ++d) at[d] = static_cast<int>(c.u32(coordinates.parts[d]));
}
inline void check_dimensions(Context& c, const Instruction& i, const TensorMap& map) {
  for (int d = 1; d <= 5; ++d)
    if (named(i, (".tensor." + std::to_string(d) + "d").c_str()) && d != map.rank)
      c.fail(WW_UNDEFINED,
             "inline PTX: " + i.name + " with a tensor map of " + std::to_string(map.rank) + " dimensions");
  if (named(i, "im2col") != (map.is_im2col != 0))
    c.fail(WW_UNDEFINED, "inline PTX: " + i.name +
                             (map.is_im2col ? " with a tensor map made by cuda.im2col_map"
                                            : " with a tiled tensor map (cuda.tensor_map)"));
}

// Calls segment(address, offset, bytes) for each contiguous part of the box at the coordinates `at` that is inside the
// tensor. `offsets`: the im2col offsets, null in tiled mode.
template <class Segment>
inline void for_each_part(Context& c, const Instruction& i, const TensorMap& map, const int (&at)[5],
                          const Operand* offsets, const Segment& segment) {
  if (!map.is_im2col) return for_each_segment(map, at, tensor_of(map), segment);
  unsigned offset[3] = {};
  for (size_t d = 0; offsets && d < offsets->parts.size() && d < 3; ++d) offset[d] = c.u32(offsets->parts[d]) & 0xffff;
  if (offsets && offsets->parts.size() + 2 != map.rank)
    c.fail(WW_UNDEFINED, "inline PTX: " + i.name + ": " + std::to_string(offsets->parts.size()) +
                             " im2col offsets for a tensor map of " + std::to_string(map.rank) + " dimensions");
  for_each_pixel(map, at, offset, tensor_of(map), segment);
}

// Calls each(to, barrier) with the addresses in each block of the mask `blocks`; without multicast, in this block.
template <class Each>
inline void for_each_block(Context& c, bool multicast, unsigned blocks, char* to, char* barrier, const Each& each) {
  if (!multicast) return each(to, barrier);
  for (unsigned rank = 0; blocks >> rank; ++rank)
    if (blocks >> rank & 1)
      each(static_cast<char*>(ww_map_shared(to, rank, c.line)),
           static_cast<char*>(ww_map_shared(barrier, rank, c.line)));
}

inline char* shared_address(Context& c, const Operand& operand) {
  u64 at = static_cast<u64>(operand.offset);
  for (const Operand& part : operand.parts) at += c.bits(part);
  return static_cast<char*>(at <= 0xffffffffu ? ww_from_shared(at) : reinterpret_cast<void*>(at));
}

// cp.async.bulk.tensor.{1 to 5}d.shared::cluster.global...: [to], [map, {x, y, ...}], [barrier]{, {im2col offsets}}
// {, blocks}{, policy}
inline void tensor_load(Context& c, const Instruction& i) {
  const TensorMap map = read_map(c, i, i.operands[1].parts[0]);
  check_dimensions(c, i, map);
  int at[5] = {};
  copy_coordinates(c, i, i.operands[1], map, at);
  char* to = shared_address(c, i.operands[0]);
  check_aligned(c, i, to, 128);
  std::vector<char> data(map.box_bytes(), 0);
  const u64 box = ww_to_shared(to) & 0x3fffff;
  for (size_t k = 0; map.fills_nan && k < data.size(); ++k) data[k] = map.fill_byte(k);
  for_each_part(c, i, map, at, map.is_im2col ? &i.operands[3] : nullptr, [&](u64 address, u64 offset, u64 bytes) {
    const char* from = reinterpret_cast<const char*>(address);
    ww_bulk_source(from, bytes, c.line);
    for_each_unit(box, offset, bytes, map.swizzle,
                  [&](u64 place, u64 done, u64 count) { __builtin_memcpy(data.data() + place, from + done, count); });
  });
  if (map.type == TensorMap::kTf32)
    for (size_t k = 0; k + 4 <= data.size(); k += 4) {
      unsigned bits;
      __builtin_memcpy(&bits, data.data() + k, 4);
      bits = ww::rounded_to_tf32(bits);
      __builtin_memcpy(data.data() + k, &bits, 4);
    }
  const bool multicast = named(i, "multicast::cluster");
  for_each_block(
      c, multicast, multicast ? c.u32(i.operands[map.is_im2col ? 4 : 3]) : 0, to, shared_address(c, i.operands[2]),
      [&](char* place, char* barrier) { ww_bulk_load(place, data.data(), data.size(), map.swizzle, barrier, c.line); });
}

// cp.reduce.async.bulk of `bytes` bytes at `from` into those at `to`, element by element. `checked`, for global memory:
// each element is checked as an atomic operation of the thread.
inline void reduce_elements(Context& c, const Instruction& i, const NamePart& type, char* to, const char* from,
                            u64 bytes, bool checked) {
  Instruction one = i;
  one.type = type;
  const unsigned size = type_bytes(type);
  for (u64 k = 0; k < bytes; k += size) {
    if (checked) ww_atomic(to + k, size, "cp.reduce.async.bulk", c.line);
    u64 old = 0, value = 0;
    __builtin_memcpy(&old, to + k, size);
    __builtin_memcpy(&value, from + k, size);
    const u64 next = atomic_result(c, one, old, value, 0);
    __builtin_memcpy(to + k, &next, size);
  }
}

// cp{.reduce}.async.bulk.tensor.{1 to 5}d.global.shared::cta...: [map, {x, y, ...}], [from]{, policy}
inline void tensor_store(Context& c, const Instruction& i) {
  static const char* const types[] = {"u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16"};
  const TensorMap map = read_map(c, i, i.operands[0].parts[0]);
  check_dimensions(c, i, map);
  int at[5] = {};
  copy_coordinates(c, i, i.operands[0], map, at);
  const char* from = shared_address(c, i.operands[1]);
  check_aligned(c, i, from, 128);
  const u64 box = ww_to_shared(from) & 0x3fffff;
  ww_async_read(from, map.box_bytes(), "a bulk copy", c.line);
  const bool reduces = i.has("reduce");
  for_each_part(c, i, map, at, nullptr, [&](u64 address, u64 offset, u64 bytes) {
    char* to = reinterpret_cast<char*>(address);
    std::vector<char> row(bytes);
    for_each_unit(box, offset, bytes, map.swizzle,
                  [&](u64 place, u64 done, u64 count) { __builtin_memcpy(row.data() + done, from + place, count); });
    if (reduces)
      reduce_elements(c, i, map.type < 10 ? types[map.type] : "f32", to, row.data(), bytes, true);
    else
      ww_bulk_store(to, row.data(), bytes, c.line);
  });
}

// cp{.reduce}.async.bulk of contiguous bytes:
//   .shared::cluster.global.mbarrier...: [to], [from], bytes, [barrier]{, blocks}{, policy}
//   .shared::cluster.shared::cta.mbarrier...: [to], [from], bytes, [barrier]
//   .global.shared::cta.bulk_group: [to], [from], bytes{, policy}
inline void bulk_copy(Context& c, const Instruction& i) {
  const unsigned bytes = c.u32(i.operands[2]);
  const bool to_global = named(i, ".global.shared::cta");
  char* to = to_global ? global_address(c, i.operands[0]) : shared_address(c, i.operands[0]);
  char* from = named(i, ".shared::cta") ? shared_address(c, i.operands[1]) : global_address(c, i.operands[1]);
  check_aligned(c, i, to, 16);
  check_aligned(c, i, from, 16);
  if (bytes % 16)
    c.fail(WW_UNDEFINED, "inline PTX: " + i.name + " copies a multiple of 16 bytes, not " + std::to_string(bytes));
  if (!bytes) return;
  if (to_global)
    ww_async_read(from, bytes, "a bulk copy", c.line);
  else if (named(i, ".shared::cta"))
    ww_copy_source(from, bytes, c.line);
  else
    ww_bulk_source(from, bytes, c.line);
  if (i.has("reduce")) {
    if (to_global) return reduce_elements(c, i, i.type, to, from, bytes, true);
    const auto combine = [context = c, &i](char* at, const char* data, size_t count) {
      Context own = context;
      reduce_elements(own, i, i.type, at, data, count, false);
    };
    return ww_bulk_reduce(to, from, bytes, shared_address(c, i.operands[3]), c.line, combine);
  }
  if (to_global) return ww_bulk_store(to, from, bytes, c.line);
  const bool multicast = named(i, "multicast::cluster");
  for_each_block(c, multicast, multicast ? c.u32(i.operands[4]) : 0, to, shared_address(c, i.operands[3]),
                 [&](char* place, char* barrier) { ww_bulk_load(place, from, bytes, 0, barrier, c.line); });
}

// st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{.v2, .v4}.type [to], value, [barrier]
inline void store_async(Context& c, const Instruction& i) {
  const unsigned size = type_bytes(i.type), bytes = size * static_cast<unsigned>(i.vector_width);
  char data[64];
  for (int k = 0; k < i.vector_width; ++k) {
    const u64 value = c.bits(i.vector_width > 1 ? i.operands[1].parts[static_cast<size_t>(k)] : i.operands[1]);
    __builtin_memcpy(data + static_cast<unsigned>(k) * size, &value, size);
  }
  ww_bulk_load(shared_address(c, i.operands[0]), data, bytes, 0, shared_address(c, i.operands[2]), c.line);
}
inline void bulk_commit(Context&, const Instruction&) { ww_bulk_commit(); }
inline void bulk_wait(Context& c, const Instruction& i) { ww_bulk_wait(c.u32(i.operands[0]), i.has("read")); }
}  // namespace ptx
