// CUB for host code on a CPU.
#pragma once
#include <cub/cub.cuh>
