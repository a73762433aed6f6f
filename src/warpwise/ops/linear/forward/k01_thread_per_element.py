"""The launcher of k01."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpwise import cuda
from warpwise.gemm.fused import activation_number
from warpwise.operation import cdiv
from warpwise.ops.linear.forward._shared import Outputs, problem

THREAD_PER_ELEMENT = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(outputs: Outputs, *args: Any) -> None:
    x, w, y, preactivation, bias, scale, activation, residual, *_ = given = problem(outputs, *args)
    (m, n), k = y.shape, x.shape[1]
    kind = activation_number(activation)
    kernel = THREAD_PER_ELEMENT[f"linear_thread_per_element<{cuda.ctype(x.dtype)}, {kind}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](
        *(cuda.strided(x), cuda.strided(w.t()), bias, None if residual is None else cuda.strided(residual), scale),
        *(cuda.out(y), None if preactivation is None else cuda.out(preactivation), m, n, k),
        *(*x.stride(), *w.t().stride(), *given.source_strides),
    )
