#pragma once
#include "../../include/helper_math.h"
