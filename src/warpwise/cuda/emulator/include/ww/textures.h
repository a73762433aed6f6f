// Fetches from texture objects and accesses to surface objects of one to three dimensions, of arrays and of linear or
// pitched memory. Cube maps, mipmaps and gathers are UnsupportedFeature findings. Source: CUDA C++ Programming Guide,
// "Texture Fetching".
#pragma once
#include "texture_object.h"

typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
struct cudaExtent {
  size_t width, height, depth;
};
struct cudaPos {
  size_t x, y, z;
};
struct cudaPitchedPtr {
  void* ptr;
  size_t pitch, xsize, ysize;
};
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };

namespace ww {
template <class T>
[[noreturn]] WW_INLINE T no_texture(int line) {
  ww_fail(WW_UNSUPPORTED, "this kind of texture fetch is not emulated; pass the data as a pointer and index it", line);
  __builtin_unreachable();
}

// The scalar type and the number of channels of T: of float4, float and 4.
template <class T, class = void>
struct Channels {
  typedef T scalar;
  static constexpr int count = 1;
};
template <class T>
struct Channels<T, std::void_t<decltype(T::x)>> {
  typedef std::remove_reference_t<decltype(std::declval<T&>().x)> scalar;
  static constexpr int count = sizeof(T) / sizeof(scalar);
};

WW_UNINSTRUMENTED const TextureObject& object_of(unsigned long long handle, bool surface, int line) {
  const auto* object = reinterpret_cast<const TextureObject*>(handle);
  if (handle < 4096 || handle % alignof(TextureObject) || object->magic != kTextureMagic)
    ww_fail(WW_UNSUPPORTED,
            "not a live texture or surface object: the host code of a whole program or of load_inline makes one by "
            "cudaCreateTextureObject; from Python, pass the data as a pointer and index it",
            line);
  if (surface && !object->surface) ww_fail(WW_UNDEFINED, "a surface function needs a surface object", line);
  if (!surface && object->surface) ww_fail(WW_UNDEFINED, "a texture function needs a texture object", line);
  return *object;
}

// The index in [0, size) that an index outside selects; -1 for the border.
WW_INLINE long long addressed(long long i, size_t size, int mode, bool normalized) {
  const long long n = static_cast<long long>(size);
  if (i >= 0 && i < n) return i;
  if (mode == kBorder) return -1;
  if (mode == kWrap && normalized) return (i % n + n) % n;
  if (mode == kMirror && normalized) {
    const long long m = (i % (2 * n) + 2 * n) % (2 * n);
    return m < n ? m : 2 * n - 1 - m;
  }
  return i < 0 ? 0 : n - 1;
}

// Channel `c` of a texel as a number; of normalised integers a fraction of the largest value.
WW_UNINSTRUMENTED double channel(const TextureObject& t, const char* texel, int c) {
  const char* at = texel + c * t.channel_bytes;
  if (t.kind == kTexelFloat) {
    if (t.channel_bytes == 2) {
      _Float16 half;
      __builtin_memcpy(&half, at, 2);
      return static_cast<double>(static_cast<float>(half));
    }
    float value;
    __builtin_memcpy(&value, at, 4);
    return static_cast<double>(value);
  }
  unsigned bits = 0;
  __builtin_memcpy(&bits, at, t.channel_bytes);
  const int width = 8 * t.channel_bytes;
  if (t.kind == kTexelUnsigned) return t.normalized_float ? bits / static_cast<double>((1ull << width) - 1) : bits;
  const int value = static_cast<int>(bits << (32 - width)) >> (32 - width);
  const double fraction = value / static_cast<double>((1ull << (width - 1)) - 1);
  return !t.normalized_float ? value : fraction < -1 ? -1 : fraction;
}

// The texel at an index of each dimension, -1 for the border; nullptr there.
WW_UNINSTRUMENTED const char* texel_at(const TextureObject& t, const long long* i, int line) {
  if (i[0] < 0 || i[1] < 0 || i[2] < 0) return nullptr;
  const char* at = t.data + i[2] * t.slice_bytes + i[1] * t.row_bytes + i[0] * t.texel_bytes;
  ww_check_access(at, t.texel_bytes, 0, line);
  return at;
}

template <class T>
WW_UNINSTRUMENTED T value_of(const TextureObject& t, const double* sums) {
  typedef typename Channels<T>::scalar S;
  S result[Channels<T>::count];
  for (int c = 0; c < Channels<T>::count; c++) result[c] = static_cast<S>(sums[c]);
  T value;
  __builtin_memcpy(static_cast<void*>(&value), result, sizeof value);
  return value;
}

// A fetch at coordinates of `dims` dimensions; `layer` of a layered array.
template <class T>
WW_UNINSTRUMENTED T fetch(unsigned long long handle, int dims, float x, float y, float z, int layer, int line) {
  const TextureObject& t = object_of(handle, false, line);
  const float given[3] = {x, y, z};
  const size_t size[3] = {t.width, t.height ? t.height : 1, t.depth ? t.depth : 1};
  long long low[3] = {0, 0, 0}, high[3] = {0, 0, 0};
  double weight[3] = {0, 0, 0};
  for (int d = 0; d < dims; d++) {
    const double at = t.normalized_coordinates ? static_cast<double>(given[d]) * size[d] : given[d];
    if (!t.linear) {
      low[d] = addressed(static_cast<long long>(__builtin_floor(at)), size[d], t.address[d], t.normalized_coordinates);
      continue;
    }
    const double base = __builtin_floor(at - 0.5);
    weight[d] = __builtin_rint((at - 0.5 - base) * 256) / 256;  // the hardware's weights have 8 fractional bits
    low[d] = addressed(static_cast<long long>(base), size[d], t.address[d], t.normalized_coordinates);
    high[d] = addressed(static_cast<long long>(base) + 1, size[d], t.address[d], t.normalized_coordinates);
  }
  if (t.shape == kLayeredArray) {
    const int last = static_cast<int>(size[2]) - 1;
    low[2] = high[2] = layer < 0 ? 0 : layer > last ? last : layer;
  }
  double sums[4] = {0, 0, 0, 0};
  for (int corner = 0; corner < (t.linear ? 1 << dims : 1); corner++) {
    double share = 1;
    long long i[3] = {low[0], low[1], low[2]};
    for (int d = 0; t.linear && d < dims; d++) {
      const bool upper = corner >> d & 1;
      share *= upper ? weight[d] : 1 - weight[d];
      if (upper) i[d] = high[d];
    }
    if (share == 0) continue;
    const char* texel = texel_at(t, i, line);
    for (int c = 0; c < 4; c++)
      sums[c] += share * (!texel ? static_cast<double>(t.border[c]) : c < t.channels ? channel(t, texel, c) : 0);
  }
  return value_of<T>(t, sums);
}

template <class T>
WW_UNINSTRUMENTED T fetch_linear(unsigned long long handle, int i, int line) {
  const TextureObject& t = object_of(handle, false, line);
  double sums[4] = {0, 0, 0, 0};
  const long long index[3] = {i < 0 || static_cast<size_t>(i) >= t.width ? -1 : i, 0, 0};
  if (const char* texel = texel_at(t, index, line))  // out of range: 0
    for (int c = 0; c < t.channels; c++) sums[c] = channel(t, texel, c);
  return value_of<T>(t, sums);
}

// The address of `bytes` bytes at byte x of row y of slice z; nullptr outside of the surface, with mode "zero".
WW_UNINSTRUMENTED char* surface_at(unsigned long long handle, int x, int y, int z, unsigned bytes,
                                   cudaSurfaceBoundaryMode mode, int line) {
  const TextureObject& t = object_of(handle, true, line);
  const long long width = static_cast<long long>(t.width * t.texel_bytes), rows = t.height ? t.height : 1;
  const long long slices = t.depth ? t.depth : 1;
  const bool inside = x >= 0 && x + bytes <= width && y >= 0 && y < rows && z >= 0 && z < slices;
  if (!inside && mode == cudaBoundaryModeTrap)
    ww_fail(WW_UNDEFINED, "a surface access is out of bounds: x counts bytes, y and z texels", line);
  if (!inside && mode == cudaBoundaryModeZero) return nullptr;
  const auto clamped = [](long long i, long long last) { return i < 0 ? 0 : i > last ? last : i; };
  return t.data + clamped(z, slices - 1) * t.slice_bytes + clamped(y, rows - 1) * t.row_bytes +
         clamped(x, width - bytes);
}
template <class T>
WW_UNINSTRUMENTED T surface_read(unsigned long long handle, int x, int y, int z, cudaSurfaceBoundaryMode mode,
                                 int line) {
  T value = {};
  if (const char* at = surface_at(handle, x, y, z, sizeof(T), mode, line)) {
    ww_check_access(at, sizeof(T), 0, line);
    __builtin_memcpy(static_cast<void*>(&value), at, sizeof(T));
  }
  return value;
}
template <class T>
WW_UNINSTRUMENTED void surface_write(T value, unsigned long long handle, int x, int y, int z,
                                     cudaSurfaceBoundaryMode mode, int line) {
  char* at = surface_at(handle, x, y, z, sizeof(T), mode, line);
  if (!at) return;
  ww_check_access(at, sizeof(T), 1, line);
  __builtin_memcpy(at, static_cast<const void*>(&value), sizeof(T));
}
}  // namespace ww

// Each function in both forms of CUDA: T tex1D<T>(object, x) and tex1D(&value, object, x).
#define WW_TEXTURE(NAME, PARAMETERS, VALUE)                                     \
  template <class T>                                                            \
  WW_INLINE T NAME(cudaTextureObject_t object, PARAMETERS, WW_LINE) {           \
    return VALUE;                                                               \
  }                                                                             \
  template <class T>                                                            \
  WW_INLINE void NAME(T* to, cudaTextureObject_t object, PARAMETERS, WW_LINE) { \
    *to = VALUE;                                                                \
  }
#define WW_AND ,
WW_TEXTURE(tex1Dfetch, int i, ww::fetch_linear<T>(object, i, line))
WW_TEXTURE(tex1D, float x, ww::fetch<T>(object, 1, x, 0, 0, 0, line))
WW_TEXTURE(tex2D, float x WW_AND float y, ww::fetch<T>(object, 2, x, y, 0, 0, line))
WW_TEXTURE(tex3D, float x WW_AND float y WW_AND float z, ww::fetch<T>(object, 3, x, y, z, 0, line))
WW_TEXTURE(tex1DLayered, float x WW_AND int layer, ww::fetch<T>(object, 1, x, 0, 0, layer, line))
WW_TEXTURE(tex2DLayered, float x WW_AND float y WW_AND int layer, ww::fetch<T>(object, 2, x, y, 0, layer, line))
WW_TEXTURE(tex1DLod, float WW_AND float, ww::no_texture<T>(line))
WW_TEXTURE(tex2DLod, float WW_AND float WW_AND float, ww::no_texture<T>(line))
WW_TEXTURE(tex3DLod, float WW_AND float WW_AND float WW_AND float, ww::no_texture<T>(line))
WW_TEXTURE(tex2Dgather, float WW_AND float WW_AND int, ww::no_texture<T>(line))
WW_TEXTURE(texCubemap, float WW_AND float WW_AND float, ww::no_texture<T>(line))
#undef WW_TEXTURE

#define WW_SURFACE(NAME, PARAMETERS, PLACE)                                                                           \
  template <class T>                                                                                                  \
  WW_INLINE T NAME##read(cudaSurfaceObject_t object, PARAMETERS, cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, \
                         WW_LINE) {                                                                                   \
    return ww::surface_read<T>(object, PLACE, mode, line);                                                            \
  }                                                                                                                   \
  template <class T>                                                                                                  \
  WW_INLINE void NAME##read(T* to, cudaSurfaceObject_t object, PARAMETERS,                                            \
                            cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, WW_LINE) {                           \
    *to = ww::surface_read<T>(object, PLACE, mode, line);                                                             \
  }                                                                                                                   \
  template <class T>                                                                                                  \
  WW_INLINE void NAME##write(T value, cudaSurfaceObject_t object, PARAMETERS,                                         \
                             cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, WW_LINE) {                          \
    ww::surface_write<T>(value, object, PLACE, mode, line);                                                           \
  }
WW_SURFACE(surf1D, int x, x WW_AND 0 WW_AND 0)
WW_SURFACE(surf2D, int x WW_AND int y, x WW_AND y WW_AND 0)
WW_SURFACE(surf3D, int x WW_AND int y WW_AND int z, x WW_AND y WW_AND z)
WW_SURFACE(surf2DLayered, int x WW_AND int y WW_AND int layer, x WW_AND y WW_AND layer)
#undef WW_SURFACE
#undef WW_AND
