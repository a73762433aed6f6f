// The state of a warp: its operations in progress, and the lanes that have taken part in them.
#pragma once
#include <deque>
#include <vector>

#include "report.h"

namespace ww {

// A warp operation (__syncwarp, shuffle, vote, ...). The lanes' values stay valid until every participating lane starts
// another operation; `readers` counts the lanes that have not.
struct WarpOperation {
  uint32_t mask, arrived, readers;
  bool open;
  int line;
  Address pc;  // of the first call
  const char* what;
  unsigned stride;
  std::vector<char> values;
};

// A place that calls a warp operation, and the lanes that have taken part there.
struct WarpSite {
  Address pc = 0;
  uint32_t lanes = 0;
  bool passed = false;
};

// An operation whose mask includes a lane that has exited without executing it; `before`: the last access before it, by
// lane.
struct PassedOperation {
  uint32_t lanes;
  Address before[32];
  Report report;
};

struct Warp {
  uint32_t exists, exited;
  bool woken;           // a lane of the warp has become ready during the pass
  unsigned converging;  // lanes that wait in ww_converged_lanes
  std::vector<WarpSite> sites;
  std::vector<PassedOperation> passed;
  std::deque<WarpOperation> operations;  // a deque: pointers to elements stay valid as it grows
};

}  // namespace ww
