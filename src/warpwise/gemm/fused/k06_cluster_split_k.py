"""The launcher of k06."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm.cluster_split_k import configs, configured, lines
from warpwise.gemm.fused import activation_number
from warpwise.gemm.operands import Shape

CLUSTER_SPLIT_K = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(problem: Any, config: str | None) -> None:
    a, b, result, kept, bias, scale, activation, source, alpha, beta = problem
    shape, tensor_cores = Shape.of(a, b), a.dtype != torch.float32
    left, right = lines(a, 1, tensor_cores), lines(b, 0, tensor_cores)
    chosen, number = config or configs(a, b)[0], activation_number(activation)
    kernel, tiles_m = configured(
        CLUSTER_SPLIT_K, "gemm_cluster_split_k", left, right, result, shape, chosen, tensor_cores, number
    )
    kernel(
        *(cuda.strided(left.matrices), left.stride, cuda.strided(right.matrices), right.stride),
        *(cuda.out(result), None if kept is None else cuda.out(kept), bias, scale),
        *(None if source is None else cuda.strided(source), *problem.source_strides),
        *(1.0 if alpha is None else alpha, 1.0 if beta is None else beta, *shape[1:], tiles_m),
    )
