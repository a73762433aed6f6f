"""The launcher of k21: operands that TMA cannot load for k13 are transposed or copied once."""

from __future__ import annotations

import torch

from warpwise.gemm import simt
from warpwise.gemm.k_major import transposed_words
from warpwise.gemm.operands import sizes
from warpwise.gemm.padding import in_place_or_padded
from warpwise.gemm.simt import K_MAJOR, MN_MAJOR, operand
from warpwise.gemm.time_model import Family, Product, partial_wave
from warpwise.ops.matmul import k13_warp_specialised as k13
from warpwise.ops.matmul.k13_warp_specialised import contiguous_rows, loaded_by_tma


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    a, b = contiguous_rows(a), contiguous_rows(b)
    m, n, k = sizes(a, b)
    pad_a, pad_b = copies(a, b)
    if pad_b and operand(b.t()).load == K_MAJOR:
        b, pad_b = transposed_words(b.t(), side=64), False
    left, right = in_place_or_padded((a.t(), b), (not pad_a, not pad_b))
    a, b = left[:k, :m].t(), right[:k, :n]
    k13.launch(c, a, b, config or configs(a, b)[0])


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits of k13, and at least one operand that must be copied."""
    if not any(copies(a, b)):
        return "takes operands that must be transposed or copied for TMA; k13_warp_specialised reads these in place"
    return simt.limits(a, b)


def b_transposed(product: Product, kind: str) -> int:
    """The elements that are copied: a transposed b, and half of the operands if they are unaligned."""
    padded = (product.m + product.n) * product.k // 2 if "unaligned" in kind else 0
    return padded + (product.n * product.k if kind[1] == "t" else 0)


FAMILY = Family(partial_wave, copied=b_transposed, launches=lambda config, kind: 2 + ("_p" in config))
configs = FAMILY.configs(k13.candidates)


def copies(a: torch.Tensor, b: torch.Tensor) -> tuple[bool, bool]:
    """True for each of a and b that is copied: an MN-major a, and any b, that TMA cannot load in place."""
    return 1 in a.stride() and operand(a).load == MN_MAJOR, not loaded_by_tma(b)
