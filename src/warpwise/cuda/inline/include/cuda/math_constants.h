// Names only: kernels, which use these, are compiled elsewhere.
#pragma once
#include <cuda_runtime.h>
