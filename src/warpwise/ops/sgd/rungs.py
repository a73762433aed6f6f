"""The ladder of sgd, slowest idea first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import Rung, cdiv, make_rung
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops.sgd.spec import DTYPES, SPEC, Buffers, Tensors

HERE = Path(__file__).parent
THREADS = 256  # kThreads
AT_ONCE = 12  # tensors per launch of k03
PER_BLOCK = 1024  # elements per block of k03
MOST_ELEMENTS = 2**30  # an index has 32 bits, and so has the number of blocks of a launch
LAUNCH_PER_PARAMETER = cuda.load(HERE / "k01_launch_per_parameter.cu")
ONE_LAUNCH = cuda.load(HERE / "k03_one_launch.cu")
IN_C = function(HERE / "k02_c.c", "sgd", "pppfffll")

Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]


def limits(params: Tensors, *rest: Any) -> str | None:
    most = max((tensor.numel() for tensor in params), default=0)
    return f"takes tensors of up to {MOST_ELEMENTS} elements, not {most}" if most > MOST_ELEMENTS else None


def triples(params: Tensors, grads: Tensors, buffers: Buffers) -> Iterator[Triple]:
    """Parameter, gradient and buffer or None, of the parameters that have elements."""
    for number, (param, grad) in enumerate(zip(params, grads, strict=True)):
        if param.numel():
            yield param, grad, buffers[number] if buffers else None


def launch_per_parameter(outputs: object, params: Tensors, grads: Tensors, buffers: Buffers, *settings: Any) -> None:
    for param, grad, buffer in triples(params, grads, buffers):
        kernel = LAUNCH_PER_PARAMETER["sgd"][cdiv(param.numel(), THREADS), THREADS]
        kernel(param, grad, buffer, *settings, param.numel())


def in_c(outputs: object, params: Tensors, grads: Tensors, buffers: Buffers, *settings: Any) -> None:
    for param, grad, buffer in triples(params, grads, buffers):
        IN_C(param, grad, buffer, *settings, param.numel())


def one_launch(outputs: object, params: Tensors, grads: Tensors, buffers: Buffers, *settings: Any) -> None:
    given = list(triples(params, grads, buffers))
    for start in range(0, len(given), AT_ONCE):
        group = given[start : start + AT_ONCE]
        absent = AT_ONCE - len(group)
        lists: list[list[Any]] = [[triple[at] for triple in group] + [None] * absent for at in range(3)]
        sizes = [triple[0].numel() for triple in group]
        firsts = [0]
        for size in sizes:
            firsts.append(firsts[-1] + cdiv(size, PER_BLOCK))
        blocks = firsts.pop()
        kernel = ONE_LAUNCH["sgd"][blocks, THREADS]
        kernel(*lists[0], *lists[1], *lists[2], *sizes, *[0] * absent, *firsts, *[blocks] * absent, *settings)


def triton(outputs: object, params: Tensors, grads: Tensors, buffers: Buffers, *settings: Any) -> None:
    from warpwise.ops.sgd.k04_triton import sgd

    *scalars, nesterov = settings
    given = list(triples(params, grads, buffers))
    for start in range(0, len(given), AT_ONCE):
        ps, gs, bs = zip(*given[start : start + AT_ONCE], strict=True)
        sizes = tuple(p.numel() for p in ps)
        firsts = (0, *accumulate(cdiv(size, PER_BLOCK) for size in sizes))
        kernel = sgd[(firsts[-1],)]
        kernel(ps, gs, bs if buffers else None, sizes, firsts, *scalars, NESTEROV=nesterov, BLOCK=PER_BLOCK)


RUNGS = (
    make_rung(HERE, "k01_launch_per_parameter", "one launch per parameter", launch_per_parameter, dtypes=DTYPES,
              limits=limits),
    Rung("k02_c", "the definition in C", "c", in_c, HERE / "k02_c.c", dtypes=DTYPES, devices=("cpu",)),
    make_rung(HERE, "k03_one_launch", "12 parameters in one launch, 16-byte accesses", one_launch, dtypes=DTYPES,
              limits=limits),
    make_rung(HERE, "k04_triton", "12 parameters in one launch in Triton: tuples of tensors", triton, dtypes=DTYPES,
              limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k03: one launch for 12 parameters."""
    return first_taking(SPEC, RUNGS, args, "k03_one_launch")
