// <c10/cuda/CUDAMacros.h> for host code: empty.
#pragma once
