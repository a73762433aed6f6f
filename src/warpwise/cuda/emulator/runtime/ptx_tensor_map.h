// tensormap.replace, tensormap.cp_fenceproxy and fence.proxy.tensormap: tensor maps that kernels change.
#pragma once
#include "ptx_context.h"
#include "ptx_memory.h"
#include "tensor_map.h"

namespace ptx {
using ww::TensorMap;

constexpr unsigned kMapBytes = 128;

// The bytes of an element of CUtensorMapDataType.
inline unsigned char map_element_bytes(unsigned type) {
  static const unsigned char bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return bytes[type];
}

// elemtype of PTX as CUtensorMapDataType, which has f64 and bf16 before f32.ftz; -1: not emulated.
inline int map_type(unsigned elemtype) {
  static const signed char types[] = {0, 1, 2, 3, 4, 5, 6, 7, -1, 8, 9, 11, -1};
  return elemtype < sizeof types ? types[elemtype] : -1;
}

// tensormap.replace.tile.field.{global, shared::cta}.b1024.{b32, b64} [map], {ordinal,} value. The bytes of a map are
// those of ww::TensorMap; a map may begin as zeros.
inline void replace_in_map(Context& c, const Instruction& i) {
  char* at = address_of(c, i, i.operands[0]);
  check_aligned(c, i, at, kMapBytes);
  ww_check_access(at, kMapBytes, 1, c.line);
  TensorMap map;
  __builtin_memcpy(&map, at, sizeof map);
  if (map.magic != TensorMap::kMagic) {
    static const TensorMap none = {};
    if (__builtin_memcmp(&map, &none, sizeof map))
      c.fail(WW_UNDEFINED, "inline PTX: " + i.name + ": the address holds neither a tensor map nor zeros");
    map.magic = TensorMap::kMagic;
    map.rank = 1;
    map.element_bytes = 1;
  }
  const bool has_ordinal = i.operands.size() == 3;
  const unsigned ordinal = has_ordinal ? c.u32(i.operands[1]) : 0;
  const u64 value = c.bits(i.operands[has_ordinal ? 2 : 1]);
  const auto refuse = [&](const char* what) {
    c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " with value " + std::to_string(value) + ": " + what);
  };
  if (ordinal > 4 || (i.has("global_stride") && ordinal > 3))
    c.fail(WW_UNDEFINED, "inline PTX: " + i.name + ": dimension " + std::to_string(ordinal) + " does not exist");
  if (i.has("global_address")) {
    map.address = value;
  } else if (i.has("rank")) {
    if (value > 4) c.fail(WW_UNDEFINED, "inline PTX: " + i.name + ": the rank minus 1 is at most 4");
    map.rank = static_cast<unsigned char>(value + 1);
  } else if (i.has("box_dim")) {
    if (!value || value > 256) c.fail(WW_UNDEFINED, "inline PTX: " + i.name + ": a box has 1 to 256 elements");
    map.box[ordinal] = static_cast<unsigned>(value);
  } else if (i.has("global_dim")) {
    map.extent[ordinal] = static_cast<unsigned>(value);
  } else if (i.has("global_stride")) {
    if (value % 16) c.fail(WW_UNDEFINED, "inline PTX: " + i.name + ": a stride is a multiple of 16 bytes");
    map.stride[ordinal] = value;
  } else if (i.has("element_stride")) {
    if (value != 1) refuse("element strides other than 1 are not emulated");
  } else if (i.has("elemtype")) {
    const int type = map_type(static_cast<unsigned>(value));
    if (type < 0) refuse("the element type is not emulated");
    map.type = static_cast<unsigned char>(type);
    map.element_bytes = map_element_bytes(map.type);
  } else if (i.has("interleave_layout")) {
    if (value) refuse("interleaved layouts are not emulated");
  } else if (i.has("swizzle_mode")) {
    static const unsigned char spans[] = {0, 32, 64, 128};
    if (value > 3) refuse("the swizzle is not emulated");
    map.swizzle = spans[value];
  } else if (i.has("fill_mode")) {
    if (value) refuse("fills with NaN are not emulated");
  } else {
    refuse("the field is not emulated");
  }
  __builtin_memcpy(at, &map, sizeof map);
}

// tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [to], [from], 128: each lane
// copies 4 bytes.
inline void copy_map(Context& c, const Instruction& i) {
  char *to = address_of(c, i, i.operands[0]), *from = address_of(c, i, i.operands[1]);
  check_aligned(c, i, to, kMapBytes);
  check_aligned(c, i, from, kMapBytes);
  ww_syncwarp(0xffffffffu, c.line);
  const unsigned offset = 4 * ww_lane();
  ww_check_access(from + offset, 4, 0, c.line);
  ww_check_access(to + offset, 4, 1, c.line);
  __builtin_memcpy(to + offset, from + offset, 4);
  ww_tensor_map_release();
  ww_fence(i.has("cta") ? 0 : i.has("sys") ? 2 : 1);
  ww_syncwarp(0xffffffffu, c.line);
}

// fence.proxy.tensormap::generic.release.scope and fence.proxy.tensormap::generic.acquire.scope [map], 128
inline void fence_of_maps(Context& c, const Instruction& i) {
  const int scope = i.has("cta") ? 0 : i.has("sys") ? 2 : 1;
  ww_fence(scope);
  if (i.operands.empty())
    ww_tensor_map_release();
  else
    ww_tensor_map_acquire(address_of(c, i, i.operands[0]));
}
}  // namespace ptx
