// The tensor map of kernels and of host code: 128 opaque bytes, which cuTensorMapEncodeTiled and cuda.tensor_map write.
#pragma once

typedef struct CUtensorMap_st {
  alignas(64) unsigned long long opaque[16];
} CUtensorMap;
