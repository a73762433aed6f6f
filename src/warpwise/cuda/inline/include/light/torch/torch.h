// Stands in for <torch/torch.h>.
#pragma once
#include <torch/types.h>
