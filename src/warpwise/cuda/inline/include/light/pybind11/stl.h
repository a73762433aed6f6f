// Replaces <pybind11/stl.h>.
#pragma once
#include <warpwise_host/bind.h>
