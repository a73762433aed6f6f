// Replaces <torch/torch.h>.
#pragma once
#include <torch/types.h>
