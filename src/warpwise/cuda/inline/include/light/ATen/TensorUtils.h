// ATen/ops/*.h include <ATen/TensorUtils.h> and need nothing of it.
#pragma once
