// Integers of fixed width, from libcu++.
#pragma once

#include <cuda/std/cstdint>
