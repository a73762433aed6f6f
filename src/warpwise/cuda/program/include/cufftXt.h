// Forwards to cuFFT: programs include <cufftXt.h> without its functions of several GPUs, which have no CPU version.
#pragma once
#include <cufft.h>
#include <library_types.h>
