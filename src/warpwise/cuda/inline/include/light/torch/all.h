// Replaces <torch/all.h>.
#pragma once
#include <torch/types.h>
