// Host code gets all it needs of <driver_types.h> from here.
#pragma once
#include <cuda_runtime.h>
