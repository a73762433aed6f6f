// assert() of device code, whichever header asks for it.
#include "ww/assert.h"
