// NVTX for programs on a CPU: ranges and marks have no effect.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE sizeof(nvtxEventAttributes_t)
enum nvtxColorType_t { NVTX_COLOR_UNKNOWN, NVTX_COLOR_ARGB };
enum nvtxMessageType_t { NVTX_MESSAGE_UNKNOWN, NVTX_MESSAGE_TYPE_ASCII };
enum nvtxPayloadType_t { NVTX_PAYLOAD_UNKNOWN, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, NVTX_PAYLOAD_TYPE_INT64 };
typedef uint64_t nvtxRangeId_t;
struct nvtxEventAttributes_t {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved0;
  union {
    uint64_t ullValue;
    int64_t llValue;
    double dValue;
  } payload;
  int32_t messageType;
  union {
    const char* ascii;
  } message;
};
inline int nvtxRangePushA(const char*) { return 0; }
inline int nvtxRangePushEx(const nvtxEventAttributes_t*) { return 0; }
inline int nvtxRangePop() { return 0; }
inline nvtxRangeId_t nvtxRangeStartA(const char*) { return 0; }
inline nvtxRangeId_t nvtxRangeStartEx(const nvtxEventAttributes_t*) { return 0; }
inline void nvtxRangeEnd(nvtxRangeId_t) {}
inline void nvtxMarkA(const char*) {}
inline void nvtxNameOsThreadA(uint32_t, const char*) {}
#define nvtxRangePush nvtxRangePushA
#define nvtxRangeStart nvtxRangeStartA
#define nvtxMark nvtxMarkA
#define nvtxNameOsThread nvtxNameOsThreadA
