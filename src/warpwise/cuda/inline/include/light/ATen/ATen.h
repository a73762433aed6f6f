// Replaces <ATen/ATen.h>.
#pragma once
#include <torch/types.h>
