// A stub for host code; see cooperative_groups.h.
#pragma once
#include <cooperative_groups.h>
