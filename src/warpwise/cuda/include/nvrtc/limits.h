// Limits of the integers, from libcu++.
#pragma once

#include <cuda/std/climits>
