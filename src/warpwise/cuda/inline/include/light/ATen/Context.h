// ATen/ops/*.h include <ATen/Context.h> and need nothing of it.
#pragma once
