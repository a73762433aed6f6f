// Forwards to the assert() of device code.
#include "ww/assert.h"
