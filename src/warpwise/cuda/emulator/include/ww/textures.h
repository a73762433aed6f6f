// Fetches from texture objects and accesses to surface objects of one to three dimensions, of arrays, cube maps, and
// linear or pitched memory. Source: CUDA C++ Programming Guide, "Texture Fetching" and "Cubemap Textures". The host
// makes no mipmaps, so the functions with a level of detail fetch from the only level.
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

// The shape of the object must be one of `shapes`, a set of bits 1 << TextureShape.
WW_UNINSTRUMENTED void check_shape(const TextureObject& t, unsigned shapes, int line) {
  if (!(shapes >> t.shape & 1))
    ww_fail(WW_UNDEFINED, "this function does not access objects of this kind of array or memory", line);
}
constexpr unsigned kFlat = 1u << kLinearMemory | 1u << kPitched | 1u << kArray, kLayers = 1u << kLayeredArray;

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
WW_UNINSTRUMENTED T value_of(const TextureObject& t, const double* sums, int line) {
  typedef typename Channels<T>::scalar S;
  if (std::is_floating_point_v<S> != (t.kind == kTexelFloat || t.normalized_float))
    ww_fail(WW_UNDEFINED,
            std::is_floating_point_v<S>
                ? "a fetch of a float from a texture of integers, which returns their bits: fetch an integer, or make "
                  "the texture object with cudaReadModeNormalizedFloat"
                : "a fetch of an integer from a texture that returns floating-point numbers",
            line);
  S result[Channels<T>::count];
  for (int c = 0; c < Channels<T>::count; c++) result[c] = static_cast<S>(sums[c]);
  T value;
  __builtin_memcpy(static_cast<void*>(&value), result, sizeof value);
  return value;
}

// A fetch at coordinates of `dims` dimensions; `layer` of a layered array, or a face of a cube map.
template <class T>
WW_UNINSTRUMENTED T fetch(const TextureObject& t, int dims, float x, float y, float z, int layer, int line) {
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
  if (t.shape >= kLayeredArray) {
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
  return value_of<T>(t, sums, line);
}

// A fetch in the direction (x, y, z) from a cube map, whose six faces are layers.
template <class T>
WW_UNINSTRUMENTED T fetch_cube(unsigned long long handle, float x, float y, float z, int layer, bool layered,
                               int line) {
  const TextureObject& t = object_of(handle, false, line);
  check_shape(t, 1u << (layered ? kLayeredCubemap : kCubemap), line);
  const float ax = fabsf(x), ay = fabsf(y), az = fabsf(z);
  int face;
  float major, s, v;
  if (ax >= ay && ax >= az) {
    face = x >= 0 ? 0 : 1, major = ax, s = x >= 0 ? -z : z, v = -y;
  } else if (ay >= az) {
    face = y >= 0 ? 2 : 3, major = ay, s = x, v = y >= 0 ? z : -z;
  } else {
    face = z >= 0 ? 4 : 5, major = az, s = z >= 0 ? x : -x, v = -y;
  }
  const int layers = static_cast<int>(t.depth) / 6;
  const int chosen = layer < 0 ? 0 : layer >= layers ? layers - 1 : layer;
  return fetch<T>(t, 2, (s / major + 1) / 2, (v / major + 1) / 2, 0, 6 * chosen + face, line);
}

// Channel `c` of the four texels that linear filtering at (x, y) weights, counterclockwise from the one at the left in
// the row of the larger y.
template <class T>
WW_UNINSTRUMENTED T gather(unsigned long long handle, float x, float y, int c, int line) {
  const TextureObject& t = object_of(handle, false, line);
  check_shape(t, 1u << kArray, line);
  if (!t.gathers)
    ww_fail(WW_UNDEFINED, "tex2Dgather needs an array that cudaMallocArray made with cudaArrayTextureGather", line);
  const double at[2] = {t.normalized_coordinates ? static_cast<double>(x) * t.width : static_cast<double>(x),
                        t.normalized_coordinates ? static_cast<double>(y) * t.height : static_cast<double>(y)};
  const size_t size[2] = {t.width, t.height ? t.height : 1};
  long long index[2][2];
  for (int d = 0; d < 2; d++)
    for (int upper = 0; upper < 2; upper++)
      index[d][upper] = addressed(static_cast<long long>(__builtin_floor(at[d] - 0.5)) + upper, size[d], t.address[d],
                                  t.normalized_coordinates);
  double values[4];
  for (int k = 0; k < 4; k++) {
    const long long i[3] = {index[0][k == 1 || k == 2], index[1][k < 2], 0};
    const char* texel = texel_at(t, i, line);
    values[k] = !texel ? static_cast<double>(t.border[c & 3]) : c < t.channels ? channel(t, texel, c) : 0;
  }
  return value_of<T>(t, values, line);
}

template <class T>
WW_UNINSTRUMENTED T fetch(unsigned long long handle, int dims, float x, float y, float z, int layer, unsigned shapes,
                          int line) {
  const TextureObject& t = object_of(handle, false, line);
  check_shape(t, shapes, line);
  return fetch<T>(t, dims, x, y, z, layer, line);
}

template <class T>
WW_UNINSTRUMENTED T fetch_linear(unsigned long long handle, int i, int line) {
  const TextureObject& t = object_of(handle, false, line);
  double sums[4] = {0, 0, 0, 0};
  const long long index[3] = {i < 0 || static_cast<size_t>(i) >= t.width ? -1 : i, 0, 0};
  if (const char* texel = texel_at(t, index, line))  // out of range: 0
    for (int c = 0; c < t.channels; c++) sums[c] = channel(t, texel, c);
  return value_of<T>(t, sums, line);
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

// Each function in both forms of CUDA: T tex1D<T>(object, x) and tex1D(&value, object, x). The parameters come last.
#define WW_TEXTURE(NAME, VALUE, ...)                                             \
  template <class T>                                                             \
  WW_INLINE T NAME(cudaTextureObject_t object, __VA_ARGS__, WW_LINE) {           \
    return VALUE;                                                                \
  }                                                                              \
  template <class T>                                                             \
  WW_INLINE void NAME(T* to, cudaTextureObject_t object, __VA_ARGS__, WW_LINE) { \
    *to = VALUE;                                                                 \
  }
// The function, and its forms for a level of detail and for two derivatives.
#define WW_SAMPLED(NAME, DERIVATIVE, VALUE, ...)   \
  WW_TEXTURE(NAME, VALUE, __VA_ARGS__)             \
  WW_TEXTURE(NAME##Lod, VALUE, __VA_ARGS__, float) \
  WW_TEXTURE(NAME##Grad, VALUE, __VA_ARGS__, DERIVATIVE, DERIVATIVE)
WW_TEXTURE(tex1Dfetch, ww::fetch_linear<T>(object, i, line), int i)
WW_SAMPLED(tex1D, float, ww::fetch<T>(object, 1, x, 0, 0, 0, ww::kFlat, line), float x)
WW_SAMPLED(tex2D, float2, ww::fetch<T>(object, 2, x, y, 0, 0, ww::kFlat, line), float x, float y)
WW_SAMPLED(tex3D, float4, ww::fetch<T>(object, 3, x, y, z, 0, ww::kFlat, line), float x, float y, float z)
WW_SAMPLED(tex1DLayered, float, ww::fetch<T>(object, 1, x, 0, 0, layer, ww::kLayers, line), float x, int layer)
WW_SAMPLED(tex2DLayered, float2, ww::fetch<T>(object, 2, x, y, 0, layer, ww::kLayers, line), float x, float y,
           int layer)
WW_SAMPLED(texCubemap, float4, ww::fetch_cube<T>(object, x, y, z, 0, false, line), float x, float y, float z)
WW_SAMPLED(texCubemapLayered, float4, ww::fetch_cube<T>(object, x, y, z, layer, true, line), float x, float y, float z,
           int layer)
WW_TEXTURE(tex2Dgather, ww::gather<T>(object, x, y, channel, line), float x, float y, int channel = 0)
#undef WW_SAMPLED
#undef WW_TEXTURE

#define WW_AND ,
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
WW_SURFACE(surf1DLayered, int x WW_AND int layer, x WW_AND 0 WW_AND layer)
WW_SURFACE(surf2DLayered, int x WW_AND int y WW_AND int layer, x WW_AND y WW_AND layer)
WW_SURFACE(surfCubemap, int x WW_AND int y WW_AND int face, x WW_AND y WW_AND face)
WW_SURFACE(surfCubemapLayered, int x WW_AND int y WW_AND int face, x WW_AND y WW_AND face)
#undef WW_SURFACE
#undef WW_AND
