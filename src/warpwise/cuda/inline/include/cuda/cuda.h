// Host code gets all it needs of <cuda.h> from here.
#pragma once
#include <cuda_runtime.h>
