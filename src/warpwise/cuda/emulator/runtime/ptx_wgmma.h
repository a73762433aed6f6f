// The handlers of wgmma. Each thread computes its elements of D; the operands in shared memory are decoded once for a
// warpgroup. Products are exact, and their sum over the K of one instruction is rounded once, unlike in hardware.
#pragma once
#include "ptx_matrix.h"
#include "ptx_tma.h"

namespace ptx {
enum class WgmmaType { f16, bf16, tf32, e4m3, e5m2, s8, u8 };

inline bool wgmma_type(const NamePart& part, WgmmaType& type) {
  static constexpr const char* names[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"};
  for (int which = 0; which < 7; ++which)
    if (std::strcmp(part.text, names[which]) == 0) {
      type = static_cast<WgmmaType>(which);
      return true;
    }
  return false;
}
inline unsigned bytes_of(WgmmaType type) {
  return type == WgmmaType::tf32 ? 4 : type == WgmmaType::f16 || type == WgmmaType::bf16 ? 2 : 1;
}
inline float wgmma_value(const char* at, WgmmaType type) {
  unsigned short half;
  switch (type) {
    case WgmmaType::f16:
      __builtin_memcpy(&half, at, 2);
      return ww::half_value(half);
    case WgmmaType::bf16:
      __builtin_memcpy(&half, at, 2);
      return ww::bfloat16_value(half);
    case WgmmaType::tf32: {
      unsigned bits;
      __builtin_memcpy(&bits, at, 4);
      return ww::bits<float>(bits & 0xffffe000u);
    }
    case WgmmaType::e4m3: {
      const unsigned char bits = static_cast<unsigned char>(*at);
      const int exponent = bits >> 3 & 15, mantissa = bits & 7;
      const float sign = bits & 128 ? -1.0f : 1.0f;
      if (exponent == 15 && mantissa == 7) return __builtin_nanf("");
      return sign * (exponent ? ldexpf(static_cast<float>(8 + mantissa), exponent - 10)
                              : ldexpf(static_cast<float>(mantissa), -9));
    }
    case WgmmaType::e5m2:
      return ww::half_value(static_cast<unsigned short>(static_cast<unsigned char>(*at) << 8));
    case WgmmaType::s8:
      return static_cast<signed char>(*at);
    case WgmmaType::u8:
      break;
  }
  return static_cast<unsigned char>(*at);
}

// A matrix descriptor: the address, the strides of core matrices and the swizzle, in bytes.
struct Descriptor {
  unsigned address, leading, stride, swizzle;
  explicit Descriptor(u64 bits)
      : address(static_cast<unsigned>(bits & 0x3fff) << 4),
        leading(static_cast<unsigned>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<unsigned>(bits >> 32 & 0x3fff) << 4) {
    static constexpr unsigned kinds[] = {0, 128, 64, 32};
    swizzle = kinds[bits >> 62];
  }
  // The unswizzled address of element (line, k) of a K-major operand: `k` is in bytes.
  unsigned k_major(unsigned line, unsigned k) const {
    const unsigned group = address + line / 8 * stride;
    return swizzle ? group + line % 8 * swizzle + k : group + line % 8 * 16 + k / 16 * leading;
  }
  // The same for an MN-major operand: `line` is in bytes, `k` in elements.
  unsigned mn_major(unsigned line, unsigned k) const {
    if (!swizzle) return address + line / 16 * stride + k / 8 * leading + k % 8 * 16;
    return address + line / swizzle * leading + line % swizzle + k / 8 * stride + k % 8 * swizzle;
  }
};

// Reads `lines` x `depth` elements into a matrix with K along its rows.
inline void read_operand(Context& c, u64 bits, bool mn_major, unsigned lines, unsigned depth, WgmmaType type,
                         std::vector<float>& into) {
  const Descriptor descriptor(bits);
  const unsigned size = bytes_of(type), per_unit = 16 / size, outer = mn_major ? depth : lines,
                 inner = mn_major ? lines : depth;
  into.resize(size_t{lines} * depth);
  const unsigned loaded = ww_swizzle_of(ww_from_descriptor(descriptor.address, c.line));
  if (loaded != ~0u && loaded != descriptor.swizzle)
    ww_warn(WW_UNDEFINED,
            ("wgmma: the matrix descriptor has a swizzle of " + std::to_string(descriptor.swizzle) +
             " bytes, the tensor map of the bulk copy that loaded the operand one of " + std::to_string(loaded))
                .c_str(),
            c.line);
  for (unsigned o = 0; o < outer; ++o)
    for (unsigned i = 0; i < inner; i += per_unit) {
      const unsigned at = mn_major ? descriptor.mn_major(i * size, o) : descriptor.k_major(o, i * size);
      const u64 place = ww::swizzled(at, descriptor.swizzle);
      const char* from = ww_from_descriptor(static_cast<unsigned>(place) & 0x3ffff, c.line);
      ww_async_read(from, 16, "wgmma", c.line);
      for (unsigned j = 0; j < per_unit && i + j < inner; ++j) {
        const float value = wgmma_value(from + j * size, type);
        into[mn_major ? size_t{i + j} * depth + o : size_t{o} * depth + i + j] = value;
      }
    }
}

// wgmma.mma_async.sync.aligned.m64nNkK.D.A.B d, a, b, scale-d{, scale-a, scale-b}{, trans-a}{, trans-b}; a is a
// descriptor or, of 4 registers, rows g and g + 8 of the warp's 16: register r holds row g + 8 (r % 2), and 4 bytes of
// K from 4 q + 16 (r / 2) on. D: rows g and g + 8, columns 8 j + 2 q and 8 j + 2 q + 1.
inline void wgmma(Context& c, const Instruction& i) {
  int n = 0, k = 0;
  for (const NamePart& part : i.parts)
    if (part.starts_with("m64n")) std::sscanf(part.text, "m64n%dk%d", &n, &k);
  const size_t end = i.parts.size() - (i.has("satfinite") ? 1 : 0);
  WgmmaType a_type, b_type;
  if (!n || i.has("sp") || end < 4 || !wgmma_type(i.parts[end - 2], a_type) || !wgmma_type(i.parts[end - 1], b_type))
    return unsupported(c, i);
  const bool halves = i.parts[end - 3] == "f16", integers = i.parts[end - 3] == "s32";
  const bool from_registers = i.operands[1].kind == Kind::vector, floats = !integers;
  const auto flag = [&](size_t at, int otherwise) {
    return at < i.operands.size() ? static_cast<int>(c.u32(i.operands[at])) : otherwise;
  };
  const float sign = static_cast<float>(floats ? flag(4, 1) * flag(5, 1) : 1);
  const bool a_mn_major = !from_registers && floats && flag(6, 0),
             b_mn_major = floats && flag(from_registers ? 6 : 7, 0);
  const bool adds = c.predicate(i.operands[3]);
  const auto columns = static_cast<unsigned>(n), depth = static_cast<unsigned>(k);

  const ww_wgmma shared = ww_wgmma_begin(c.line);
  if (shared.first) {
    if (!from_registers) read_operand(c, c.bits(i.operands[1]), a_mn_major, 64, depth, a_type, *shared.a);
    read_operand(c, c.bits(i.operands[2]), b_mn_major, columns, depth, b_type, *shared.b);
    ww_wgmma_decoded();
  }
  const unsigned lane = ww_lane(), g = lane / 4, q = lane % 4, row = ww_thread_rank() % 128 / 32 * 16 + g;
  float own[2][64];
  if (from_registers) {
    unsigned registers[4];
    for (size_t r = 0; r < 4; ++r) registers[r] = c.u32(i.operands[1].parts[r]);
    const ww_exchange table = ww_warp_exchange(0xffffffffu, registers, sizeof registers, "wgmma", c.line);
    const unsigned size = bytes_of(a_type);
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned j = 0; j < depth; ++j) {
        const unsigned byte = j * size, member = byte % 16 / 4, r = half + 2 * (byte / 16);
        own[half][j] = wgmma_value(table.data + (4 * g + member) * table.stride + 4 * r + byte % 4, a_type);
      }
  } else {
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned j = 0; j < depth; ++j) own[half][j] = (*shared.a)[size_t{row + 8 * half} * depth + j];
  }
  const auto& sums = i.operands[0].parts;
  for (unsigned j = 0; j < columns / 8; ++j)
    for (unsigned half = 0; half < 2; ++half) {
      double results[2];
      for (unsigned e = 0; e < 2; ++e) {
        const float* b = shared.b->data() + size_t{8 * j + 2 * q + e} * depth;
        double sum = 0;
        for (unsigned x = 0; x < depth; ++x) sum += static_cast<double>(own[half][x]) * b[x];
        results[e] = sign * sum;
      }
      if (halves) {
        const Operand& to = sums[2 * j + half];
        const u64 old = adds ? c.bits(to) : 0;
        u64 packed = 0;
        for (unsigned e = 0; e < 2; ++e)
          packed |= static_cast<u64>(ww::half_bits(
                        static_cast<float>(results[e] + ww::half_value(static_cast<unsigned short>(old >> (16 * e))))))
                    << (16 * e);
        c.set_bits(to, packed, 4);
        continue;
      }
      for (unsigned e = 0; e < 2; ++e) {
        const Operand& to = sums[4 * j + 2 * half + e];
        if (integers) {
          const long long sum = static_cast<long long>(results[e]) + (adds ? static_cast<int>(c.u32(to)) : 0);
          c.set_bits(to, static_cast<unsigned>(sum), 4);
        } else {
          c.set_f32(to, static_cast<float>(results[e] + (adds ? static_cast<double>(c.f32(to)) : 0.0)));
        }
      }
    }
  ww_wgmma_end();
}
inline void wgmma_fence(Context&, const Instruction&) { ww_wgmma_fence(); }
inline void wgmma_commit(Context&, const Instruction&) { ww_wgmma_commit(); }
inline void wgmma_wait(Context& c, const Instruction& i) { ww_wgmma_wait(c.u32(i.operands[0]), c.line); }
}  // namespace ptx
