// A texture or surface object: cudaCreateTextureObject makes it on the host, and its handle is its address.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace ww {
constexpr uint64_t kTextureMagic = 0x7465787475726521;
enum TexelKind : int { kTexelSigned, kTexelUnsigned, kTexelFloat };  // as cudaChannelFormatKind
enum AddressMode : int { kWrap, kClampToEdge, kMirror, kBorder };    // as cudaTextureAddressMode
enum TextureShape : int { kLinearMemory, kPitched, kArray, kLayeredArray, kCubemap, kLayeredCubemap };

struct TextureObject {
  uint64_t magic;
  char* data;                   // the texel (0, 0, 0)
  size_t width, height, depth;  // in texels; of a layered array, depth is the number of layers, of cube maps of faces
  size_t row_bytes, slice_bytes;
  int texel_bytes, channels, channel_bytes;
  int shape, kind;
  int address[3];
  int linear;  // linear filtering; otherwise the nearest texel
  int normalized_coordinates, normalized_float;
  int gathers;  // of an array with cudaArrayTextureGather
  int surface;  // a surface object, which kernels may write
  float border[4];
};
}  // namespace ww
