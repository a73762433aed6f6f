"""The ladder of grouped_matmul_backward, slowest idea first, and its launchers. None reads the offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm import batched, boxes
from warpwise.gemm.limits import GRID_Y, requires_hopper, requires_tma, sizes_limit
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops.grouped_matmul.spec import HALVES, KERNEL_DTYPES

HERE = Path(__file__).parent
NAIVE = cuda.load(HERE / "k01_naive.cu")
DEFERRED = cuda.load(HERE / "k04_overlapped_epilogue.cu")


def naive(result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> None:
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]
    kernel = NAIVE[f"grouped_matmul_backward_naive<{cuda.ctype(a.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(k, 8), min(groups, GRID_Y)), (32, 8)](
        cuda.strided(a),
        cuda.strided(grad_output),
        offsets.contiguous(),
        cuda.out(result),
        rows,
        n,
        k,
        groups,
        *a.stride(),
        *grad_output.stride(),
    )


def triton_tiled(result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> None:
    from warpwise.ops.grouped_matmul.backward.k02_triton_tiled import grouped_matmul_backward_tiled

    (rows, k), n = a.shape, grad_output.shape[1]
    block_m, block_n, block_k, warps, stages = (64, 64, 32, 4, 3) if a.dtype == torch.float32 else (128, 128, 64, 8, 3)
    programs = offsets.shape[0] * cdiv(k, block_m) * cdiv(n, block_n)
    grouped_matmul_backward_tiled[(programs,)](
        a,
        grad_output,
        offsets.contiguous(),
        result,
        rows,
        n,
        k,
        *a.stride(),
        *grad_output.stride(),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        num_warps=warps,
        num_stages=stages,
    )


def triton_descriptors(
    result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor, config: str | None = None
) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from warpwise import triton as wt
    from warpwise.ops.grouped_matmul.backward.k03_triton_descriptors import grouped_matmul_backward_descriptors

    def shifted(matrix: torch.Tensor, rows: int, columns: int) -> Any:
        """(rows, rows, columns) whose element (x, y, j) is in row x + y, in boxes that read as zero before row x."""
        (height, width), pitch = matrix.shape, matrix.stride(0)
        return TensorDescriptor(matrix, [height, height, width], [pitch, pitch, 1], [1, rows, columns])

    tile = boxes.named(config or descriptors_configs(a, grad_output, offsets)[0])
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]
    programs = boxes.programs(tile, groups * cdiv(k, tile.m) * cdiv(n, tile.n), a)
    grouped_matmul_backward_descriptors[(programs,)](
        shifted(a, tile.k, tile.m),
        shifted(grad_output, tile.k, tile.n),
        offsets.contiguous(),
        wt.out(boxes.descriptor(result, (tile.m, tile.n // 2))),
        rows,
        n,
        k,
        groups,
        programs,
        BLOCK_M=tile.m,
        BLOCK_N=tile.n,
        BLOCK_K=tile.k,
        GROUP=8,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def descriptors_configs(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the fastest first if all groups have the same number of rows."""
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]
    return boxes.ranked(groups, k, n, cdiv(rows, max(1, groups)), sm_count(a))


def overlapped_epilogue_configs(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every configuration, the fastest first if all groups have the same number of rows."""
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]
    ranked = batched.ranked(groups, k, n, cdiv(rows, max(1, groups)), sm_count(a))
    return tuple(name for name in ranked if not batched.named(name).whole)


def overlapped_epilogue(
    result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor, config: str | None = None
) -> None:
    chosen = batched.named(config or overlapped_epilogue_configs(a, grad_output, offsets)[0])
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]

    def shifted(matrix: torch.Tensor) -> Any:
        """(rows, rows, columns) whose element (x, y, j) is in row x + y: boxes read as zero before row x."""
        pitch = matrix.stride(0)
        return cuda.tensor_map(matrix, (1, 64, 64), layout=((rows, rows, matrix.shape[1]), (pitch, pitch, 1)))

    blocks, tiles_m, tiles_n, group = chosen.grid(groups, k, n, sm_count(a))
    kernel = DEFERRED[f"grouped_matmul_backward_overlapped_epilogue<{chosen.parameters(a.dtype)}>"]
    kernel[blocks, chosen.threads, chosen.shared](
        shifted(a),
        shifted(grad_output),
        cuda.tensor_map(result, (1, 64, 64)),
        offsets.contiguous(),
        groups,
        rows,
        tiles_m,
        tiles_n,
        group,
    )


def naive_limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    if a.shape[1] > 8 * GRID_Y:
        return f"takes up to {8 * GRID_Y} columns of a (grid.y is 16 bits), not {a.shape[1]}"
    return sizes_limit(rows=a.shape[0], groups=offsets.shape[0], n=grad_output.shape[1])


def tiles_limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    k, n = a.shape[1], grad_output.shape[1]
    tiles = offsets.shape[0] * cdiv(k, 64) * cdiv(n, 64)
    if tiles >= 2**31:
        return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}"
    return sizes_limit(rows=a.shape[0], n=n, k=k)


def descriptors_limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A GPU with TMA, matrices that it can address, and contiguous rows, one at least."""
    if a.shape[0] == 0:
        return "takes 1 row or more, not 0"
    for name, operand in (("a", a), ("grad_output", grad_output)):
        if boxes.transposed(operand):
            return f"takes {name} with contiguous rows, not strides {tuple(operand.stride())}"
        if operand.shape[1] % (16 // a.element_size()):
            return f"takes columns of {name} in multiples of {16 // a.element_size()}, not {operand.shape[1]}"
    reason = requires_tma(a) or boxes.tma_limit("a", a) or boxes.tma_limit("grad_output", grad_output)
    return reason or tiles_limits(a, grad_output, offsets)


def overlapped_epilogue_limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    return requires_hopper(a) or descriptors_limits(a, grad_output, offsets)


RUNGS: tuple[Rung, ...] = (
    make_rung(
        HERE,
        "k01_naive",
        "one thread an element, a sum over the group's rows",
        naive,
        dtypes=KERNEL_DTYPES,
        limits=naive_limits,
        strided=True,
    ),
    make_rung(
        HERE,
        "k02_triton_tiled",
        "tiles in Triton, any strides",
        triton_tiled,
        dtypes=KERNEL_DTYPES,
        limits=tiles_limits,
        strided=True,
    ),
    make_rung(
        HERE,
        "k03_triton_descriptors",
        "operands by TMA, boxes clipped where a group begins",
        triton_descriptors,
        dtypes=HALVES,
        limits=descriptors_limits,
        configs=descriptors_configs,
        strided=True,
    ),
    make_rung(
        HERE,
        "k04_overlapped_epilogue",
        "Hopper: the epilogue overlaps the next tile's products",
        overlapped_epilogue,
        dtypes=HALVES,
        limits=overlapped_epilogue_limits,
        configs=overlapped_epilogue_configs,
        devices=("cuda",),
        strided=True,
    ),
)


def default(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """k04 on Hopper and k03 elsewhere where TMA can address 2-byte operands, else k02; PyTorch for float64 and huge sizes."""
    if a.dtype not in KERNEL_DTYPES or tiles_limits(a, grad_output, offsets):
        return None
    if a.dtype not in HALVES or descriptors_limits(a, grad_output, offsets):
        return "k02_triton_tiled"
    return "k04_overlapped_epilogue" if a.is_cuda and not requires_hopper(a) else "k03_triton_descriptors"
