// The handlers of PTX loads, stores, atomics, address conversions and asynchronous copies (cp.async).
#pragma once
#include "ptx_convert.h"

namespace ptx {
// ptxas refuses a 32-bit register as an address in global memory or a generic one; other state spaces allow it.
inline void refuse_narrow_address(Context& c, const Instruction& i) {
  const NamePart& opcode = i.parts[0];
  if (opcode != "ld" && opcode != "st" && opcode != "atom" && opcode != "red") return;
  for (const NamePart& part : i.parts)
    if (part == "const" || part == "local" || part == "param") return;
  c.fail(WW_UNDEFINED, "inline PTX: the address of " + i.name +
                           " has 32 bits, which ptxas refuses: pass the pointer by the constraint \"l\"");
}
// The generic address of an operand; an address in the shared window is converted.
inline char* address_of(Context& c, const Instruction& i, const Operand& operand) {
  u64 at = 0;
  if (operand.kind == Kind::address) {
    for (const Operand& part : operand.parts) at += c.bits(part);
    at += static_cast<u64>(operand.offset);
  } else {
    at = c.bits(operand);
  }
  bool shared = false;
  for (const NamePart& part : i.parts) shared = shared || part.starts_with("shared");
  if (!shared && c.has_32_bits(operand)) refuse_narrow_address(c, i);
  return static_cast<char*>(shared && at <= 0xffffffffu ? ww_from_shared(at) : reinterpret_cast<void*>(at));
}
// The source address of cp.async, which is in global memory although the instruction's name also contains `shared`.
inline char* global_address(Context& c, const Operand& operand) {
  u64 at = static_cast<u64>(operand.offset);
  for (const Operand& part : operand.parts) at += c.bits(part);
  return reinterpret_cast<char*>(at);
}
inline void check_aligned(Context& c, const Instruction& i, const char* address, unsigned bytes) {
  if (reinterpret_cast<u64>(address) % bytes)
    c.fail(WW_UNDEFINED, "inline PTX: the address of " + i.name + " is not a multiple of " + std::to_string(bytes));
}
// The scope of ld, st, atom and red, as for ww_fence, and their order, as for ww_atomic.
inline int scope_of(const Instruction& i) { return i.has("cta") ? 0 : i.has("sys") || i.has("volatile") ? 2 : 1; }
inline unsigned order_of(const Instruction& i) {
  return i.has("acq_rel") ? 3 : i.has("acquire") ? 1 : i.has("release") ? 2 : 0;
}
inline bool is_strong(const Instruction& i) {
  return i.has("volatile") || i.has("acquire") || i.has("relaxed") || i.has("release");
}
inline bool yields_after(const Instruction& i) { return i.has("volatile") || i.has("acquire") || i.has("relaxed"); }

inline void load(Context& c, const Instruction& i) {
  const unsigned bytes = type_bytes(i.type), all = bytes * static_cast<unsigned>(i.vector_width);
  const char* from = address_of(c, i, i.operands[1]);
  check_aligned(c, i, from, all);
  if (is_strong(i))
    ww_strong_access(const_cast<char*>(from), all, 0, c.line, scope_of(i), order_of(i));
  else
    ww_check_access(from, all, 0, c.line);
  if (i.has("nc")) ww_check_read_only(from, all, c.line);
  for (int k = 0; k < i.vector_width; ++k) {
    u64 value = 0;
    __builtin_memcpy(&value, from + k * bytes, bytes);
    if (i.type[0] == 's' && bytes < 8 && value >> (8 * bytes - 1) & 1) value |= ~0ull << (8 * bytes);
    c.set_bits(i.vector_width > 1 ? i.operands[0].parts[static_cast<size_t>(k)] : i.operands[0], value);
  }
  if (yields_after(i)) ww_yield(c.line);
}
inline void store(Context& c, const Instruction& i) {
  const unsigned bytes = type_bytes(i.type), all = bytes * static_cast<unsigned>(i.vector_width);
  char* to = address_of(c, i, i.operands[0]);
  check_aligned(c, i, to, all);
  if (is_strong(i))
    ww_strong_access(to, all, 1, c.line, scope_of(i), order_of(i));
  else
    ww_check_access(to, all, 1, c.line);
  for (int k = 0; k < i.vector_width; ++k) {
    const Operand& from = i.vector_width > 1 ? i.operands[1].parts[static_cast<size_t>(k)] : i.operands[1];
    const u64 value = i.type == "f32" ? ww::bits<unsigned>(c.f32(from)) : c.bits(from);
    __builtin_memcpy(to + k * bytes, &value, bytes);
  }
}

// min or max of the 16-bit floating-point numbers in the low bits of `x` and `y`.
inline u64 half_extreme(bool half, bool smallest, u64 x, u64 y) {
  const auto value = [half](u64 bits) {
    const auto low = static_cast<unsigned short>(bits);
    return half ? ww::half_value(low) : ww::bfloat16_value(low);
  };
  const float result = extreme(smallest, value(x), value(y));
  return half ? ww::half_bits(result) : ww::bfloat16_bits(result);
}
// The new value of atom d, [a], b{, c} and of red [a], b. Vectors are handled one element at a time.
inline u64 atomic_result(Context& c, const Instruction& i, u64 old, u64 b, u64 with) {
  if (i.has("add")) {
    if (i.type == "f32")
      return ww::bits<unsigned>(ww::bits<float>(static_cast<unsigned>(old)) +
                                ww::bits<float>(static_cast<unsigned>(b)));
    if (i.type == "f64") return ww::bits<u64>(ww::bits<double>(old) + ww::bits<double>(b));
    if (i.type == "f16" || i.type == "f16x2" || i.type == "bf16" || i.type == "bf16x2") {
      u64 result = 0;
      const bool half = i.type[0] == 'f';
      for (int at = 0; at < (i.type == "f16x2" || i.type == "bf16x2" ? 32 : 16); at += 16) {
        const auto x = static_cast<unsigned short>(old >> at), y = static_cast<unsigned short>(b >> at);
        const float sum = half ? ww::half_value(x) + ww::half_value(y) : ww::bfloat16_value(x) + ww::bfloat16_value(y);
        result |= static_cast<u64>(half ? ww::half_bits(sum) : ww::bfloat16_bits(sum)) << at;
      }
      return result;
    }
    return old + b;
  }
  if (is_float(i.type) && i.type != "f32" && i.type != "f64" && (i.has("min") || i.has("max"))) {
    const bool half = i.type[0] == 'f';
    u64 result = 0;
    for (int at = 0; at < (i.type == "f16x2" || i.type == "bf16x2" ? 32 : 16); at += 16)
      result |= half_extreme(half, i.has("min"), old >> at, b >> at) << at;
    return result;
  }
  const unsigned width = 8 * type_bytes(i.type);
  const auto extend = [&](u64 x) { return static_cast<long long>(x << (64 - width)) >> (64 - width); };
  const bool is_signed = i.type[0] == 's';
  if (i.has("min")) return is_signed ? (extend(b) < extend(old) ? b : old) : std::min(b, old);
  if (i.has("max")) return is_signed ? (extend(b) > extend(old) ? b : old) : std::max(b, old);
  if (i.has("and")) return old & b;
  if (i.has("or")) return old | b;
  if (i.has("xor")) return old ^ b;
  if (i.has("inc")) return old >= b ? 0 : old + 1;
  if (i.has("dec")) return old == 0 || old > b ? b : old - 1;
  if (i.has("exch")) return b;
  if (i.has("cas")) return old == b ? with : old;
  c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is not emulated");
}
inline void atomic(Context& c, const Instruction& i) {
  const bool returns = i.parts[0] == "atom";
  const size_t first = returns ? 1 : 0;
  const unsigned bytes = type_bytes(i.type);
  char* address = address_of(c, i, i.operands[first]);
  check_aligned(c, i, address, bytes);
  for (int k = 0; k < i.vector_width; ++k) {
    const auto element = [&](const Operand& operand) -> const Operand& {
      return i.vector_width > 1 ? operand.parts[static_cast<size_t>(k)] : operand;
    };
    char* at = address + static_cast<unsigned>(k) * bytes;
    ww_atomic(at, bytes, returns ? "atom" : "red", c.line, scope_of(i), order_of(i));
    u64 old = 0;
    __builtin_memcpy(&old, at, bytes);
    const u64 b = truncated(c.bits(element(i.operands[first + 1])), bytes);
    const u64 with = i.has("cas") ? truncated(c.bits(i.operands[first + 2]), bytes) : 0;
    const u64 next = truncated(atomic_result(c, i, old, b, with), bytes);
    __builtin_memcpy(at, &next, bytes);
    if (returns) c.set_bits(element(i.operands[0]), old, bytes);
  }
}

// cvta.to.shared.u64 d, a and cvta.shared.u64 d, a; addresses in the shared window have 32 bits.
inline void cvta(Context& c, const Instruction& i) {
  const u64 value = c.bits(i.operands[1]);
  const bool shared = i.has("shared");
  if (!shared) {
    c.set_bits(i.operands[0], value);
  } else if (i.has("to")) {
    c.set_bits(i.operands[0], value <= 0xffffffffu ? value : ww_to_shared(reinterpret_cast<const void*>(value)));
  } else {
    c.set_bits(i.operands[0], reinterpret_cast<u64>(ww_from_shared(value)));
  }
}
inline void isspacep(Context& c, const Instruction& i) {
  const int space = ww_state_space(reinterpret_cast<const void*>(c.bits(i.operands[1])));
  const bool of_cluster = i.has("shared::cluster") && (space == WW_SHARED_SPACE || space == WW_CLUSTER_SPACE);
  c.set_bits(i.operands[0],
             of_cluster || ((i.has("shared") || i.has("shared::cta")) && space == WW_SHARED_SPACE) ||
                 (i.has("global") && space == WW_GLOBAL_SPACE) || (i.has("local") && space == WW_LOCAL_SPACE) ||
                 (i.has("const") && space == WW_CONSTANT_SPACE),
             4);
}

// cp.async.{ca,cg}.shared.global{.L2::cache_hint} [to], [from], bytes{, bytes to read}{, cache policy}
inline void copy_async(Context& c, const Instruction& i) {
  char* to = address_of(c, i, i.operands[0]);
  const char* from = global_address(c, i.operands[1]);
  const unsigned bytes = c.u32(i.operands[2]);
  unsigned read = bytes;
  if (i.operands.size() > (i.has("L2::cache_hint") ? 4 : 3)) {
    const Operand& last = i.operands[3];  // a predicate is the ignore-src operand
    const bool ignore = last.kind == Kind::reg && c.program->registers > 0;
    read = ignore ? (c.predicate(last) ? 0 : bytes) : c.u32(last);
  }
  if ((bytes != 4 && bytes != 8 && bytes != 16) || read > bytes)
    c.fail(WW_UNDEFINED, "inline PTX: cp.async copies 4, 8 or 16 bytes, and its src-size is at most that");
  check_aligned(c, i, to, bytes);
  check_aligned(c, i, from, bytes);
  ww_copy_async(to, from, bytes, read, c.line);
}
inline void copy_commit(Context&, const Instruction&) { ww_copy_commit(); }
inline void copy_wait_group(Context& c, const Instruction& i) { ww_copy_wait(c.u32(i.operands[0])); }
inline void copy_wait_all(Context&, const Instruction&) {
  ww_copy_commit();
  ww_copy_wait(0);
}
}  // namespace ptx
