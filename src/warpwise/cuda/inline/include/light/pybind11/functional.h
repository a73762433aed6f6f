// Replaces <pybind11/functional.h>.
#pragma once
#include <warpwise_host/bind.h>
