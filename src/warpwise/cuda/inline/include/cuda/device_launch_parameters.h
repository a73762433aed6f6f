// Host code gets all it needs of <device_launch_parameters.h> from here.
#pragma once
#include <cuda_runtime.h>
