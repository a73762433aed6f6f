// Tensor maps as cuda.tensor_map encodes them without a GPU, for the emulator and the interpreter of machine code.
#pragma once
#include <stdint.h>

#include <algorithm>

namespace ww {

// Dimension 0 is the innermost.
struct TensorMap {
  static constexpr uint32_t kMagic = 0x77575450;
  static constexpr uint8_t kTf32 = 11;
  uint32_t magic;
  uint8_t rank, type, swizzle, element_bytes;  // type: of CUtensorMapDataType; swizzle: 0, 32, 64 or 128 bytes
  uint64_t address;
  uint32_t extent[5], box[5];  // in elements
  uint64_t stride[4];          // in bytes, of dimensions 1 to 4
  // Of im2col: box[0] channels of box[1] pixels. Pixels are those of the bounding box from `lower` to the extent plus
  // `upper`, in dimensions 1 to rank - 2, each `step` apart.
  uint8_t is_im2col, step[3];
  int8_t lower[3], upper[3];

  uint64_t box_bytes() const {
    uint64_t bytes = element_bytes;
    for (unsigned d = 0; d < (is_im2col ? 2u : rank); d++) bytes *= box[d];
    return bytes;
  }
};
static_assert(sizeof(TensorMap) <= 128, "a CUtensorMap has 128 bytes");

// The shared-memory address, with the swizzle of `span` bytes, of the 16 bytes at `address` without it.
inline uint64_t swizzled(uint64_t address, unsigned span) {
  const uint64_t units = span / 16;  // 128 bytes: 8 units of 16
  return units ? address ^ ((address >> 7 & (units - 1)) << 4) : address;
}

// float32 rounded to the nearest TF32, ties to even.
inline uint32_t rounded_to_tf32(uint32_t bits) {
  return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
}

// Calls segment(address, offset, bytes) for each row of the box at `at` that is partly inside the tensor at `base`: its
// first byte inside, and the offset of this byte in the box without swizzle.
template <class Segment>
void for_each_segment(const TensorMap& map, const int32_t (&at)[5], uint64_t base, const Segment& segment) {
  const uint64_t size = map.element_bytes;
  const int64_t begin = std::max<int64_t>(0, -int64_t{at[0]}),
                end = std::min<int64_t>(map.box[0], int64_t{map.extent[0]} - at[0]);
  uint64_t rows = 1;
  for (unsigned d = 1; d < map.rank; d++) rows *= map.box[d];
  uint32_t index[5] = {};
  for (uint64_t row = 0; row < rows && begin < end; row++) {
    uint64_t address = base + static_cast<uint64_t>(at[0] + begin) * size;
    bool inside = true;
    for (unsigned d = 1; d < map.rank; d++) {
      const int64_t position = int64_t{at[d]} + index[d];
      inside = inside && position >= 0 && position < map.extent[d];
      address += static_cast<uint64_t>(position) * map.stride[d - 1];
    }
    if (inside)
      segment(address, (row * map.box[0] + static_cast<uint64_t>(begin)) * size,
              static_cast<uint64_t>(end - begin) * size);
    for (unsigned d = 1; d < map.rank && ++index[d] == map.box[d]; d++) index[d] = 0;
  }
}

// The same for a map in im2col mode. `at` is the first base pixel: channel, the spatial dimensions, the image; `offset`
// is added to the spatial coordinates of each base pixel, such as the position in a filter.
template <class Segment>
void for_each_pixel(const TensorMap& map, const int32_t (&at)[5], const uint32_t (&offset)[3], uint64_t base,
                    const Segment& segment) {
  const uint64_t size = map.element_bytes;
  const int64_t begin = std::max<int64_t>(0, -int64_t{at[0]}),
                end = std::min<int64_t>(map.box[0], int64_t{map.extent[0]} - at[0]);
  const unsigned last = map.rank - 1u;  // the dimension of the images
  int64_t pixel[5];
  std::copy(at, at + 5, pixel);
  for (uint64_t row = 0; row < map.box[1] && begin < end; row++) {
    uint64_t address = base + static_cast<uint64_t>(at[0] + begin) * size;
    bool inside = true;
    for (unsigned d = 1; d <= last; d++) {
      const int64_t position = pixel[d] + (d < last ? offset[d - 1] : 0);
      inside = inside && position >= 0 && position < map.extent[d];
      address += static_cast<uint64_t>(position) * map.stride[d - 1];
    }
    if (inside)
      segment(address, (row * map.box[0] + static_cast<uint64_t>(begin)) * size,
              static_cast<uint64_t>(end - begin) * size);
    unsigned d = 1;
    for (; d < last; d++) {  // the next base pixel of the bounding box
      pixel[d] += map.step[d - 1];
      if (pixel[d] < int64_t{map.extent[d]} + map.upper[d - 1]) break;
      pixel[d] = map.lower[d - 1];
    }
    if (d == last) pixel[last]++;
  }
}

}  // namespace ww
