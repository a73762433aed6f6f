// Replaces <ATen/Tensor.h>.
#pragma once
#include <torch/types.h>
