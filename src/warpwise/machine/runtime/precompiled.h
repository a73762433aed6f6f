// What most sources of this runtime include: parsed once, by a precompiled header.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "lanes.h"
#include "machine.h"
