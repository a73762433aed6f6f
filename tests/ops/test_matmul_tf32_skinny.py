"""matmul_tf32 with few rows or few tiles (k03): layouts of B read in place, the choice of tiles, exact results."""

from __future__ import annotations

import pytest
import torch

from warpwise import ops
from warpwise.device.limits import HOPPER_SHARED
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.time_model import Product
from warpwise.ops.matmul_tf32 import k03_skinny as k03
from warpwise.ops.matmul_tf32.k03_skinny import Layout

FROM = [Layout(by_columns, shifted) for by_columns in (False, True) for shifted in (False, True)]
SHAPES = (
    (1, 4096, 4096),
    (16, 4096, 14336),
    (33, 4097, 4095),
    (128, 14336, 4096),
    (512, 512, 16384),
    (1024,) * 3,
    (64,) * 3,
)


@pytest.mark.parametrize("m,n,k", [*SHAPES, (1, 1, 1), (7, 3, 5), (300, 200, 31), (4096, 4096, 512), (16384,) * 3])
def test_configurations_of_any_size(m, n, k):
    found = k03.candidates(Product(m, n, k, 4, 4))
    assert found
    for tiles in found:
        assert GemmConfig.parse(tiles.name) == tiles
        assert max(k03.shared_bytes(tiles, layout) for layout in FROM) + 16 * tiles.stages <= HOPPER_SHARED
        assert 1 <= tiles.cluster_splits * tiles.splits <= max(1, k // 64)


def test_where_lines_of_b_begin():
    b = torch.empty(40, 36)
    assert k03.b_operand(b) == (b, Layout(False, False))
    lines, layout = k03.b_operand(b.t())
    assert (lines.data_ptr(), layout) == (b.data_ptr(), Layout(True, False))
    for odd, expected in (
        (b[:, 1:], Layout(False, True)),
        (b[:, 1:].t(), Layout(True, True)),
        (b[:, :35], Layout(False, False)),
        (torch.empty(7, 9), Layout(False, True)),
        (torch.empty(7, 9).t(), Layout(True, True)),
    ):
        lines, layout = k03.b_operand(odd)
        assert (lines.data_ptr(), layout) == (odd.data_ptr(), expected)
    for hard in (torch.empty(3, 9), b[::2, ::2], b[:1].expand(40, 36)):
        lines, layout = k03.b_operand(hard)
        assert layout == Layout(False, False)
        assert lines.data_ptr() != hard.data_ptr(), "copied"
        assert torch.equal(lines.nan_to_num(), hard.nan_to_num())


@pytest.mark.parametrize("m,k,transposed", [(5, 70, False), (3, 31, True), (1, 1, False), (4, 64, True)])
def test_what_goes_before_shifted_rows(m, k, transposed):
    a = laid(m, k, 0, transposed, 1, 2)
    k_tiles = -(-k // 32)
    whole = torch.nn.functional.pad(a, (0, k_tiles * 32 - k))
    expected = whole.view(m, k_tiles, 8, 4).transpose(2, 3).reshape(m, k_tiles * 32)
    assert torch.equal(k03.permute_k(a), expected)


def laid(rows: int, columns: int, seed: int, transposed: bool, shift: int = 0, gap: int = 0) -> torch.Tensor:
    """Small integers, ``shift`` elements into their storage, ``gap`` elements between lines, which may be columns; NaN
    between."""
    count, length = (columns, rows) if transposed else (rows, columns)
    storage = torch.full((shift + count * (length + gap),), float("nan"))
    matrix = storage[shift:].view(count, length + gap)[:, :length]
    matrix.copy_(torch.randint(-3, 4, matrix.shape, generator=torch.Generator().manual_seed(seed)))
    return matrix.t() if transposed else matrix


def on_gpu(matrix: torch.Tensor) -> torch.Tensor:
    """The same on a GPU, with what lies between its lines."""
    storage = torch.empty(0).set_(matrix.untyped_storage()).cuda()
    return storage.as_strided(matrix.shape, matrix.stride(), matrix.storage_offset())


GPU = [
    "64x8x32_s8_k2_o1",
    "64x16x32_s5_k1_o3",
    "64x64x32_s8_k4_o1",
    "64x128x32_s6_k2_o2",
    "128x128x32_s5_k2_o1",
    "64x256x32_s5_k2_o1",
    "128x256x32_s4_k1_o1",
    "128x32x32_s5_k1_o2",
    "128x256x32_s4_k2_o4",
]


@pytest.mark.gpu
@pytest.mark.parametrize("config", GPU)
@pytest.mark.parametrize("m,n,k", [(256, 256, 256), (300, 516, 404), (1, 4, 16), (129, 67, 35)])
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("shift,gap", [(0, 0), (1, 0), (0, 3), (3, 2)])
def test_every_kind_of_tile(config, m, n, k, transposed, shift, gap):
    a, b = laid(m, k, 0, transposed[0], shift, gap), laid(k, n, 1, transposed[1], shift, gap)
    c = torch.full((m, n), float("nan"), device="cuda")
    k03.launch(c, on_gpu(a), on_gpu(b), config)
    assert torch.equal(c.cpu(), (a.double() @ b.double()).float())


@pytest.mark.gpu
def test_both_operands_are_rounded_to_nearest():
    for side in (64, 63):
        x, one = torch.full((side, side), 1 + 2**-11 + 2**-20, device="cuda"), torch.eye(side, device="cuda")
        for a, b in ((x, one), (one, x), (x, one.t()), (one, x.t())):
            assert (ops.matmul_tf32(a, b, rung="k03") == 1 + 2**-10).all()
