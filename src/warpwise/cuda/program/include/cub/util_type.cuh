// Forwards to CUB.
#pragma once
#include <cub/cub.cuh>
