// CUDA's pipeline header: the primitives and cuda::pipeline.
#pragma once
#include "cuda_pipeline_primitives.h"
#include "cuda/pipeline"
