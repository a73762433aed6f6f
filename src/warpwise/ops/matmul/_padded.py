"""The launcher of k23: factors whose rows the copy engine cannot address, copied into rows that it can."""

from __future__ import annotations

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops.matmul import _bytes, _hopper, _skinny
from warpwise.ops.matmul._shared import HERE, sizes, too_large
from warpwise.ops.matmul._skinny import lying

PADDED = cuda.load(HERE / "k23_padded.cu")
LINES = 4  # of a block of the pass
LINE = 128  # bytes: what copied rows begin on, so that a row of a box is one line of L2
THREADS = 256
FEW_ROWS = 64  # up to which k19 multiplies what was copied


def dense(matrix: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """``matrix`` or its transpose, whichever has its elements side by side along rows, and whether that is the transpose."""
    for turned, way in ((False, matrix), (True, matrix.t())):
        if way.stride(1) == 1 or way.shape[1] == 1:
            return way, turned
    return matrix.contiguous(), False


def pitch(length: int, size: int) -> int:
    """Elements of ``size`` bytes from one line of ``length`` to the next where each begins on LINE bytes."""
    return cdiv(length * size, LINE) * LINE // size


def padded(*factors: torch.Tensor) -> list[torch.Tensor]:
    """Copies of one or two dense matrices of a dtype in lines on LINE bytes, in multiples of 16 lines, by one launch.

    What lies past a matrix's own lines and columns has no value in particular.
    """
    size = factors[0].element_size()
    copies = []
    for lines, length in (factor.shape for factor in factors):
        copies.append(factors[0].new_empty((cdiv(lines, 16) * 16, pitch(length, size))))
    arguments: list[object] = []
    for factor, to in zip(factors, copies, strict=True):
        lines, length = factor.shape
        arguments += [cuda.strided(factor), factor.stride(0), lines, length, cuda.strided(to), to.shape[1] * size // 16]
    if len(factors) == 1:
        arguments += [None, 0, 0, 0, None, 0]
    blocks = [cdiv(factor.shape[0], LINES) for factor in factors]
    threads = min(THREADS, max(cdiv(to.shape[1] * size // 16, 32) * 32 for to in copies))
    PADDED[f"pad_lines<{cuda.ctype(factors[0].dtype)}>"][sum(blocks), threads](*arguments, blocks[0])
    return copies


def readable(*factors: torch.Tensor) -> list[tuple[torch.Tensor, bool]]:
    """What the copy engine reads each factor from, and whether that is its transpose: what it cannot read is copied."""
    found: list[tuple[torch.Tensor, bool]] = []
    left = []
    for at, factor in enumerate(factors):
        lies = lying(factor)
        if lies is None:
            left.append(at)
        found.append(lies or dense(factor))
    if left:
        for at, copy in zip(left, padded(*(found[at][0] for at in left)), strict=True):
            way, turned = found[at]
            found[at] = copy[: way.shape[0], : way.shape[1]], turned
    return found


def along_k(*factors: torch.Tensor) -> list[torch.Tensor]:
    """Matrices of bytes (rows, K) with K along rows that begin on 16 bytes: copied where they need be, and turned."""
    ways = [dense(factor) for factor in factors]
    ready = [turnable(way) if turned else on_16_bytes(way) for way, turned in ways]
    left = [at for at, is_ready in enumerate(ready) if not is_ready]
    copies = dict(zip(left, padded(*(ways[at][0] for at in left)), strict=True)) if left else {}
    found = []
    for at, (way, turned) in enumerate(ways):
        lines, length = way.shape
        if turned:
            found.append(_bytes.turned(copies.get(at, way))[:length, :lines])
        else:
            found.append(copies[at][:lines, :length] if at in copies else way)
    return found


def on_16_bytes(way: torch.Tensor) -> bool:
    """Whether rows begin on 16 bytes where they lie. The copy engine writes 16 bytes at a time, past an end between them too."""
    size = way.element_size()
    return way.data_ptr() % 16 == 0 and (way.stride(0) * size % 16 == 0 and way.stride(0) >= way.shape[1])


def turnable(way: torch.Tensor) -> bool:
    """Whether bytes can be turned where they lie, to rows that begin on 16 bytes."""
    return way.is_contiguous() and way.shape[1] % 4 == 0 and way.shape[0] % 16 == 0 and way.data_ptr() % 4 == 0


def int8_product(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    pairs, columns = cdiv(m, 256), cdiv(n, 256)
    grid = 2 * min(pairs * columns, multiprocessors(a) // 2), 384, _bytes.SHARED
    maps = [cuda.tensor_map(factor, (128, 128)) for factor in along_k(a, b.t())]
    if on_16_bytes(c):
        _bytes.WARPGROUPS["matmul_warpgroups_int8"][grid](*maps, cuda.tensor_map(c, (64, 32)), k, pairs, columns, 8)
    else:
        PADDED["matmul_int8_to_rows"][grid](*maps, cuda.out(c), m, n, k, pairs, columns, 8)


def by_cuts(a: torch.Tensor) -> bool:
    """Whether k20's tiles multiply: few rows are k19's, and bytes k22's."""
    return a.dtype != torch.int8 and a.shape[0] > FEW_ROWS


def product_of_padded(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    if a.dtype == torch.int8:
        return int8_product(c, a, b)
    (read_a, a_across), (read_b, b_by_columns) = readable(a, b)
    if not (by_cuts(a) or config or a_across):  # k19 takes A by rows alone
        return _skinny.skinny(c, read_a, read_b.t() if b_by_columns else read_b)
    m, n, k = sizes(a, b)
    cut, grid, tiles = _hopper.laid(a, b, config)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (read_a, read_b)]
    layout = a.dtype, cut, a_across, not b_by_columns
    if on_16_bytes(c):
        _hopper.DEFERRED[_hopper.deferred_kernel(*layout)][grid](*maps, cuda.tensor_map(c, (64, 64)), k, *tiles)
    else:
        PADDED[_hopper.deferred_kernel(*layout, "matmul_to_rows")][grid](*maps, cuda.out(c), m, n, k, *tiles)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """k20's, where its tiles multiply."""
    return _hopper.deferred_configs(a, b) if by_cuts(a) else ()


def needless(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """Who multiplies a and b where they lie into a C whose rows begin on 16 bytes too, or None if something has to be copied."""
    if a.dtype == torch.int8:
        return None if _bytes.limits(a, b) else "k22_warpgroups_int8"
    lies = all(lying(factor) is not None for factor in (a, b))
    return "k20_deferred_stores" if lies and b.shape[1] * b.element_size() % 16 == 0 else None


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU; any rows and columns, but for those that nothing need be done about."""
    if rung := needless(a, b):
        return f"takes what must be copied to begin on 16 bytes; {rung} takes these where they lie"
    return not_hopper(a) or too_large(a, b)


def pays(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the passes cost less than a kernel without the copy engine does."""
    m, n, k = sizes(a, b)
    return a.is_cuda and m * n * k >= 2**27 and not limits(a, b)
