// <vector_functions.h> for host code: vector_types.h defines make_float4 and the others.
#pragma once
#include <vector_types.h>
