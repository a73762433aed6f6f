"""The ladder of linear_backward, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm.limits import requires_ampere
from warpwise.gemm.operands import flags
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops._c import function
from warpwise.ops._defaults import first_taking
from warpwise.ops.linear_backward.spec import DTYPES, Gradients, Optional

HERE = Path(__file__).parent
THREADS, ROWS, COLUMNS = 128, 32, 64  # kThreads, kRows, kColumns
SHARED = 4 * 32 * (ROWS + 4 + COLUMNS + 4) * 4  # bytes: kStages stages of kTileK rows of both operands
MAX_SIZE = 2**30  # elements of a matrix
WAVES = 4  # of tiles, up to which one launch for all gradients is the default
MAX_ROWS = 192  # of the default: from 256 rows on, two launches of matmul take less time
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
CHUNKS = 4 * 128 * (ROWS + COLUMNS)  # bytes: kChunk rows of both operands of k03
K_GROUPS = cuda.load(HERE / "k03_k_groups.cu")
ONE_LAUNCH = cuda.load(HERE / "k02_one_launch.cu")
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
    kernel[of_weight + of_input + cdiv(n, 32), THREADS, CHUNKS](
        grad_output, relu_output, input, weight, *written(outputs), m, n, k, of_weight, of_input
    )


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
    Rung("k05_c", "the definition in C", "c", in_c, HERE / "k05_c.c", dtypes=DTYPES, devices=("cpu",)),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k03 for few rows and few tiles; PyTorch for others, whose products take far longer than launches."""
    _, input, weight, _, needs_input = args
    few = len(input) <= MAX_ROWS and sum(tiles(input, weight, needs_input)) <= WAVES * sm_count(input)
    return first_taking(RUNGS, args, "k03_k_groups") if few else None
