// Headers that most sources of this runtime include, parsed once as a precompiled header.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "lanes.h"
#include "machine.h"
