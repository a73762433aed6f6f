// Stands in for <ATen/Functions.h>.
#pragma once
#include <torch/types.h>
