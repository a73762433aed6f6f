"""The arguments of a matrix multiplication with an epilogue, and the rungs that linear and addmm share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm import cluster_split_k, persistent
from warpwise.gemm.fused import activation_number, k02_warpgroups
from warpwise.gemm.limits import grid_y_of
from warpwise.gemm.operands import HALVES, KERNEL_DTYPES, sizes
from warpwise.operation import Op, Rung, lazy_launch, make_rung

HERE = Path(__file__).parent
CLUSTER_SPLIT_K = cuda.load(HERE / "k03_cluster_split_k.cu")
Optional = torch.Tensor | None


Operands = tuple[torch.Tensor, torch.Tensor]  # a (m, k) and b (k, n), any strides


class Problem(NamedTuple):
    """result = activation(alpha * row_scale * (a b) + bias) + beta * source, all (m, n); ``kept`` is the activation's
    argument. bias: (n,), row_scale: (m,), contiguous; source: strides are 0 where it is broadcast. None: absent, or a
    factor of 1."""

    a: torch.Tensor
    b: torch.Tensor
    result: torch.Tensor
    kept: Optional = None
    bias: Optional = None
    row_scale: Optional = None
    activation: str | None = None
    source: Optional = None
    alpha: float | None = None
    beta: float | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n and k."""
        return sizes(self.a, self.b)

    @property
    def source_strides(self) -> tuple[int, int]:
        return (0, 0) if self.source is None else (self.source.stride(0), self.source.stride(1))


def cluster_split(problem: Problem, config: str | None) -> None:
    """The launch of k03."""
    a, b, result, kept, bias, scale, activation, source, alpha, beta = problem
    chosen, number = config or cluster_split_k.configs(a, b)[0], activation_number(activation)
    kernel, left, right, sizes = cluster_split_k.configured(
        CLUSTER_SPLIT_K, "gemm_cluster_split_k", a, b, result, chosen, a.dtype != torch.float32, number
    )
    kernel(
        *(cuda.strided(left.matrices), left.stride, cuda.strided(right.matrices), right.stride),
        *(cuda.out(result), None if kept is None else cuda.out(kept), bias, scale),
        *(None if source is None else cuda.strided(source), *problem.source_strides),
        *(1.0 if alpha is None else alpha, 1.0 if beta is None else beta, *sizes),
    )


def rungs(
    problem: Callable[..., Problem],
    operands: Callable[..., Operands],
    warpgroup_limits: Callable[..., str | None],
    multiply: Op,
) -> tuple[Rung, ...]:
    """k01, k02 and k03 of an operation: ``problem(outputs, *args)`` and ``operands(*args)`` convert its arguments.

    ``multiply`` is the matrix multiplication that k01 calls.
    """
    triton_pass = lazy_launch(f"{__package__}.k01_triton_pass")

    def of_problem(launch: Callable[..., None]) -> Callable[..., None]:
        return lambda outputs, *args, config=None: launch(problem(outputs, *args), config)

    def of_operands(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: function(*operands(*args))

    return (
        make_rung(HERE, "k01_triton_pass", "matmul's fastest product, then one pass over it",
                  of_problem(lambda given, _: triton_pass(given, multiply)), dtypes=(torch.float32,),
                  limits=of_operands(grid_y_of(16, dimension=0)), strided=True),
        make_rung(HERE, "k02_warpgroups",
                  "Hopper in CUDA: an epilogue of few instructions, overlapped with the next tile's products",
                  of_problem(k02_warpgroups.launch), dtypes=HALVES, limits=warpgroup_limits, strided=True,
                  configs=of_operands(persistent.configs)),
        make_rung(HERE, "k03_cluster_split_k", cluster_split_k.IDEA, of_problem(cluster_split), dtypes=KERNEL_DTYPES,
                  limits=of_operands(cluster_split_k.limits), strided=True,
                  configs=of_operands(cluster_split_k.configs)),
    )  # fmt: skip
