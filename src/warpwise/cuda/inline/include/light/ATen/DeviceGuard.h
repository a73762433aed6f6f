// ATen/ops/*.h include <ATen/DeviceGuard.h> and need nothing of it.
#pragma once
