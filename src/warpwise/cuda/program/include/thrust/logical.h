// Thrust on a CPU: every header of Thrust declares what warpwise/ has.
#pragma once
#include <thrust/warpwise/sorting.h>
