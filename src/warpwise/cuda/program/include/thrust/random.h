// Random numbers of Thrust on a CPU.
#pragma once
#include <thrust/warpwise/random.h>
