// Replaces <ATen/TracerMode.h>, which ATen/ops/*.h include without using it.
#pragma once
