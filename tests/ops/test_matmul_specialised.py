"""k13, whose warps have roles: what it compiles to, what it takes, and on a GPU every tile with every way of feeding."""

from __future__ import annotations

import pytest
import torch

from warpwise import ops, registry
from warpwise.ops.matmul import _specialised
from warpwise.ops.matmul._specialised import ALONG_DEPTH, ALONG_EXTENT, ENGINE, TILINGS, WARP_SPECIALISED

RUNG = "k13_warp_specialised"
LARGEST, SMALLEST = TILINGS[0], TILINGS[-1]


def template(tiling: _specialised.Tiling) -> str:
    return f"{tiling.rows}, {tiling.columns}, {tiling.depth}, {tiling.stages}"


@pytest.mark.parametrize(
    "kernel",
    [
        *(f"matmul_words_and_boxes<{template(tiling)}, {ALONG_DEPTH}>" for tiling in TILINGS),
        f"matmul_words_and_boxes<{template(LARGEST)}, {ALONG_EXTENT}>",
        f"matmul_boxes<{template(LARGEST)}>",
        *(
            f"matmul_words<{template(LARGEST)}, {a}, {b}>"
            for a in (ALONG_EXTENT, ALONG_DEPTH)
            for b in (ALONG_EXTENT, ALONG_DEPTH)
        ),
    ],
)
def test_nothing_spills(kernel):
    compiled = WARP_SPECIALISED[kernel].compile("sm_90")
    assert compiled.registers == 168, "the third of an SM's registers that three warpgroups start with"
    assert (compiled.spill_stores, compiled.stack) == (0, 0)


def test_every_ring_fits_hopper():
    assert max(tiling.shared(8) for tiling in TILINGS) <= 227 * 1024


def test_it_says_what_it_takes():
    op = registry.get("matmul")
    a = torch.empty(3, 5)
    assert op.refusal(op.rung("k13"), a, a.t()) == "runs on cuda, not on cpu"
    assert op.rung("k13").limits(a, a.t()) is None


def test_the_tile_follows_the_size(monkeypatch):
    monkeypatch.setattr(_specialised, "multiprocessors", lambda tensor: 132)

    def first(m, n, k):
        return _specialised.configs(torch.empty(m, k, device="meta"), torch.empty(k, n, device="meta"))[0]

    assert first(4096, 4096, 4096) == "128x256x8_s12"
    assert first(4095, 4095, 4095) == "128x256x16_s8", "whose B comes by words"
    assert first(1024, 1024, 1024).startswith("64x128")
    assert first(256, 256, 256).startswith("64x64")


def test_how_an_operand_comes():
    a = torch.empty(8, 12)
    assert _specialised.feed(a) == (ALONG_DEPTH, 12)
    assert _specialised.feed(a.t()) == (ENGINE, 12)
    assert _specialised.feed(a[:, 1:].t()) == (ALONG_EXTENT, 12), "does not begin on 16 bytes"
    assert _specialised.feed(torch.empty(8, 13).t()) == (ALONG_EXTENT, 13), "lines do not"
    assert _specialised.feed(torch.empty(1, 8).expand(4, 8).t()) == (ALONG_EXTENT, 0), "one line for all"
    assert _specialised.feed(torch.empty(1, 8)) == (ALONG_DEPTH, 8)


@pytest.mark.gpu
@pytest.mark.parametrize("config", [tiling.name for tiling in TILINGS])
@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (300, 520, 100), (129, 67, 515), (257, 260, 8), (1030, 1028, 36)])
def test_tiles_and_layouts(config, m, n, k):
    """Small integers: every partial sum is exact, so results must be equal and not merely close."""
    generator = torch.Generator("cuda").manual_seed(0)

    def integers(rows, columns):
        return torch.randint(-3, 4, (rows, columns), device="cuda", generator=generator).float()

    many = config in (LARGEST.name, SMALLEST.name)  # each way of feeding is a kernel to compile, the same in every tile
    turned = [integers(k, m).t(), integers(m, k + 3)[:, 3:], integers(k, m + 1)[:, 1:].t()] if many else []
    gaps = [integers(n, k).t(), integers(2 * n, 2 * k)[::2, ::2].t()] if many else []
    for a in (integers(m, k), *turned):
        for b in (integers(k, n), integers(k, n + 1)[:, 1:], *gaps):
            product = ops.matmul(a, b, rung=f"{RUNG}@{config}")
            assert torch.equal(product, (a.double() @ b.double()).float()), (a.stride(), b.stride())


@pytest.mark.gpu
def test_infinity_stays_in_its_row_on_the_gpu():
    """Zeros that pad a slice must not meet an infinity."""
    a, b = torch.ones(5, 7, device="cuda"), torch.ones(7, 8, device="cuda")
    a[1, 6] = float("inf")
    product = ops.matmul(a, b, rung=RUNG)
    assert product[1].tolist() == [float("inf")] * 8
    assert product[[0, 2, 3, 4]].tolist() == [[7.0] * 8] * 4
