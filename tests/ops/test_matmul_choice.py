"""What matmul chooses, and how it is asked: kinds of arguments, the shipped tables, words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from warpwise import ops, registry, tuned
from warpwise.ops._tables import described
from warpwise.ops.matmul import chosen
from warpwise.tuned import TORCH, Device, Point, Table

OP = registry.get("matmul")
TABLES = OP.chooser
SHIPPED = sorted(TABLES.folder.glob("*.json"))


def empty(rows: int, columns: int, dtype: torch.dtype = torch.float32, layout: str = "n") -> torch.Tensor:
    """A matrix of a layout, without its memory."""
    if layout == "t":
        return torch.empty(columns, rows, dtype=dtype, device="meta").t()
    return torch.empty(rows, columns, dtype=dtype, device="meta")


def test_layouts_and_alignment_are_kinds():
    a, b = torch.ones(8, 12), torch.ones(12, 16)
    assert described(a, b) == ("nn", {"m": 8, "n": 16, "k": 12})
    assert described(b.t(), a.t()) == ("tt", {"m": 16, "n": 8, "k": 12})
    assert described(a, torch.empty(16, 12).t())[0] == "nt"
    assert described(a, torch.empty(12, 32)[:, :16])[0] == "nn", "rows may have gaps between them"
    assert described(a, torch.empty(12, 33)[:, :16])[0] == "nn unaligned"
    assert described(a, torch.empty(12, 32)[:, ::2])[0] == "nn", "what is copied lies as its copy does"
    assert described(torch.empty(8 * 12 + 1)[1:].view(8, 12), b)[0] == "nn unaligned"
    assert described(torch.empty(8, 13), torch.empty(13, 16))[0] == "nn unaligned"
    assert described(torch.empty(8, 1), torch.empty(1, 16))[0] == "nn unaligned", "rows of four bytes"
    for layout, arrangement in TABLES.arrangements.items():
        arranged = arrangement(a, b)
        assert described(*arranged)[0] == layout
        assert torch.equal(arranged[0], a)
        assert torch.equal(arranged[1], b)


def test_chosen_belongs_to_the_function_and_to_the_folder():
    assert ops.matmul.chosen is chosen
    found = chosen(torch.ones(2, 2), torch.ones(2, 2))
    assert found.name is None
    assert str(found) == "PyTorch (device: on a CPU PyTorch computes unless a rung is named)"
    with pytest.raises(ValueError, match="as many rows as a has columns"):
        chosen(torch.ones(2, 3), torch.ones(2, 3))


def test_a_device_can_be_asked_for_that_is_not_here(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    device = Device("A GPU", "sm_99", 7)
    a, b = torch.empty(1024, 1024), torch.empty(1024, 1024)
    with pytest.raises(LookupError, match="matmul: no table for A GPU has a point near these arguments"):
        chosen(a, b, device=device)
    sizes = dict.fromkeys("mnk", 1024)
    point = Point("float32", "nn", sizes, "k11_async_copies", 1e-4, TORCH, 1.1e-4, 2 * 1024**3)
    Table("matmul", device, (point,)).save(TABLES.users(device))
    found = chosen(a, b, device=device)
    assert (found.rung, found.source, found.rival, found.rival_seconds) == (
        "k11_async_copies",
        "user's table",
        TORCH,
        1.1e-4,
    )
    half = Point("bfloat16", "nn", sizes, TORCH, 1e-4, "", None, 2 * 1024**3)
    Table("matmul", device, (point, half)).save(TABLES.users(device))
    found = chosen(a.half(), b.half(), device=device)
    assert (found.name, found.source) == (None, "user's table, bfloat16"), "float16 goes by its kin"
    tuned.forget()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_tables_name_rungs_that_take_their_points(path: Path):
    table = tuned.load(path)
    assert table is not None
    assert table.device.file == path.name
    for point in table.points:
        assert point.kind.split()[0] in TABLES.arrangements
        assert point.seconds > 0
        assert point.rival_seconds is None or point.seconds <= point.rival_seconds
        dtype = getattr(torch, point.dtype)
        first, second = point.kind.split()[0]
        a = empty(point.sizes["m"], point.sizes["k"], dtype, first)
        b = empty(point.sizes["k"], point.sizes["n"], dtype, second)
        assert point.work == OP.spec.cost(a, b).flops
        for name in (point.winner, point.rival):
            if name in (TORCH, ""):
                continue
            rung = OP.rung(name.partition("@")[0])
            assert rung.dtypes is None or dtype in rung.dtypes, name
            assert rung.limits(a, b) is None, f"{name} at {point.sizes}: {rung.limits(a, b)}"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_tables_choose(path: Path, tmp_path, monkeypatch):
    """At its own points a table is followed; the configuration may depend on the GPU, which is not here."""
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    table = tuned.load(path)
    assert table is not None
    for point in [point for point in table.points if point.winner == TORCH]:
        dtype = getattr(torch, point.dtype)
        first, second = point.kind.split()[0]
        a = empty(point.sizes["m"], point.sizes["k"], dtype, first)
        b = empty(point.sizes["k"], point.sizes["n"], dtype, second)
        assert chosen(a, b, device=table.device).name is None
