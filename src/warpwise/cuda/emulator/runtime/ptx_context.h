// Context: the state of one thread's execution of an asm statement. Handlers read and write asm operands, virtual
// registers and special registers through it.
#pragma once
#include <cfloat>
#include <climits>
#include <math.h>
#include <cstring>

#include "../include/ww/basics.h"
#include "../include/ww/vector_types.h"
#include "../include/ww/integer.h"
#include "../include/ww/convert.h"
#include "../include/ww/float16_bits.h"
#include "../include/ww/small_floats.h"
#include "ptx_program.h"

namespace ptx {
typedef unsigned long long u64;

struct Context {
  ww_ptx_operand* operands;
  unsigned count;
  u64* registers;
  int line;
  const Program* program;
  int next;  // index of the next instruction

  [[noreturn]] void fail(ww_problem problem, const std::string& message) const {
    ww_fail(problem, message.c_str(), line);
    __builtin_unreachable();
  }

  u64 special(int which) const {
    const unsigned lane = ww_lane();
    switch (static_cast<Special>(which)) {
      case Special::laneid:
        return lane;
      case Special::warpid:
        return ww_thread_rank() / 32;
      case Special::nwarpid:
        return (ww_block_dim().x * ww_block_dim().y * ww_block_dim().z + 31) / 32;
      case Special::smid:
        return 0;
      case Special::nsmid:
        return 1;
      case Special::gridid:
        return 1;
      case Special::tid_x:
        return ww_thread_index().x;
      case Special::tid_y:
        return ww_thread_index().y;
      case Special::tid_z:
        return ww_thread_index().z;
      case Special::ntid_x:
        return ww_block_dim().x;
      case Special::ntid_y:
        return ww_block_dim().y;
      case Special::ntid_z:
        return ww_block_dim().z;
      case Special::ctaid_x:
        return ww_block_index().x;
      case Special::ctaid_y:
        return ww_block_index().y;
      case Special::ctaid_z:
        return ww_block_index().z;
      case Special::nctaid_x:
        return ww_grid_dim().x;
      case Special::nctaid_y:
        return ww_grid_dim().y;
      case Special::nctaid_z:
        return ww_grid_dim().z;
      case Special::lanemask_eq:
        return 1u << lane;
      case Special::lanemask_lt:
        return (1u << lane) - 1u;
      case Special::lanemask_le:
        return (2u << lane) - 1u;
      case Special::lanemask_ge:
        return ~((1u << lane) - 1u);
      case Special::lanemask_gt:
        return ~((2u << lane) - 1u);
      case Special::dynamic_smem_size:
        return ww_dynamic_shared_bytes();
      case Special::cluster_ctarank:
        return ww_cluster_rank();
      case Special::cluster_nctarank:
        return u64{ww_cluster_shape().x} * ww_cluster_shape().y * ww_cluster_shape().z;
      case Special::cluster_ctaid_x:
        return ww_block_index().x % ww_cluster_shape().x;
      case Special::cluster_ctaid_y:
        return ww_block_index().y % ww_cluster_shape().y;
      case Special::cluster_ctaid_z:
        return ww_block_index().z % ww_cluster_shape().z;
      case Special::cluster_nctaid_x:
        return ww_cluster_shape().x;
      case Special::cluster_nctaid_y:
        return ww_cluster_shape().y;
      case Special::cluster_nctaid_z:
        return ww_cluster_shape().z;
      case Special::clusterid_x:
        return ww_block_index().x / ww_cluster_shape().x;
      case Special::clusterid_y:
        return ww_block_index().y / ww_cluster_shape().y;
      case Special::clusterid_z:
        return ww_block_index().z / ww_cluster_shape().z;
      case Special::nclusterid_x:
        return ww_grid_dim().x / ww_cluster_shape().x;
      case Special::nclusterid_y:
        return ww_grid_dim().y / ww_cluster_shape().y;
      case Special::nclusterid_z:
        return ww_grid_dim().z / ww_cluster_shape().z;
      case Special::is_explicit_cluster:
        return ww_cluster_shape().x * ww_cluster_shape().y * ww_cluster_shape().z > 1;
      case Special::clock:
      case Special::clock64:
      case Special::globaltimer:
        return ww_clock();
    }
    return 0;
  }

  // The bits of an operand, in the low-order bytes.
  u64 bits(const Operand& operand) const {
    switch (operand.kind) {
      case Kind::operand: {
        const ww_ptx_operand& given = operands[operand.index];
        u64 value = 0;
        if (given.target)
          __builtin_memcpy(&value, given.target, given.bytes < 8 ? given.bytes : 8);
        else
          __builtin_memcpy(&value, given.value, given.bytes < 8 ? given.bytes : 8);
        return value;
      }
      case Kind::reg:
        return operand.negated ? !registers[operand.index] : registers[operand.index];
      case Kind::immediate:
        return operand.bits;
      case Kind::special:
        return special(operand.index);
      default:
        return 0;
    }
  }
  // True for an address whose base is an asm operand with the constraint "r".
  bool has_32_bits(const Operand& address) const {
    const Operand& base = address.kind == Kind::address && !address.parts.empty() ? address.parts[0] : address;
    return base.kind == Kind::operand && std::strchr(operands[base.index].constraint, 'r');
  }
  void set_bits(const Operand& operand, u64 value, unsigned bytes = 8) {
    if (operand.kind == Kind::operand) {
      ww_ptx_operand& given = operands[operand.index];
      if (!given.target) fail(WW_UNDEFINED, "inline PTX: the statement writes to an input operand");
      const unsigned wanted = given.bytes < 8 ? given.bytes : 8;
      __builtin_memcpy(given.target, &value, wanted);
    } else if (operand.kind == Kind::reg) {
      registers[operand.index] = bytes >= 8 ? value : value & ((1ull << (8 * bytes)) - 1);
    } else if (operand.kind != Kind::sink) {
      fail(WW_UNSUPPORTED, "inline PTX: the destination of a result is not a register");
    }
  }
  bool predicate(const Operand& operand) const {
    const bool value = (bits(operand) & 0xffffffffu) != 0;
    return operand.kind == Kind::operand && operand.negated ? !value : value;
  }

  unsigned u32(const Operand& operand) const { return static_cast<unsigned>(bits(operand)); }
  float f32(const Operand& operand) const {
    if (operand.kind == Kind::immediate && operand.is_double) return static_cast<float>(ww::bits<double>(operand.bits));
    return ww::bits<float>(u32(operand));
  }
  double f64(const Operand& operand) const { return ww::bits<double>(bits(operand)); }
  void set_f32(const Operand& operand, float value) { set_bits(operand, ww::bits<unsigned>(value), 4); }
  void set_f64(const Operand& operand, double value) { set_bits(operand, ww::bits<u64>(value)); }

  // An operand of an integer type, sign- or zero-extended to 64 bits.
  u64 integer(const Operand& operand, const NamePart& type) const {
    const u64 value = bits(operand);
    const int width = type.number();
    if (width >= 64 || width == 0) return value;
    const u64 low = value & ((1ull << width) - 1);
    return type[0] == 's' && low >> (width - 1) ? low | ~((1ull << width) - 1) : low;
  }
  // The value of the bits of a floating-point type; exact.
  double real(u64 value, const NamePart& type) const {
    if (type == "f64") return ww::bits<double>(value);
    if (type == "f16") return ww::half_value(static_cast<unsigned short>(value));
    if (type == "bf16") return ww::bfloat16_value(static_cast<unsigned short>(value));
    return ww::bits<float>(static_cast<unsigned>(value));
  }
};

inline unsigned type_bytes(const NamePart& type) {
  if (type == "pred") return 1;
  if (type == "f32x2") return 8;
  if (type == "f16x2" || type == "bf16x2" || type == "tf32") return 4;
  if (type == "bf16" || type == "e4m3x2" || type == "e5m2x2" || type == "e2m3x2" || type == "e3m2x2" ||
      type == "ue8m0x2")
    return 2;
  if (type == "e4m3" || type == "e5m2" || type == "e2m1x2") return 1;
  return static_cast<unsigned>(type.number()) / 8;
}
inline bool is_float(const NamePart& type) {
  return type[0] == 'f' || type == "bf16" || type == "bf16x2" || type == "tf32";
}
}  // namespace ptx
