// The device language of CUDA C++ for a host C++ compiler: qualifiers, built-in variables, vector types, intrinsics,
// math functions, and the entry points of a kernel's library. Included before every kernel source. The headers under
// ww/ are parts of it and are included in this order.
#pragma once
#include "ww/libm.h"

#include <float.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <limits>
#include <new>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "../runtime/abi_extra.h"
#include "ww/basics.h"
#include "ww/qualifiers.h"
#include "ww/vector_types.h"
#include "ww/builtins.h"
#include "ww/sync.h"
#include "ww/arithmetic.h"
#include "ww/math.h"
#include "ww/integer.h"
#include "ww/simd.h"
#include "ww/dpx.h"
#include "ww/convert.h"
#include "ww/memory.h"
#include "ww/clusters.h"
#include "ww/atomics.h"
#include "ww/nv_atomics.h"
#include "ww/float16.h"
#include "ww/textures.h"
#include "ww/shared.h"
#include "ww/asm.h"
#include "ww/assert.h"
#include "ww/entry.h"
