"""The ladder of linear_backward, slowest idea first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.cuda.gpu.branch import gradients_aside, takes_gradients
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.device.limits import even_shared, requires_ampere
from warpwise.gemm.operands import flags
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops.linear_backward.spec import DTYPES, SPEC, Gradients, Optional

HERE = Path(__file__).parent
THREADS, ROWS, COLUMNS = 128, 32, 64  # kThreads, kRows, kColumns
SHARED = 4 * 32 * (ROWS + 4 + COLUMNS + 4) * 4  # bytes: kStages stages of kTileK rows of both operands
MAX_SIZE = 2**30  # elements of a matrix
WAVES = 4  # waves of tiles up to which k03 is the default
MAX_ROWS = 512  # rows up to which k03 is the default
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
CHUNKS = 4 * 128 * (ROWS + COLUMNS)  # bytes: kChunk rows of both operands of k03
K_GROUPS = cuda.load(HERE / "k03_k_groups.cu")
ONE_LAUNCH = cuda.load(HERE / "k02_one_launch.cu")
MMA_TILES = (64, 128), (32, 64)  # ROWS and COLUMNS of k04
MMA_STAGES, MMA_LINE = 3, 4 * 32  # kStages; bytes of a row of a k-tile
FEWEST_ROWS = 128  # rows of a split of k04
MMA_WAVES = 5  # waves of blocks of k04, two per SM, up to which it is the default
TENSOR_CORES = cuda.load(HERE / "k04_tensor_cores.cu")
IN_C = function(HERE / "k05_c.c", "linear_backward", "ppppppplll")


def limits(grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: object) -> str | None:
    most = max(tensor.numel() for tensor in (grad_output, input, weight))
    return f"takes matrices of up to {MAX_SIZE} elements, not {most}" if most > MAX_SIZE else None


def limits_of_copies(grad_output: torch.Tensor, *rest: Any) -> str | None:
    return requires_ampere(grad_output) or limits(grad_output, *rest)


def limits_without_relu(*args: Any) -> str | None:
    return limits_of_copies(*args) if args[3] is None else "takes no relu_output"


def thread_per_element(
    outputs: Gradients,
    grad_output: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    relu_output: Optional,
    needs_input: bool,
) -> None:
    (m, k), n = input.shape, weight.shape[0]
    kernel = THREAD_PER_ELEMENT["linear_backward"][cdiv(m * k + n * k + n, THREADS), THREADS]
    kernel(grad_output, relu_output, input, weight, *written(outputs), m, n, k)


def written(outputs: Gradients) -> list[Any]:
    return [None if output is None else cuda.out(output) for output in outputs]


def tiles(input: torch.Tensor, weight: torch.Tensor, needs_input: bool) -> tuple[int, int]:
    """Tiles of the gradient of the weight, and of the input."""
    of_columns = cdiv(input.shape[1], COLUMNS)
    return cdiv(weight.shape[0], ROWS) * of_columns, cdiv(input.shape[0], ROWS) * of_columns if needs_input else 0


def word(size: int, *tensors: torch.Tensor | None) -> int:
    """Bytes of a copy along a dimension of ``size``: 16 if every line begins at a multiple of 16 bytes."""
    aligned = size % 4 == 0 and not any(tensor is not None and tensor.data_ptr() % 16 for tensor in tensors)
    return 16 if aligned else 4


def one_launch(
    outputs: Gradients,
    grad_output: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    relu_output: Optional,
    needs_input: bool,
) -> None:
    (m, k), n = input.shape, weight.shape[0]
    of_weight, of_input = tiles(input, weight, needs_input)
    words = word(n, grad_output), word(k, input, weight, *outputs[:2])
    kernel = ONE_LAUNCH[f"linear_backward<{words[0]}, {words[1]}>"]
    kernel[of_weight + of_input + cdiv(n, 32), THREADS, SHARED](
        grad_output, input, weight, *written(outputs), m, n, k, of_weight, of_input
    )


def k_groups(
    outputs: Gradients,
    grad_output: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    relu_output: Optional,
    needs_input: bool,
) -> None:
    (m, k), n = input.shape, weight.shape[0]
    of_weight, of_input = tiles(input, weight, needs_input)
    vectors = word(n, grad_output, relu_output) == 16, word(k, input, weight, *outputs[:2]) == 16
    kernel = K_GROUPS[f"linear_backward<{flags(*vectors, relu_output is not None)}>"]

    def launch(outputs: Gradients, of_weight: int, of_input: int, of_bias: int) -> None:
        blocks = of_weight + of_input + of_bias
        kernel[blocks, THREADS, even_shared(input, blocks, CHUNKS)](
            grad_output, relu_output, input, weight, *written(outputs), m, n, k, of_weight, of_input
        )

    divided(launch, outputs, (of_weight, of_input, cdiv(n, 32)), (grad_output, relu_output, input))


def divided(launch: Callable[..., None], outputs: Gradients, blocks: tuple[int, int, int], reads: object) -> None:
    """``launch(outputs, *blocks)``, blocks of dw, dx and db, in one launch; or dx alone, then the others aside."""
    of_weight, of_input, of_bias = blocks
    if not (of_input and takes_gradients()):
        launch(outputs, *blocks)
        return
    launch((outputs[0], None, None), 0, of_input, 0)
    gradients_aside(lambda *rest: launch((None, *rest), of_weight, 0, of_bias), outputs[1:], reads, postponed=True)


class MmaGrid(NamedTuple):
    """Tiles of ROWS x COLUMNS, those of dw and of dx, and splits of the rows, of ``share`` rows each."""

    rows: int
    columns: int
    of_weight: int
    of_input: int
    splits: int
    share: int

    @property
    def blocks(self) -> int:
        return self.of_weight * self.splits + self.of_input


def mma_grid(input: torch.Tensor, weight: torch.Tensor, needs_input: bool) -> MmaGrid:
    """The large tile, or the small one if the large one gives fewer blocks than SMs. Up to two blocks of dw per SM."""
    (m, k), n, sms = input.shape, weight.shape[0], sm_count(input)

    def of(rows: int, columns: int) -> MmaGrid:
        across = cdiv(k, columns)
        of_weight, of_input = max(1, cdiv(n, rows) * across), cdiv(m, rows) * across if needs_input else 0
        share = max(FEWEST_ROWS, cdiv(cdiv(m, max(1, 2 * sms // of_weight)), 32) * 32)
        return MmaGrid(rows, columns, of_weight, of_input, max(1, cdiv(m, share)), share)

    large, small = (of(*tile) for tile in MMA_TILES)
    return small if large.blocks < sms else large


def tensor_cores(
    outputs: Gradients,
    grad_output: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    relu_output: Optional,
    needs_input: bool,
) -> None:
    (m, k), n = input.shape, weight.shape[0]
    grid = mma_grid(input, weight, needs_input)
    several, masked = grid.splits > 1, relu_output is not None
    partials = input.new_empty((grid.splits, n * k)) if several else None
    row_parts = input.new_empty((grid.splits, n)) if several else None
    words = word(n, grad_output, relu_output), word(k, input, weight, *outputs[:2])
    kernel = TENSOR_CORES[f"linear_backward<{grid.rows}, {grid.columns}, {words[0]}, {words[1]}, {flags(masked)}>"]
    shared = MMA_STAGES * MMA_LINE * (grid.rows * (1 + masked) + grid.columns)

    def launch(outputs: Gradients, of_weight: int, of_input: int, of_bias: int) -> None:
        blocks, locks = of_weight + of_input, semaphores(input, of_weight) if several and of_weight else None
        kernel[blocks, 2 * grid.rows, even_shared(input, blocks, shared)](
            *(grad_output, relu_output, input, weight, *written(outputs), partials, row_parts, locks),
            *(m, n, k, grid.splits if of_weight else 0, grid.share),
        )

    reads = grad_output, relu_output, input, partials, row_parts
    divided(launch, outputs, (grid.of_weight * grid.splits, grid.of_input, 0), reads)


def in_c(outputs: Gradients, *args: Any) -> None:
    grad_output, input, weight, relu_output, _ = args
    IN_C(grad_output, relu_output, input, weight, *outputs, *grad_output.shape, input.shape[1])


RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per element of the three gradients", thread_per_element,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k02_one_launch", "tiles of both products and sums of columns in one launch", one_launch,
              dtypes=DTYPES, limits=limits_without_relu),
    make_rung(HERE, "k03_k_groups", "8 x 8 sums per lane, the warps divide k; the derivative of relu while loading",
              k_groups, dtypes=DTYPES, limits=limits_of_copies),
    make_rung(HERE, "k04_tensor_cores", "3xTF32 by mma.sync, blocks of dw divide the rows, db from the fragments",
              tensor_cores, dtypes=DTYPES, limits=limits_of_copies),
    Rung("k05_c", "the definition in C", "c", in_c, HERE / "k05_c.c", dtypes=DTYPES, devices=("cpu",)),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k03 for few rows and few tiles, k04 for up to MMA_WAVES waves; PyTorch for larger products."""
    _, input, weight, _, needs_input = args
    sms = sm_count(input)
    if len(input) <= MAX_ROWS and sum(tiles(input, weight, needs_input)) <= WAVES * sms:
        return first_taking(SPEC, RUNGS, args, "k03_k_groups")
    few = mma_grid(input, weight, needs_input).blocks <= 2 * MMA_WAVES * sms
    return first_taking(SPEC, RUNGS, args, "k04_tensor_cores") if few else None
