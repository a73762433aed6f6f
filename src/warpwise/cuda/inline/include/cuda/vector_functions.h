// make_float4 and its family come with the types.
#pragma once
#include <vector_types.h>
