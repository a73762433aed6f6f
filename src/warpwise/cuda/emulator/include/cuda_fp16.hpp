// Included by sources that name the implementation header.
#pragma once
#include "cuda_fp16.h"
