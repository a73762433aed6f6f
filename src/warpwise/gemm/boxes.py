"""The matrices that TMA can address."""

from __future__ import annotations

import torch

from warpwise.device.limits import requires_hopper
from warpwise.gemm.limits import grid_of_tiles, requires_k


def is_transposed(matrices: torch.Tensor) -> bool:
    """True if the last dimension is not the contiguous one."""
    return matrices.stride(-1) != 1


def one_matrix(operand: torch.Tensor) -> torch.Tensor:
    """``operand`` as a batch, of one matrix if the whole batch shares it."""
    matrices = operand if operand.dim() == 3 else operand[None]
    return matrices[:1] if matrices.stride(0) == 0 else matrices


def tma_limit(name: str, matrices: torch.Tensor) -> str | None:
    """The reason why TMA cannot load ``matrices``, or None: strides and address must be multiples of 16 bytes."""
    pitch, step, outer = _strides(matrices)
    unit = 16 // matrices.element_size()
    if step != 1 or pitch <= 0 or any(stride % unit for stride in (*outer, pitch)):
        return (
            f"takes {name} whose rows or columns are contiguous and begin at multiples of {unit} elements, "
            f"not strides {tuple(matrices.stride())}"
        )
    return f"takes {name} whose address is a multiple of 16 bytes" if matrices.data_ptr() % 16 else None


def product_limit(a: torch.Tensor, b: torch.Tensor, names: tuple[str, str, str] = ("a", "b", "n")) -> str | None:
    """The reason why TMA cannot load a (..., M, K) and b (..., K, N) and store C = A B, or None. ``names``: those
    of a, b and n."""
    unit = 16 // a.element_size()
    if b.shape[-1] % unit:
        aligned = "so that rows of C begin at multiples of 16 bytes"
        return f"takes {names[2]} in multiples of {unit}, {aligned}, not {b.shape[-1]}"
    return requires_k(a.shape[-1]) or tma_limit(names[0], a) or tma_limit(names[1], b)


def warpgroup_limit(a: torch.Tensor, b: torch.Tensor, names: tuple[str, str, str] = ("a", "b", "n")) -> str | None:
    """The limit of kernels that load by TMA and multiply by wgmma: a Hopper GPU, and matrices that TMA can address."""
    return requires_hopper(a) or product_limit(a, b, names) or grid_of_tiles(a, b)


def _strides(matrices: torch.Tensor) -> tuple[int, int, list[int]]:
    """The strides of rows, of elements in a row, and of matrices; those of the transposes if they are transposed.

    PyTorch may report any stride for a dimension of size 1; the row stride replaces it.
    """
    pitch, step = matrices.stride()[-2:] if not is_transposed(matrices) else matrices.stride()[:-3:-1]
    outer = zip(matrices.shape[:-2], matrices.stride()[:-2], strict=True)
    return pitch, step, [stride if size > 1 else pitch for size, stride in outer]
