// Stands in for <torch/all.h>.
#pragma once
#include <torch/types.h>
