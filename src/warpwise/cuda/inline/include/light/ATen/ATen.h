// Stands in for <ATen/ATen.h>.
#pragma once
#include <torch/types.h>
