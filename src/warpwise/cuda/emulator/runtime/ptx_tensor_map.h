// tensormap.replace, tensormap.cp_fenceproxy and fence.proxy.tensormap: tensor maps that kernels change.
#pragma once
#include "ptx_context.h"
#include "ptx_memory.h"
#include "tensor_map.h"

namespace ptx {
constexpr unsigned kMapBytes = ww::TensorMap::kBytes;

// tensormap.replace.tile.field.{global, shared::cta}.b1024.{b32, b64} [map], {ordinal,} value. Fields are written where
// ptxas writes them (tensor_map.h); a map may begin as zeros.
inline void replace_in_map(Context& c, const Instruction& i) {
  using ww::tensor_map_detail::at, ww::tensor_map_detail::put;
  char* const map = address_of(c, i, i.operands[0]);
  check_aligned(c, i, map, kMapBytes);
  ww_check_access(map, kMapBytes, 1, c.line);
  if (!ww::may_be_map(map))
    c.fail(WW_UNDEFINED, "inline PTX: " + i.name + ": the address holds neither a tensor map nor zeros");
  const bool has_ordinal = i.operands.size() == 3;
  const unsigned ordinal = has_ordinal ? c.u32(i.operands[1]) : 0;
  const u64 value = c.bits(i.operands[has_ordinal ? 2 : 1]);
  const auto refuse = [&](const char* what) {
    c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " with value " + std::to_string(value) + ": " + what);
  };
  const auto require = [&](bool met, const std::string& rule) {
    if (!met) c.fail(WW_UNDEFINED, "inline PTX: " + i.name + ": " + rule);
  };
  uint8_t bytes[kMapBytes];
  __builtin_memcpy(bytes, map, sizeof bytes);
  const auto set_bits = [&](unsigned byte, unsigned first, unsigned count, u64 bits) {
    const unsigned mask = ((1u << count) - 1) << first;
    put(bytes + byte, (at<unsigned>(bytes + byte) & ~mask) | (static_cast<unsigned>(bits) << first & mask));
  };
  require(ordinal <= 4 && !(i.has("global_stride") && ordinal == 4),
          "dimension " + std::to_string(ordinal) + " does not exist");
  if (i.has("global_address")) {
    put(bytes, value);
  } else if (i.has("rank")) {
    require(value <= 4, "the rank minus 1 is at most 4");
    set_bits(8, 4, 3, value);
  } else if (i.has("box_dim")) {
    require(value >= 1 && value <= 256, "a box has 1 to 256 elements");
    bytes[55 + ordinal] = static_cast<uint8_t>(value - 1);
  } else if (i.has("global_dim")) {
    put(bytes + 32 + 4 * ordinal, static_cast<unsigned>(value - 1));
  } else if (i.has("global_stride")) {
    require(value % 16 == 0, "a stride is a multiple of 16 bytes");
    put(bytes + 12 + 4 * ordinal, static_cast<unsigned>(value >> 4));
    set_bits(28, 4 * ordinal, 4, value >> 36);
  } else if (i.has("element_stride")) {
    require(value >= 1 && value <= 8, "an element stride is 1 to 8");
    set_bits(52, 3 * ordinal, 3, value - 1);
  } else if (i.has("elemtype")) {
    if (value > 12 || value == 8 || value == 12) refuse("the element type is not emulated");
    set_bits(8, 7, 4, value == 11 ? ww::tensor_map_detail::kElemtypeOfFloat32 : value);
    if (value == 11) set_bits(8, 16, 1, 1);
  } else if (i.has("interleave_layout")) {
    if (value) refuse("interleaved layouts are not emulated");
    set_bits(8, 11, 2, 0);
  } else if (i.has("swizzle_mode")) {
    if (value > 3) refuse("the swizzle is not emulated");
    set_bits(8, 13, 2, value);
  } else if (i.has("fill_mode")) {
    require(value <= 1, "the fill mode is 0 (zeros) or 1 (NaN)");
    set_bits(8, 15, 1, value);
  } else {
    refuse("the field is not emulated");
  }
  __builtin_memcpy(map, bytes, sizeof bytes);
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
