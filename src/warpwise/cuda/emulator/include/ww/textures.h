// Textures and surfaces are not emulated. Their types and functions are declared, so that files that use them compile;
// a texture fetch or surface access at run time is an UnsupportedFeature finding.
#pragma once

typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };

namespace ww {
template <class T>
[[noreturn]] WW_INLINE T no_texture(int line) {
  ww_fail(WW_UNSUPPORTED, "textures and surfaces are not emulated; pass the data as a pointer and index it", line);
  __builtin_unreachable();
}
}  // namespace ww

#define WW_TEXTURE(NAME, ...)                                          \
  template <class T>                                                   \
  WW_INLINE T NAME(cudaTextureObject_t, __VA_ARGS__, WW_LINE) {        \
    return ww::no_texture<T>(line);                                    \
  }                                                                    \
  template <class T>                                                   \
  WW_INLINE void NAME(T*, cudaTextureObject_t, __VA_ARGS__, WW_LINE) { \
    ww::no_texture<T>(line);                                           \
  }
WW_TEXTURE(tex1Dfetch, int)
WW_TEXTURE(tex1D, float)
WW_TEXTURE(tex1DLod, float, float)
WW_TEXTURE(tex2D, float, float)
WW_TEXTURE(tex2DLod, float, float, float)
WW_TEXTURE(tex2DLayered, float, float, int)
WW_TEXTURE(tex2Dgather, float, float, int)
WW_TEXTURE(tex3D, float, float, float)
WW_TEXTURE(texCubemap, float, float, float)
WW_TEXTURE(surf1Dread, int)
WW_TEXTURE(surf2Dread, int, int)
WW_TEXTURE(surf3Dread, int, int, int)
#undef WW_TEXTURE
#define WW_SURFACE(NAME, ...)                                                                                         \
  template <class T>                                                                                                  \
  WW_INLINE void NAME(T, cudaSurfaceObject_t, __VA_ARGS__, cudaSurfaceBoundaryMode = cudaBoundaryModeTrap, WW_LINE) { \
    ww::no_texture<T>(line);                                                                                          \
  }
WW_SURFACE(surf1Dwrite, int)
WW_SURFACE(surf2Dwrite, int, int)
WW_SURFACE(surf3Dwrite, int, int, int)
#undef WW_SURFACE
