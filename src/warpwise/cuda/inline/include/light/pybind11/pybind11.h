// Replaces <pybind11/pybind11.h>.
#pragma once
#include <warpwise_host/bind.h>
