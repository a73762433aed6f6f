"""k21_pretransposed_b: float32 operands in every layout and alignment, transposed or copied for k13's TMA
loads."""

from __future__ import annotations

import pytest
import torch
from tests.ops.test_matmul_padded import LAYOUTS, integers, room_for

from warpwise import operation, ops
from warpwise.gemm.k_major import transposed_words
from warpwise.ops.matmul import k13_warp_specialised as k13
from warpwise.ops.matmul import k21_pretransposed_b as k21

RUNG = operation.get("matmul").rung("k21")


@pytest.mark.parametrize("shift,gap", [(0, 0), (1, 0), (3, 2)])
def test_the_kernel_transposes_from_any_element_on(shift, gap):
    """Emulated, so that an access past either end of the memory would be found."""
    for rows, columns in ((1, 1), (5, 3), (64, 64), (63, 130), (129, 65), (3, 777)):
        lines = integers(rows, columns, False, 0, torch.float32, shift, gap)
        made = transposed_words(lines)
        assert torch.equal(made, lines.t())
        assert made.stride() == (-(-rows // 32) * 32, 1)
        assert k13.loaded_by_tma(made)


def test_what_need_not_be_copied_is_left_to_k13():
    a, b = torch.empty(24, 40), torch.empty(40, 64)
    assert "k13_warp_specialised reads these" in (RUNG.limits(a, b) or "")
    assert "k13_warp_specialised reads these" in (RUNG.limits(torch.empty(40, 24).t(), b) or "")
    assert RUNG.limits(a, torch.empty(64, 40).t()) is None, "b's columns side by side"
    assert RUNG.limits(a, torch.empty(40, 63)) is None, "rows of b"
    assert RUNG.limits(a, torch.empty(40, 65)[:, 1:]) is None, "where b begins"
    assert RUNG.limits(a, torch.empty(40, 126)[:, ::2]) is None, "a copy of b would not be 16-byte aligned either"
    assert RUNG.limits(torch.empty(40, 23).t(), b) is None, "columns of a"
    assert RUNG.limits(a[:, ::2], torch.empty(20, 64)) is not None, "a copied by rows comes word by word, as any"


@pytest.mark.gpu
@pytest.mark.parametrize("transposed", LAYOUTS)
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_every_layout_exactly(transposed, shift):
    for m, n, k in (
        (64, 65, 64),
        (3, 5, 7),
        (129, 259, 130),
        (333, 1023, 777),
        (700, 1281, 200),
        (1, 1, 1),
        (256, 512, 64),
    ):
        a = integers(m, k, transposed[0], 0, torch.float32, shift, device="cuda")
        b = integers(k, n, transposed[1], 1, torch.float32, shift, shift, device="cuda")
        if RUNG.limits(a, b) is not None:
            continue
        ahead = 32 + shift * (n % 4 > 0)  # rows of whole quads begin on 16 bytes, as an output's do
        with room_for(m, n, torch.float32, ahead) as c:
            RUNG.launch(c, a, b)
            assert torch.equal(c, (a.double() @ b.double()).float()), (m, n, k)


@pytest.mark.gpu
@pytest.mark.parametrize("m,n,k", [(333, 1023, 777), (1030, 2052, 900)])
def test_every_configuration_on_the_gpu(m, n, k):
    """The rung's own: whether it splits K, and into how many parts, depends on the size."""
    a = integers(m, k, False, 0, torch.float32, device="cuda")
    b = integers(k, n, True, 1, torch.float32, device="cuda")
    expected = (a.double() @ b.double()).float()
    names = RUNG.configs(a, b)
    assert {name.partition("_p")[0] for name in names} == {tiling.name for tiling in k13.CONFIGS}
    for name in names:
        assert torch.equal(ops.matmul(a, b, rung=f"k21@{name}"), expected), name


@pytest.mark.gpu
@pytest.mark.parametrize("tiling", k13.CONFIGS, ids=lambda tiling: tiling.name)
@pytest.mark.parametrize("m,n,k", [(333, 1023, 777), (1030, 2052, 900)])
def test_any_number_of_splits_on_the_gpu(tiling, m, n, k):
    """By the launcher, which takes every number: three here."""
    a = integers(m, k, False, 0, torch.float32, device="cuda")
    b = integers(k, n, True, 1, torch.float32, device="cuda")
    with room_for(m, n, torch.float32, 32) as c:
        k21.launch(c, a, b, tiling._replace(splits=3).name)
        assert torch.equal(c, (a.double() @ b.double()).float())
