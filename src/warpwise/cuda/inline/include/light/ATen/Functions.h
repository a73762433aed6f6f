// Replaces <ATen/Functions.h>.
#pragma once
#include <torch/types.h>
