// Replaces <torch/extension.h>: the light headers and the light bindings.
#pragma once
#include <torch/types.h>
#include <warpwise_host/bind.h>
