// Included by sources that name the implementation header.
#pragma once
#include "cuda_bf16.h"
