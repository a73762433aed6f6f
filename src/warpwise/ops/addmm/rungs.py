"""The ladder of addmm, slowest idea first."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.gemm.lazy import lazy_launch
from warpwise.gemm.limits import is_hopper
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops.addmm import _shared, k01_thread_per_element, k05_warpgroups
from warpwise.ops.addmm.spec import KERNEL_DTYPES

HERE = Path(__file__).parent

RUNGS = (
    make_rung(
        HERE,
        "k01_thread_per_element",
        "one thread per element, which adds before it stores",
        k01_thread_per_element.launch,
        dtypes=KERNEL_DTYPES,
        limits=_shared.grid_of_elements,
        strided=True,
    ),
    make_rung(
        HERE,
        "k02_triton_pass",
        "matmul's fastest product, then one pass over it",
        lazy_launch(f"{__package__}.k02_triton_pass"),
        dtypes=(torch.float32,),
        limits=_shared.grid_of_pass,
        strided=True,
    ),
    make_rung(
        HERE,
        "k03_triton_tiled",
        "tiles in Triton, added to in registers, any strides",
        lazy_launch(f"{__package__}.k03_triton_tiled"),
        dtypes=KERNEL_DTYPES,
        limits=_shared.grid_of_tiles,
        strided=True,
        configs=_shared.tiled_configs,
    ),
    make_rung(
        HERE,
        "k04_triton_tma",
        "Hopper through Triton: operands by TMA, persistent programs",
        lazy_launch(f"{__package__}.k04_triton_tma"),
        dtypes=(torch.float16, torch.bfloat16),
        limits=_shared.tma_limits,
        strided=True,
        configs=_shared.tma_configs,
    ),
    make_rung(
        HERE,
        "k05_warpgroups",
        "Hopper in CUDA: the input is loaded under the products",
        k05_warpgroups.launch,
        dtypes=(torch.float16, torch.bfloat16),
        limits=k05_warpgroups.limits,
        strided=True,
        devices=("cuda",),
        configs=k05_warpgroups.configs,
    ),
)


def default(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> str | None:
    """The rung for sizes that no table covers: k05 for 2-byte types on Hopper with enough tiles, else PyTorch.

    A row as input needs more tiles, since cuBLASLt adds it in its own epilogue.
    """
    if not is_hopper(a) or a.dtype not in (torch.float16, torch.bfloat16):
        return None
    (m, k), n = a.shape, b.shape[1]
    tiles, full = cdiv(m, 128) * cdiv(n, 256), sm_count(a)
    whole = beta != 0 and input.shape == (m, n)
    enough = 4 * tiles >= 3 * full or m * n * k <= 2**30 if whole else tiles >= 4 * full
    return "k05_warpgroups" if enough and not k05_warpgroups.limits(input, a, b, beta, alpha) else None
