// Tensor maps and entry points of the driver API for programs. A map has the emulator's form (native/include/
// tensor_map.h); its arguments are checked as the driver's documentation states.
#include <cuda.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "program.h"
#include "tensor_map.h"

namespace {
constexpr unsigned kMaxBox = 256, kMaxPixels = 1024, kMaxStep = 8;
constexpr uint64_t kMaxStride = uint64_t{1} << 40, kMaxExtent = uint64_t{1} << 32;

CUresult report(int kind, const char* format, ...) __attribute__((format(printf, 2, 3)));
CUresult report(int kind, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  ww_program_report(kind, text);
  return kind == WW_BAD_TENSOR_MAP ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
}
#define WW_REFUSE(...) return report(WW_BAD_TENSOR_MAP, __VA_ARGS__)
#define WW_NOT_SUPPORTED(...) return report(WW_UNSUPPORTED_MAP, __VA_ARGS__)

// Bytes of an element by CUtensorMapDataType.
constexpr uint8_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

// What tiled and im2col maps share.
struct Recipe {
  const char* function;
  void* map;
  unsigned type, rank;
  void* address;
  const cuuint64_t *dimensions, *strides;
  unsigned interleave, swizzle, promotion, fill;
};

CUresult encode_tensor(const Recipe& of, unsigned lowest_rank, ww::TensorMap& map) {
  const char* const f = of.function;
  if (!of.map || reinterpret_cast<uint64_t>(of.map) % 64)
    WW_REFUSE("%s: tensorMap is %p; expected an address that is a multiple of 64", f, of.map);
  if (of.type > CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B) WW_REFUSE("%s: tensorDataType is %u", f, of.type);
  if (of.rank < lowest_rank || of.rank > 5)
    WW_REFUSE("%s: tensorRank is %u; expected %u to 5", f, of.rank, lowest_rank);
  if (of.interleave > CU_TENSOR_MAP_INTERLEAVE_32B) WW_REFUSE("%s: interleave is %u", f, of.interleave);
  if (of.swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B) WW_REFUSE("%s: swizzle is %u", f, of.swizzle);
  if (of.promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B) WW_REFUSE("%s: l2Promotion is %u", f, of.promotion);
  if (of.fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA) WW_REFUSE("%s: oobFill is %u", f, of.fill);
  if (of.fill && of.type < CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
    WW_REFUSE("%s: oobFill of NaN requires a floating-point type", f);
  if (of.type >= sizeof kBytes) WW_NOT_SUPPORTED("%s: packed data types of 4 and 6 bits are not emulated", f);
  if (of.type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ || of.type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ)
    WW_NOT_SUPPORTED("%s: data types that flush denormals to zero are not emulated", f);
  if (of.interleave) WW_NOT_SUPPORTED("%s: interleaved layouts are not emulated", f);
  if (of.swizzle > CU_TENSOR_MAP_SWIZZLE_128B)
    WW_NOT_SUPPORTED("%s: swizzles with atoms of 32 and 64 bytes are not emulated", f);
  if (!of.address || reinterpret_cast<uint64_t>(of.address) % 16)
    WW_REFUSE("%s: globalAddress is %p; expected a multiple of 16", f, of.address);
  map = {};
  map.rank = uint8_t(of.rank);
  map.type = uint8_t(of.type);
  map.fills_nan = of.fill;
  map.promotion = uint8_t(of.promotion);
  map.swizzle = of.swizzle ? uint8_t(16 << of.swizzle) : 0;
  map.element_bytes = kBytes[of.type];
  map.address = reinterpret_cast<uint64_t>(of.address);
  for (unsigned d = 0; d < of.rank; d++) {
    if (!of.dimensions[d] || of.dimensions[d] > kMaxExtent)
      WW_REFUSE("%s: globalDim[%u] is %llu; expected 1 to 2^32", f, d, (unsigned long long)of.dimensions[d]);
    map.extent[d] = of.dimensions[d];
  }
  for (unsigned d = 0; d + 1 < of.rank; d++) {
    if (of.strides[d] % 16 || of.strides[d] >= kMaxStride)
      WW_REFUSE("%s: globalStrides[%u] is %llu bytes; expected a multiple of 16 below 2^40", f, d,
                (unsigned long long)of.strides[d]);
    map.stride[d] = of.strides[d];
  }
  return CUDA_SUCCESS;
}

// `name`: of the argument with the extent of the innermost dimension.
CUresult check_inner(const char* f, const char* name, const ww::TensorMap& map) {
  const unsigned bytes = map.box[0] * map.element_bytes;
  if (!map.box[0] || map.box[0] > kMaxBox) WW_REFUSE("%s: %s is %u; expected 1 to %u", f, name, map.box[0], kMaxBox);
  if (bytes % 16)
    WW_REFUSE("%s: %s is %u elements, %u bytes; expected a multiple of 16 bytes", f, name, map.box[0], bytes);
  if (map.swizzle && bytes > map.swizzle)
    WW_REFUSE("%s: %s is %u elements, %u bytes; a swizzle of %u bytes allows %u", f, name, map.box[0], bytes,
              map.swizzle, map.swizzle);
  return CUDA_SUCCESS;
}
}  // namespace

extern "C" {
CUresult cuTensorMapEncodeTiled(CUtensorMap* into, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dimensions, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const char* const f = "cuTensorMapEncodeTiled";
  ww::TensorMap map;
  const Recipe recipe = {f, into, type, rank, address, dimensions, strides, interleave, swizzle, promotion, fill};
  if (const CUresult error = encode_tensor(recipe, 1, map)) return error;
  for (unsigned d = 0; d < rank; d++) {
    map.box[d] = box[d];
    if (!box[d] || box[d] > kMaxBox) WW_REFUSE("%s: boxDim[%u] is %u; expected 1 to %u", f, d, box[d], kMaxBox);
    if (!steps[d] || steps[d] > kMaxStep)
      WW_REFUSE("%s: elementStrides[%u] is %u; expected 1 to %u", f, d, steps[d], kMaxStep);
    map.element_step[d] = uint8_t(d ? steps[d] : 1);  // without interleave, elementStrides[0] is ignored
  }
  if (const CUresult error = check_inner(f, "boxDim[0]", map)) return error;
  ww::encode(map, into);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* into, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* dimensions, const cuuint64_t* strides, const int* lower,
                                 const int* upper, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const char* const f = "cuTensorMapEncodeIm2col";
  ww::TensorMap map;
  const Recipe recipe = {f, into, type, rank, address, dimensions, strides, interleave, swizzle, promotion, fill};
  if (const CUresult error = encode_tensor(recipe, 3, map)) return error;
  map.is_im2col = 1;
  map.box[0] = channels;
  map.box[1] = pixels;
  if (const CUresult error = check_inner(f, "channelsPerPixel", map)) return error;
  if (!pixels || pixels > kMaxPixels) WW_REFUSE("%s: pixelsPerColumn is %u; expected 1 to %u", f, pixels, kMaxPixels);
  const int reach = rank == 5 ? 16 : 128;  // the map holds 8 bits of a corner; the driver takes 16 in 3 dimensions
  for (unsigned d = 0; d + 2 < rank; d++) {
    for (const int corner : {lower[d], upper[d]})
      if (corner < -reach || corner >= reach) {
        if (rank == 3 && corner >= -(1 << 15) && corner < 1 << 15)
          WW_NOT_SUPPORTED("%s: a corner of the pixel box at %d; only -128 to 127 are emulated", f, corner);
        WW_REFUSE("%s: a corner of the pixel box in dimension %u is %d; expected %d to %d", f, d, corner, -reach,
                  reach - 1);
      }
    if (!steps[d + 1] || steps[d + 1] > kMaxStep)
      WW_REFUSE("%s: elementStrides[%u] is %u; expected 1 to %u", f, d + 1, steps[d + 1], kMaxStep);
    map.lower[d] = int8_t(lower[d]);
    map.upper[d] = int8_t(upper[d]);
    map.step[d] = uint8_t(steps[d + 1]);
  }
  ww::encode(map, into);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* into, void* address) {
  ww::TensorMap map;
  if (ww::decode(into, map) != ww::MapError::kNone)
    WW_REFUSE("cuTensorMapReplaceAddress: tensorMap is not a tensor map");
  if (!address || reinterpret_cast<uint64_t>(address) % 16)
    WW_REFUSE("cuTensorMapReplaceAddress: globalAddress is %p; expected a multiple of 16", address);
  map.address = reinterpret_cast<uint64_t>(address);
  ww::encode(map, into);
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(cudaError_t(error));
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  switch (error) {
#define WW_ERROR(code, value) \
  case code:                  \
    *name = #code;            \
    return CUDA_SUCCESS;
    WW_DRIVER_ERRORS
#undef WW_ERROR
  }
  *name = "CUDA_ERROR_UNKNOWN";
  return CUDA_SUCCESS;
}

void* ww_cuda_entry_point(const char* symbol) {
#define WW_ENTRY_POINT(NAME)              \
  {                                       \
    #NAME, reinterpret_cast<void*>(&NAME) \
  }
  static const struct {
    const char* name;
    void* function;
  } known[] = {WW_ENTRY_POINT(cuInit),
               WW_ENTRY_POINT(cuDriverGetVersion),
               WW_ENTRY_POINT(cuDeviceGet),
               WW_ENTRY_POINT(cuDeviceGetCount),
               WW_ENTRY_POINT(cuGetErrorName),
               WW_ENTRY_POINT(cuGetErrorString),
               WW_ENTRY_POINT(cuGetProcAddress),
               WW_ENTRY_POINT(cuTensorMapEncodeTiled),
               WW_ENTRY_POINT(cuTensorMapEncodeIm2col),
               WW_ENTRY_POINT(cuTensorMapReplaceAddress)};
  for (const auto& each : known)
    if (!strcmp(each.name, symbol)) return each.function;
  return nullptr;
}
}
