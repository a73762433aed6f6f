// Forwards to cuda.h; pointers to functions of the driver are for host code.
#pragma once
#include <cuda.h>
