// Stands in for <pybind11/stl.h>.
#pragma once
#include <warpwise_host/bind.h>
