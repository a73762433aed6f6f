// Tensor maps as cuda.tensor_map encodes them without a GPU, for the emulator and the SASS interpreter.
//
// The fields of a tiled map have the offsets in Hopper's 128 bytes at which the SASS of tensormap.replace (ptxas 12 and
// 13) writes them; the remaining bits are 0:
//   byte 0   64 bits: address
//   byte 8   flags: bits 4-6 rank - 1, 7-10 type (elemtype of PTX), 11-12 interleave, 13-14 swizzle mode, 15 fill with
//            NaN, 16 rounding to TF32, 17-18 L2 promotion
//   byte 12  32 bits each: strides of dimensions 1 to 4, / 16; byte 28: 4 upper bits of each
//   byte 32  32 bits each: extents of dimensions 0 to 4, minus 1
//   byte 52  3 bits each: element strides of dimensions 0 to 4, minus 1
//   byte 55  8 bits each: the box in dimensions 0 to 4, minus 1
// The driver of an H200 writes the same 64 bytes. Bytes 64 to 127 differ from the driver's: they hold kMagic and the
// im2col fields. An im2col map does not have the encoding of the driver.
#pragma once
#include <stdint.h>
#include <string.h>

#include <algorithm>

namespace ww {

// A decoded map. Dimension 0 is the innermost.
struct TensorMap {
  static constexpr unsigned kBytes = 128;
  static constexpr uint32_t kMagic = 0x77575450;
  // Values of CUtensorMapDataType. The floating-point types are those from float16 on.
  static constexpr uint8_t kFloat16 = 6, kFloat32 = 7, kFloat64 = 8, kTf32 = 11;
  uint64_t address;
  uint8_t rank, type, swizzle, element_bytes;  // type: of CUtensorMapDataType; swizzle: 0, 32, 64 or 128 bytes
  uint8_t promotion;                           // of CUtensorMapL2promotion
  bool fills_nan;                              // elements outside the tensor are NaN, not 0
  uint64_t extent[5];                          // in elements
  uint32_t box[5];                             // in elements of the tensor
  uint64_t stride[4];                          // in bytes, of dimensions 1 to 4
  uint8_t element_step[5];                     // every element_step-th element of the box is copied; dimension 0: all
  // im2col mode: box[0] channels of box[1] pixels. In dimensions 1 to rank - 2, the base pixels range from `lower` to
  // extent + `upper` and are `step` apart.
  uint8_t is_im2col, step[3];
  int8_t lower[3], upper[3];

  // The number of elements that are copied along dimension d.
  uint32_t count(unsigned d) const {
    return d == 0 || is_im2col ? box[d] : (box[d] + element_step[d] - 1) / element_step[d];
  }
  uint64_t box_bytes() const {
    uint64_t bytes = element_bytes;
    for (unsigned d = 0; d < (is_im2col ? 2u : rank); d++) bytes *= count(d);
    return bytes;
  }
  // Byte `offset` of the box where it is outside the tensor: 0, or of the 16-bit NaN 0x7ff7, an H200's for every type.
  char fill_byte(uint64_t offset) const { return !fills_nan ? 0 : offset % 2 ? 0x7f : static_cast<char>(0xf7); }
};

namespace tensor_map_detail {
// CUtensorMapDataType of each PTX elemtype, where float32.ftz precedes float64. 0xff: types that flush subnormals.
constexpr uint8_t kTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 0xff, 8, 9, 11, 0xff};
constexpr uint8_t kElementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
constexpr unsigned kElemtypeOfTf32 = 11, kElemtypeOfFloat32 = 7;

struct Im2col {
  uint32_t magic;
  uint16_t channels, pixels;
  uint8_t is_im2col, step[3];
  int8_t lower[3], upper[3];
};

template <class T>
T at(const uint8_t* bytes) {
  T value;
  memcpy(&value, bytes, sizeof value);
  return value;
}
template <class T>
void put(uint8_t* bytes, T value) {
  memcpy(bytes, &value, sizeof value);
}
}  // namespace tensor_map_detail

// True if bytes 64 to 127 are those of a map, or zeros, which a kernel can change into a map.
inline bool may_be_map(const void* from) {
  namespace d = tensor_map_detail;
  uint8_t bytes[TensorMap::kBytes];
  memcpy(bytes, from, sizeof bytes);
  const bool is_marked = d::at<uint32_t>(bytes + 64) == TensorMap::kMagic;
  return std::all_of(bytes + 64 + (is_marked ? sizeof(d::Im2col) : 0), bytes + sizeof bytes,
                     [](uint8_t byte) { return byte == 0; });
}

enum class MapError { kNone, kNoMap, kInterleaved, kType };

// Decodes the 128 bytes of a map. kNoMap: the bytes are not a map. kInterleaved, kType: not emulated.
inline MapError decode(const void* from, TensorMap& map) {
  namespace d = tensor_map_detail;
  uint8_t bytes[TensorMap::kBytes];
  memcpy(bytes, from, sizeof bytes);
  const auto inner = d::at<d::Im2col>(bytes + 64);
  if (!may_be_map(from)) return MapError::kNoMap;
  map = {};
  map.address = d::at<uint64_t>(bytes);
  const uint32_t flags = d::at<uint32_t>(bytes + 8), steps = d::at<uint32_t>(bytes + 52) & 0x7fff;
  const unsigned elemtype = flags >> 7 & 15;
  const bool is_tf32 = flags >> 16 & 1;
  map.rank = static_cast<uint8_t>((flags >> 4 & 7) + 1);
  if (!map.address || map.rank > 5 || elemtype >= sizeof d::kTypes) return MapError::kNoMap;
  if (flags >> 11 & 3) return MapError::kInterleaved;
  map.type = is_tf32 && elemtype == d::kElemtypeOfFloat32 ? TensorMap::kTf32 : d::kTypes[elemtype];
  if (map.type == 0xff || is_tf32 != (map.type == TensorMap::kTf32)) return MapError::kType;
  map.element_bytes = d::kElementBytes[map.type];
  const unsigned mode = flags >> 13 & 3;
  map.swizzle = static_cast<uint8_t>(mode ? 16 << mode : 0);
  map.promotion = static_cast<uint8_t>(flags >> 17 & 3);
  map.fills_nan = (flags >> 15 & 1) && map.type >= TensorMap::kFloat16;
  const uint32_t high = d::at<uint32_t>(bytes + 28);
  for (unsigned i = 0; i < 4; i++)
    map.stride[i] = (d::at<uint32_t>(bytes + 12 + 4 * i) | uint64_t{high >> 4 * i & 15} << 32) << 4;
  for (unsigned i = 0; i < 5; i++) {
    map.extent[i] = d::at<uint32_t>(bytes + 32 + 4 * i) + uint64_t{1};
    map.element_step[i] = static_cast<uint8_t>((steps >> 3 * i & 7) + 1);
    map.box[i] = bytes[55 + i] + 1u;
  }
  if (!inner.is_im2col) return MapError::kNone;
  map.is_im2col = 1;
  map.box[0] = inner.channels, map.box[1] = inner.pixels;
  std::copy_n(inner.step, 3, map.step);
  std::copy_n(inner.lower, 3, map.lower);
  std::copy_n(inner.upper, 3, map.upper);
  return MapError::kNone;
}

// Encodes a map as its 128 bytes.
inline void encode(const TensorMap& map, void* to) {
  namespace d = tensor_map_detail;
  uint8_t bytes[TensorMap::kBytes] = {};
  unsigned elemtype = map.type;
  if (map.type == TensorMap::kTf32)
    elemtype = d::kElemtypeOfFloat32;
  else if (map.type >= TensorMap::kFloat64)
    elemtype++;
  const unsigned mode = map.swizzle == 32 ? 1 : map.swizzle == 64 ? 2 : map.swizzle == 128 ? 3 : 0;
  d::put(bytes, map.address);
  d::put(bytes + 8, (map.rank - 1u) << 4 | elemtype << 7 | mode << 13 | uint32_t{map.fills_nan} << 15 |
                        uint32_t{map.type == TensorMap::kTf32} << 16 | uint32_t{map.promotion} << 17);
  uint32_t high = 0, steps = 0;
  for (unsigned i = 0; i < 4; i++) {
    d::put(bytes + 12 + 4 * i, static_cast<uint32_t>(map.stride[i] >> 4));
    high |= static_cast<uint32_t>(map.stride[i] >> 36 & 15) << 4 * i;
  }
  for (unsigned i = 0; i < 5; i++) {
    d::put(bytes + 32 + 4 * i, static_cast<uint32_t>(std::max<uint64_t>(map.extent[i], 1) - 1));
    steps |= (std::max<uint32_t>(map.element_step[i], 1) - 1) << 3 * i;
  }
  d::put(bytes + 28, high);
  d::put(bytes + 52, steps);
  for (unsigned i = 0; i < 5 && !map.is_im2col; i++)
    bytes[55 + i] = static_cast<uint8_t>(std::max<uint32_t>(map.box[i], 1) - 1);
  d::Im2col inner = {};
  inner.magic = TensorMap::kMagic;
  if (map.is_im2col) {
    inner.is_im2col = 1;
    inner.channels = static_cast<uint16_t>(map.box[0]), inner.pixels = static_cast<uint16_t>(map.box[1]);
    std::copy_n(map.step, 3, inner.step);
    std::copy_n(map.lower, 3, inner.lower);
    std::copy_n(map.upper, 3, inner.upper);
  }
  d::put(bytes + 64, inner);
  memcpy(to, bytes, sizeof bytes);
}

// Maps the unswizzled shared-memory address of 16 bytes to their address with a swizzle of `span` bytes.
inline uint64_t swizzled(uint64_t address, unsigned span) {
  const uint64_t units = span / 16;  // 128 bytes: 8 units of 16
  return units ? address ^ ((address >> 7 & (units - 1)) << 4) : address;
}

// float32 rounded to the nearest TF32, ties to even.
inline uint32_t rounded_to_tf32(uint32_t bits) {
  return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
}

// Calls segment(address, offset, bytes) for the part of each row of the box at coordinates `at` that is inside the
// tensor at `base`. `offset` is the unswizzled offset of the part in the box.
template <class Segment>
void for_each_segment(const TensorMap& map, const int32_t (&at)[5], uint64_t base, const Segment& segment) {
  const uint64_t size = map.element_bytes;
  const int64_t begin = std::max<int64_t>(0, -int64_t{at[0]}),
                end = std::min<int64_t>(map.box[0], static_cast<int64_t>(map.extent[0]) - at[0]);
  uint64_t rows = 1;
  for (unsigned d = 1; d < map.rank; d++) rows *= map.count(d);
  uint32_t index[5] = {};
  for (uint64_t row = 0; row < rows && begin < end; row++) {
    uint64_t address = base + static_cast<uint64_t>(at[0] + begin) * size;
    bool inside = true;
    for (unsigned d = 1; d < map.rank; d++) {
      const int64_t position = int64_t{at[d]} + index[d] * map.element_step[d];
      inside = inside && position >= 0 && position < static_cast<int64_t>(map.extent[d]);
      address += static_cast<uint64_t>(position) * map.stride[d - 1];
    }
    if (inside)
      segment(address, (row * map.box[0] + static_cast<uint64_t>(begin)) * size,
              static_cast<uint64_t>(end - begin) * size);
    for (unsigned d = 1; d < map.rank && ++index[d] == map.count(d); d++) index[d] = 0;
  }
}

// The same for a map in im2col mode. `at` is the first base pixel (channel, spatial coordinates, image). `offset`, such
// as the position in a filter, is added to the spatial coordinates of each base pixel.
template <class Segment>
void for_each_pixel(const TensorMap& map, const int32_t (&at)[5], const uint32_t (&offset)[3], uint64_t base,
                    const Segment& segment) {
  const uint64_t size = map.element_bytes;
  const int64_t begin = std::max<int64_t>(0, -int64_t{at[0]}),
                end = std::min<int64_t>(map.box[0], static_cast<int64_t>(map.extent[0]) - at[0]);
  const unsigned last = map.rank - 1u;  // the dimension of the images
  int64_t pixel[5];
  std::copy(at, at + 5, pixel);
  for (uint64_t row = 0; row < map.box[1] && begin < end; row++) {
    uint64_t address = base + static_cast<uint64_t>(at[0] + begin) * size;
    bool inside = true;
    for (unsigned d = 1; d <= last; d++) {
      const int64_t position = pixel[d] + (d < last ? offset[d - 1] : 0);
      inside = inside && position >= 0 && position < static_cast<int64_t>(map.extent[d]);
      address += static_cast<uint64_t>(position) * map.stride[d - 1];
    }
    if (inside)
      segment(address, (row * map.box[0] + static_cast<uint64_t>(begin)) * size,
              static_cast<uint64_t>(end - begin) * size);
    unsigned d = 1;
    for (; d < last; d++) {  // the next base pixel of the bounding box
      pixel[d] += map.step[d - 1];
      if (pixel[d] < static_cast<int64_t>(map.extent[d]) + map.upper[d - 1]) break;
      pixel[d] = map.lower[d - 1];
    }
    if (d == last) pixel[last]++;
  }
}

}  // namespace ww
