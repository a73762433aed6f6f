// ATen/ops/*.h include <ATen/TracerMode.h> and need nothing of it.
#pragma once
