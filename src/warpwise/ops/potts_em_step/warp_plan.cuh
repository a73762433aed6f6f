// Sizes of k03: which lane has which points and domains.
#pragma once

#include <warpwise/sm80/copy_rows.cuh>
#include <warpwise/sm80/tf32.cuh>

#include "colours.cuh"
#include "fragments.cuh"

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kDomains = 8;
constexpr int kEdges = 8;  // per point, in flight
