// Replaces <ATen/Operators.h>.
#pragma once
#include <torch/types.h>
