"""Launchers of grouped_matmul and their limits. None looks at the offsets: they stay on the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.ops import _boxes
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops.batched_matmul import _deferred

HERE = Path(__file__).parent
NAIVE = cuda.load(HERE / "k01_naive.cu")
BACKWARD_DEFERRED = cuda.load(HERE / "k04_backward_deferred_stores.cu")
BACKWARD_NAIVE = cuda.load(HERE / "k01_backward_naive.cu")
SIDE = 2**31 - 1024  # sizes are 32 bits, and rows and columns reach up to a tile past the end
GRID_Y = 65535
MOST_GROUPS = 4095  # with the rows past the last end one more, which a Triton program searches all at once


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> None:
    (rows, k), n = a.shape, b.shape[2]
    kernel = NAIVE[f"grouped_matmul_naive<{cuda.ctype(a.dtype)}>"]
    kernel[(cdiv(n, 32), min(cdiv(rows, 8), GRID_Y)), (32, 8)](
        cuda.strided(a), cuda.strided(b), offsets.contiguous(), cuda.out(c), rows, n, k, b.shape[0],
        *a.stride(), *b.stride(),
    )  # fmt: skip


def tiles_of(a: torch.Tensor) -> tuple[int, int, int, int, int]:
    """Rows, columns and depth of a tile, warps and stages, for the kernels with pointers."""
    return (64, 64, 32, 4, 3) if a.dtype == torch.float32 else (128, 128, 64, 8, 3)


def padded(groups: int) -> int:
    """The power of two that holds every group and the rows past the last end."""
    return 1 << groups.bit_length()


def triton_tiled(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> None:
    from warpwise.ops.grouped_matmul.k02_triton_tiled import grouped_matmul_tiled

    (rows, k), (groups, _, n) = a.shape, b.shape
    block_m, block_n, block_k, warps, stages = tiles_of(a)
    programs = (cdiv(rows, block_m) + groups + 1) * cdiv(n, block_n)
    grouped_matmul_tiled[(programs,)](
        a, b, offsets.contiguous(), c, rows, n, k, groups, *a.stride(), *b.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUPS=padded(groups), num_warps=warps, num_stages=stages,
    )  # fmt: skip


def twice(matrix: torch.Tensor, rows: int, columns: int) -> Any:
    """A descriptor of (rows, rows, columns) whose element (x, y, j) is row x + y: boxes that are read as zero before any x."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    (height, width), (across, _) = matrix.shape, matrix.stride()
    return TensorDescriptor(matrix, [height, height, width], [across, across, 1], [1, rows, columns])


def triton_descriptors(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, config: str | None = None
) -> None:
    from warpwise import triton as wt
    from warpwise.ops.grouped_matmul.k03_triton_descriptors import grouped_matmul_descriptors

    boxes = _boxes.named(config or descriptors_configs(a, b, offsets)[0])
    (rows, k), (groups, _, n) = a.shape, b.shape
    programs = _boxes.programs(boxes, (cdiv(rows, boxes.m) + groups) * cdiv(n, boxes.n), a)
    grouped_matmul_descriptors[(programs,)](
        _boxes.described(a, (boxes.m, boxes.k)), _boxes.described(b, (boxes.k, boxes.n)), offsets.contiguous(),
        wt.out(c), rows, n, k, groups, programs,
        BLOCK_M=boxes.m, BLOCK_N=boxes.n, BLOCK_K=boxes.k, GROUP=8, GROUPS=padded(groups),
        B_TURNED=_boxes.turned(b), num_warps=boxes.warps, num_stages=boxes.stages,
    )  # fmt: skip


def descriptors_configs(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the one that keeps the SMs busiest first if all groups have the same number of rows."""
    groups = b.shape[0]
    return _boxes.ranked(groups, cdiv(a.shape[0], max(1, groups)), b.shape[2], a.shape[1], multiprocessors(a))


def backward_naive(result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> None:
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]
    kernel = BACKWARD_NAIVE[f"grouped_matmul_backward_naive<{cuda.ctype(a.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(k, 8), min(groups, GRID_Y)), (32, 8)](
        cuda.strided(a), cuda.strided(grad_output), offsets.contiguous(), cuda.out(result), rows, n, k, groups,
        *a.stride(), *grad_output.stride(),
    )  # fmt: skip


def backward_triton_tiled(
    result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor
) -> None:
    from warpwise.ops.grouped_matmul.k02_backward_triton_tiled import grouped_matmul_backward_tiled

    (rows, k), n = a.shape, grad_output.shape[1]
    block_m, block_n, block_k, warps, stages = tiles_of(a)
    programs = offsets.shape[0] * cdiv(k, block_m) * cdiv(n, block_n)
    grouped_matmul_backward_tiled[(programs,)](
        a, grad_output, offsets.contiguous(), result, rows, n, k, *a.stride(), *grad_output.stride(),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, num_warps=warps, num_stages=stages,
    )  # fmt: skip


def backward_triton_descriptors(
    result: torch.Tensor,
    a: torch.Tensor,
    grad_output: torch.Tensor,
    offsets: torch.Tensor,
    config: str | None = None,
) -> None:
    from warpwise import triton as wt
    from warpwise.ops.grouped_matmul.k03_backward_triton_descriptors import grouped_matmul_backward_descriptors

    boxes = _boxes.named(config or backward_descriptors_configs(a, grad_output, offsets)[0])
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]
    programs = _boxes.programs(boxes, groups * cdiv(k, boxes.m) * cdiv(n, boxes.n), a)
    grouped_matmul_backward_descriptors[(programs,)](
        twice(a, boxes.k, boxes.m), twice(grad_output, boxes.k, boxes.n), offsets.contiguous(),
        wt.out(_boxes.described(result, (boxes.m, boxes.n // 2))), rows, n, k, groups, programs,
        BLOCK_M=boxes.m, BLOCK_N=boxes.n, BLOCK_K=boxes.k, GROUP=8, num_warps=boxes.warps, num_stages=boxes.stages,
    )  # fmt: skip


def backward_descriptors_configs(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the one that keeps the SMs busiest first."""
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]
    return _boxes.ranked(groups, k, n, cdiv(rows, max(1, groups)), multiprocessors(a))


def backward_deferred_configs(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every cut, the fastest first if all groups have the same number of rows."""
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]
    ranked = _deferred.ranked(groups, k, n, cdiv(rows, max(1, groups)), multiprocessors(a))
    return tuple(name for name in ranked if not _deferred.named(name).at_once)


def backward_deferred_stores(
    result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor, config: str | None = None
) -> None:
    cut = _deferred.named(config or backward_deferred_configs(a, grad_output, offsets)[0])
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]

    def shifted(matrix: torch.Tensor) -> Any:
        """(rows, rows, columns) whose element (x, y, j) is row x + y: read as zero before any x."""
        across = matrix.stride(0)
        return cuda.tensor_map(matrix, (1, 64, 64), layout=((rows, rows, matrix.shape[1]), (across, across, 1)))

    blocks, tiles_m, tiles_n, group = cut.grid(groups, k, n, multiprocessors(a))
    kernel = BACKWARD_DEFERRED[f"grouped_matmul_backward_deferred_stores<{cut.template(a.dtype)}>"]
    kernel[blocks, cut.threads, cut.shared](
        shifted(a), shifted(grad_output), cuda.tensor_map(result, (1, 64, 64)), offsets.contiguous(), groups, rows,
        tiles_m, tiles_n, group,
    )  # fmt: skip


def backward_deferred_limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    return not_hopper(a) or backward_descriptors_limits(a, grad_output, offsets)


def too_large(**named: int) -> str | None:
    for name, size in named.items():
        if size > SIDE:
            return f"takes sizes up to {SIDE}, not {name} = {size}"
    return None


def rows_limit(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    return too_large(rows=a.shape[0], groups=b.shape[0], n=b.shape[2], k=a.shape[1])


def tiles_limit(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    if b.shape[0] > MOST_GROUPS:
        return f"takes up to {MOST_GROUPS} groups, not {b.shape[0]}"
    tiles = (cdiv(a.shape[0], 64) + b.shape[0] + 1) * cdiv(b.shape[2], 64)
    return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}" if tiles >= 2**31 else rows_limit(a, b, offsets)


def descriptors_limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A GPU with a copy engine, and matrices that it can address."""
    unit = 16 // a.element_size()
    if b.shape[2] % unit:
        return f"takes n in multiples of {unit}, so that rows of C begin on 16 bytes, not {b.shape[2]}"
    if _boxes.turned(a):
        return f"takes a with contiguous rows, not strides {tuple(a.stride())}: a box begins at any row, but at whole units of 16 bytes along it"
    boxable = _boxes.engine(a) or _boxes.boxable("a", a) or _boxes.boxable("b", b)
    return boxable or tiles_limit(a, b, offsets)


def backward_rows_limit(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    if a.shape[1] > 8 * GRID_Y:
        return f"takes up to {8 * GRID_Y} columns of a (grid.y is 16 bits), not {a.shape[1]}"
    return too_large(rows=a.shape[0], groups=offsets.shape[0], n=grad_output.shape[1])


def backward_tiles_limit(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    k, n = a.shape[1], grad_output.shape[1]
    tiles = offsets.shape[0] * cdiv(k, 64) * cdiv(n, 64)
    if tiles >= 2**31:
        return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}"
    return too_large(rows=a.shape[0], n=n, k=k)


def backward_descriptors_limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A GPU with a copy engine, matrices that it can address, and rows that are contiguous."""
    for name, factor in (("a", a), ("grad_output", grad_output)):
        if _boxes.turned(factor):
            return f"takes {name} with contiguous rows, not strides {tuple(factor.stride())}"
        if factor.shape[1] % (16 // a.element_size()):
            return f"takes columns of {name} in multiples of {16 // a.element_size()}, not {factor.shape[1]}"
    boxable = _boxes.engine(a) or _boxes.boxable("a", a) or _boxes.boxable("grad_output", grad_output)
    return boxable or backward_tiles_limit(a, grad_output, offsets)
