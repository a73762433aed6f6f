// CUDA arrays, texture objects and surface objects, as include/cuda/texture_types.h declares them. An array is device
// memory in row-major order; a kernel reads a texture object by its address (emulator/include/ww/textures.h).
#include <cuda_runtime.h>
#include <include/ww/texture_object.h>

#include <set>

#include "memory.h"

struct cudaArray {
  char* data;
  cudaChannelFormatDesc channels;
  cudaExtent extent;  // height and depth are 0 for a dimension that the array does not have
  unsigned flags;
  int texel_bytes;
  size_t row_bytes, slice_bytes;
};

namespace {
std::set<cudaArray*> arrays;
std::set<ww::TextureObject*> objects;

int texel_bytes(const cudaChannelFormatDesc& channels) {
  return (channels.x + channels.y + channels.z + channels.w) / 8;
}
int channel_count(const cudaChannelFormatDesc& channels) {
  return (channels.x > 0) + (channels.y > 0) + (channels.z > 0) + (channels.w > 0);
}
cudaError_t copy_rows(char* to, size_t to_pitch, const char* from, size_t from_pitch, size_t width, size_t height,
                      enum cudaMemcpyKind kind) {
  return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
bool in_array(const cudaArray* array, size_t x, size_t y, size_t width, size_t height) {
  const size_t rows = array->extent.height ? array->extent.height : 1;
  return x <= array->row_bytes && width <= array->row_bytes - x && y <= rows && height <= rows - y;
}
cudaError_t invalid(const char* function, const void* address, size_t bytes) {
  warpwise_host::report(function, address, bytes);
  return cudaErrorInvalidValue;
}
// The part of an array that a copy of `bytes` bytes from byte x of row y on covers is contiguous.
char* contiguous(const cudaArray* array, size_t x, size_t y, size_t bytes) {
  const size_t rows = array->extent.height ? array->extent.height : 1, start = y * array->row_bytes + x;
  return start + bytes <= array->row_bytes * rows ? array->data + start : nullptr;
}
}  // namespace

extern "C" {
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
cudaError_t ww_cuda_malloc_array(cudaArray_t* array, const cudaChannelFormatDesc* channels, cudaExtent extent,
                                 unsigned flags) {
  *array = nullptr;
  const int bytes = texel_bytes(*channels);
  if (!bytes || !extent.width || bytes > 16) return cudaErrorInvalidValue;
  const bool layered = flags & cudaArrayLayered;
  const auto faces = [&](size_t depth) { return layered ? depth && depth % 6 == 0 : depth == 6; };
  if (flags & cudaArrayCubemap && (extent.width != extent.height || !faces(extent.depth))) return cudaErrorInvalidValue;
  const size_t row = extent.width * bytes, slice = row * (extent.height ? extent.height : 1);
  void* data = nullptr;
  const cudaError_t error = ww_cuda_malloc(&data, slice * (extent.depth ? extent.depth : 1));
  if (error != cudaSuccess) return error;
  *array = new cudaArray{static_cast<char*>(data), *channels, extent, flags, bytes, row, slice};
  arrays.insert(*array);
  return cudaSuccess;
}
cudaError_t cudaFreeArray(cudaArray_t array) {
  if (!array) return cudaSuccess;
  if (!arrays.erase(array)) return invalid("cudaFreeArray", array, 0);
  const cudaError_t error = cudaFree(array->data);
  delete array;
  return error;
}
cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* channels, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
  if (!arrays.count(array)) return cudaErrorInvalidResourceHandle;
  if (channels) *channels = array->channels;
  if (extent) *extent = array->extent;
  if (flags) *flags = array->flags;
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
                                size_t height, enum cudaMemcpyKind kind) {
  if (!in_array(to, x, y, width, height)) return invalid("cudaMemcpy2DToArray", to->data, height * pitch);
  return copy_rows(to->data + y * to->row_bytes + x, to->row_bytes, static_cast<const char*>(from), pitch, width,
                   height, kind);
}
cudaError_t cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                                  size_t height, enum cudaMemcpyKind kind) {
  if (!in_array(from, x, y, width, height)) return invalid("cudaMemcpy2DFromArray", from->data, height * pitch);
  return copy_rows(static_cast<char*>(to), pitch, from->data + y * from->row_bytes + x, from->row_bytes, width, height,
                   kind);
}
cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t bytes,
                              enum cudaMemcpyKind kind) {
  char* at = contiguous(to, x, y, bytes);
  return at ? cudaMemcpy(at, from, bytes, kind) : invalid("cudaMemcpyToArray", to->data, bytes);
}
cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                enum cudaMemcpyKind kind) {
  const char* at = contiguous(from, x, y, bytes);
  return at ? cudaMemcpy(to, at, bytes, kind) : invalid("cudaMemcpyFromArray", from->data, bytes);
}
// The width of the extent is in texels if an array takes part, else in bytes.
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* copy) {
  const cudaArray* sized = copy->srcArray ? copy->srcArray : copy->dstArray;
  const size_t width = copy->extent.width * (sized ? sized->texel_bytes : 1);
  for (size_t slice = 0; slice < copy->extent.depth; slice++) {
    const auto start = [&](const cudaArray* array, const cudaPitchedPtr& memory, const cudaPos& at) {
      if (array)
        return array->data + (at.z + slice) * array->slice_bytes + at.y * array->row_bytes + at.x * array->texel_bytes;
      return static_cast<char*>(memory.ptr) + (at.z + slice) * memory.pitch * memory.ysize + at.y * memory.pitch + at.x;
    };
    const cudaError_t error = copy_rows(start(copy->dstArray, copy->dstPtr, copy->dstPos),
                                        copy->dstArray ? copy->dstArray->row_bytes : copy->dstPtr.pitch,
                                        start(copy->srcArray, copy->srcPtr, copy->srcPos),
                                        copy->srcArray ? copy->srcArray->row_bytes : copy->srcPtr.pitch, width,
                                        copy->extent.height, copy->kind);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* made, cudaExtent extent) {
  *made = {nullptr, 0, extent.width, extent.height};
  return ww_cuda_malloc_pitch(&made->ptr, &made->pitch, extent.width, extent.height * extent.depth);
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  for (size_t slice = 0; slice < extent.depth; slice++) {
    char* start = static_cast<char*>(to.ptr) + slice * to.pitch * to.ysize;
    const cudaError_t error = cudaMemset2D(start, to.pitch, value, extent.width, extent.height);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

static cudaError_t create(unsigned long long* handle, const cudaResourceDesc* resource, const cudaTextureDesc* how) {
  ww::TextureObject made = {};
  made.magic = ww::kTextureMagic;
  cudaChannelFormatDesc channels;
  if (resource->resType == cudaResourceTypeArray) {
    const cudaArray* array = resource->res.array.array;
    if (!arrays.count(const_cast<cudaArray*>(array))) return cudaErrorInvalidResourceHandle;
    channels = array->channels;
    made.data = array->data;
    made.width = array->extent.width, made.height = array->extent.height, made.depth = array->extent.depth;
    made.row_bytes = array->row_bytes, made.slice_bytes = array->slice_bytes;
    const bool layered = array->flags & cudaArrayLayered;
    made.shape = array->flags & cudaArrayCubemap ? (layered ? ww::kLayeredCubemap : ww::kCubemap)
                 : layered                       ? ww::kLayeredArray
                                                 : ww::kArray;
    made.gathers = (array->flags & cudaArrayTextureGather) != 0;
  } else if (resource->resType == cudaResourceTypeLinear) {
    const auto& linear = resource->res.linear;
    channels = linear.desc;
    made.data = static_cast<char*>(linear.devPtr);
    made.row_bytes = linear.sizeInBytes;
    made.width = texel_bytes(channels) ? linear.sizeInBytes / texel_bytes(channels) : 0;
    made.shape = ww::kLinearMemory;
  } else if (resource->resType == cudaResourceTypePitch2D) {
    const auto& rows = resource->res.pitch2D;
    channels = rows.desc;
    made.data = static_cast<char*>(rows.devPtr);
    made.width = rows.width, made.height = rows.height, made.row_bytes = rows.pitchInBytes;
    made.shape = ww::kPitched;
  } else {
    return cudaErrorNotSupported;
  }
  made.texel_bytes = texel_bytes(channels), made.channels = channel_count(channels);
  if (!made.channels || !made.data) return cudaErrorInvalidValue;
  made.channel_bytes = channels.x / 8;
  made.kind = channels.f;
  made.surface = !how;
  if (how) {
    for (int d = 0; d < 3; d++) made.address[d] = how->addressMode[d];
    for (int c = 0; c < 4; c++) made.border[c] = how->borderColor[c];
    made.linear = how->filterMode == cudaFilterModeLinear;
    const bool cube = made.shape == ww::kCubemap || made.shape == ww::kLayeredCubemap;
    if (cube && made.linear && how->seamlessCubemap) return cudaErrorNotSupported;  // filters across edges
    made.normalized_coordinates = how->normalizedCoords != 0 || cube;
    made.normalized_float = how->readMode == cudaReadModeNormalizedFloat;
    const bool real = made.kind == ww::kTexelFloat || made.normalized_float;
    if (made.linear && !real) return cudaErrorInvalidValue;  // linear filtering returns floating-point values
  }
  auto* object = new ww::TextureObject(made);
  objects.insert(object);
  *handle = reinterpret_cast<unsigned long long>(object);
  return cudaSuccess;
}
static cudaError_t destroy(unsigned long long handle) {
  auto* object = reinterpret_cast<ww::TextureObject*>(handle);
  if (!objects.erase(object)) return handle ? cudaErrorInvalidValue : cudaSuccess;
  object->magic = 0;  // the object stays, so that a kernel that uses the handle is found
  return cudaSuccess;
}
cudaError_t cudaCreateTextureObject(cudaTextureObject_t* handle, const cudaResourceDesc* resource,
                                    const cudaTextureDesc* how, const cudaResourceViewDesc* view) {
  static const cudaTextureDesc defaults = {};
  return view ? cudaErrorNotSupported : create(handle, resource, how ? how : &defaults);
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t handle) { return destroy(handle); }
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* handle, const cudaResourceDesc* resource) {
  return resource->resType == cudaResourceTypeArray ? create(handle, resource, nullptr) : cudaErrorInvalidValue;
}
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t handle) { return destroy(handle); }
}
