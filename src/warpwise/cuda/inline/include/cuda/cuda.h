// <cuda.h> for host code: forwards to cuda_runtime.h.
#pragma once
#include <cuda_runtime.h>
