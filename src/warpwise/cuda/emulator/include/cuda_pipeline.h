// cuda_pipeline.h for the emulator: the pipeline primitives and cuda::pipeline.
#pragma once
#include "cuda_pipeline_primitives.h"
#include "cuda/pipeline"
