// Products that PyTorch computes, as plans of a call.
#pragma once
#include "values.h"

namespace ww {

// True if no dispatch mode, function transform, tracer or autocast is active. torch.inference_mode excludes autograd.
bool nothing_dispatches();

PyTypeObject* aten_type();
PyTypeObject* in_precision_type();

}  // namespace ww
