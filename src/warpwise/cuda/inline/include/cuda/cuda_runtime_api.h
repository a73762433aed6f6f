// Host code gets all it needs of <cuda_runtime_api.h> from here.
#pragma once
#include <cuda_runtime.h>
