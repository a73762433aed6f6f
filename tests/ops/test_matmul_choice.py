"""What matmul chooses: kinds of arguments, the shipped tables, the text of a choice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from warpwise import operation, tuned
from warpwise.device import limits
from warpwise.device.target import assume_device, capability, sm_count
from warpwise.gemm.model import Host
from warpwise.gemm.operands import describe
from warpwise.operation import Choice, Device
from warpwise.tuned import TORCH, Table, TunedPoint

OP = operation.get("matmul")
TABLES = OP.tables
SHIPPED = sorted(TABLES.folder.glob("*.json"))


def empty(rows: int, columns: int, dtype: torch.dtype = torch.float32, layout: str = "n") -> torch.Tensor:
    """A matrix of a layout, without its memory."""
    if layout == "t":
        return torch.empty(columns, rows, dtype=dtype, device="meta").t()
    return torch.empty(rows, columns, dtype=dtype, device="meta")


def test_layouts_and_alignment_are_kinds():
    a, b = torch.ones(8, 12), torch.ones(12, 16)
    assert describe(a, b) == ("nn", {"m": 8, "n": 16, "k": 12})
    assert describe(b.t(), a.t()) == ("tt", {"m": 16, "n": 8, "k": 12})
    assert describe(a, torch.empty(16, 12).t())[0] == "nt"
    assert describe(a, torch.empty(12, 32)[:, :16])[0] == "nn", "rows may have gaps between them"
    assert describe(a, torch.empty(12, 33)[:, :16])[0] == "nn unaligned"
    assert describe(a, torch.empty(12, 32)[:, ::2])[0] == "nn", "what is copied lies as its copy does"
    assert describe(torch.empty(8 * 12 + 1)[1:].view(8, 12), b)[0] == "nn unaligned"
    assert describe(torch.empty(8, 13), torch.empty(13, 16))[0] == "nn unaligned"
    assert describe(torch.empty(8, 1), torch.empty(1, 16))[0] == "nn unaligned", "rows of four bytes"
    for layout, arrangement in TABLES.arrangements.items():
        arranged = arrangement(a, b)
        assert describe(*arranged)[0] == layout
        assert torch.equal(arranged[0], a)
        assert torch.equal(arranged[1], b)


def test_chosen_on_a_cpu():
    found = operation.chosen(OP, torch.ones(2, 2), torch.ones(2, 2))
    assert found.name is None
    assert str(found) == "PyTorch (device: on a CPU PyTorch computes unless a rung is named)"
    with pytest.raises(ValueError, match="as many rows as a has columns"):
        operation.chosen(OP, torch.ones(2, 3), torch.ones(2, 3))


def test_the_choice_for_another_device(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    device = Device("A GPU", "sm_99", 7)
    a, b = torch.empty(1024, 1024), torch.empty(1024, 1024)
    unknown = operation.chosen(OP, a, b, device=device)
    assert (unknown.name, unknown.reason) == (None, "there is no table for A GPU; `warpwise tune matmul` adds points")
    with pytest.raises(LookupError, match="matmul: no table for A GPU; `warpwise tune matmul` makes one on that GPU"):
        operation.chosen(OP, a, b, device="A GPU")
    sizes = dict.fromkeys("mnk", 1024)
    point = TunedPoint("float32", "nn", sizes, "k10_async_copies", 1e-4, TORCH, 1.1e-4, 2 * 1024**3)
    Table("matmul", device, (point,)).save(TABLES.user_file(device))
    found = operation.chosen(OP, a, b, device=device)
    assert (found.rung, found.source, found.rival, found.rival_seconds) == (
        "k10_async_copies",
        "user's table",
        TORCH,
        1.1e-4,
    )
    half = TunedPoint("bfloat16", "nn", sizes, TORCH, 1e-4, "", None, 2 * 1024**3)
    Table("matmul", device, (point, half)).save(TABLES.user_file(device))
    found = operation.chosen(OP, a.half(), b.half(), device=device)
    assert (found.name, found.source) == (None, "user's table, bfloat16"), "float16 uses bfloat16's points"
    tuned.reload()


def test_a_device_is_named_by_a_string_too_and_by_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    a = torch.empty(4096, 4096, device="meta")
    assert operation.chosen(OP, a, a, device="NVIDIA H200") == operation.chosen(
        OP, a, a, device=Device("NVIDIA H200", "sm_90", 132)
    )
    with pytest.raises(TypeError, match=r"matmul: expected device to be a GPU's name.* got device\(type='cuda'\)"):
        operation.chosen(OP, a, a, device=torch.device("cuda"))
    a = torch.empty(2, 3, device="meta")
    far = operation.chosen(OP, a, a.t(), device="NVIDIA H200")
    assert (far.source, far.rival, far.error > 0) == ("model of NVIDIA H200", TORCH, True), far
    with pytest.raises(LookupError, match=r"no table for H200; .* there is one for NVIDIA H200, which GPUs"):
        operation.chosen(OP, a, a.t(), device="H200")
    assert operation.chosen(OP, a.double(), a.double().t(), device="NVIDIA H200") == Choice(
        None, reason="no rung takes torch.float64", source="tables"
    )
    empty = operation.chosen(OP, a[:, :0], a.t()[:0], device="NVIDIA H200")
    assert (empty.name, empty.reason) == (None, "a size is 0")


def test_choices_say_what_they_rest_on(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    tall, square = torch.empty(2**31, 2, device="meta"), torch.empty(4096, 4096, device="meta")
    refused = operation.chosen(OP, tall, square[:2, :3], device="NVIDIA H200")
    assert refused.name is None and "predicted ±" in str(refused) and "no rung takes" in str(refused)
    assert "has no values" in operation.chosen(OP, square, square).reason
    with pytest.raises(TypeError, match="expected an Op, such as .* got 'matmul'"):
        operation.chosen("matmul", square, square)
    softmax = operation.get("softmax")
    with pytest.raises(LookupError, match="softmax: has no tables but a rule that needs the number of SMs"):
        operation.chosen(softmax, square, device="NVIDIA H200")
    named = operation.chosen(softmax, square, device=Device("NVIDIA H200", "sm_90", 132))
    assert named.name == "k05_row_in_registers"


A100 = Device("NVIDIA A100-SXM4-80GB", "sm_80", 108)


def test_the_choice_for_a_gpu_without_tables_is_that_of_its_calls():
    matmul, matvec, softmax = (operation.get(name) for name in ("matmul", "matvec", "softmax"))
    a, long = torch.empty(4096, 4096, device="meta"), torch.empty(4, 100000, device="meta")
    assert operation.chosen(matmul, a, a, device=A100).name is None
    assert operation.chosen(matvec, a, a[0], device=A100).name == "k03_rows_together"
    assert operation.chosen(softmax, long, -1, device=Device("NVIDIA H200", "sm_90", 132)).name == "k14_packed_rows"
    assert operation.chosen(softmax, long, -1, device=A100).name == "k12_split_rows", "an A100 has no clusters"


def test_limits_are_those_of_the_assumed_gpu():
    a = torch.empty(2, 2, device="meta")
    assert limits.requires_hopper(a) is None and limits.shared_bytes(a) == limits.HOPPER_SHARED
    with assume_device(A100):
        assert "compute capability 9.0" in str(limits.requires_hopper(a))
        assert limits.requires_ampere(a) is None
        assert (sm_count(a), limits.shared_bytes(a)) == (108, 163 * 1024)
    with assume_device(Device("Tesla V100", "sm_70", 80)):
        assert "compute capability 8.0 or later" in str(limits.requires_ampere(a))
    assert capability(a) is None
    with pytest.raises(operation.UnknownRung, match="no rung ''"):
        OP(torch.ones(2, 2), torch.ones(2, 2), rung="")


def test_configurations_are_those_of_the_assumed_device(tmp_path, monkeypatch):
    """k20 divides K by the number of multiprocessors, of which a CPU has one."""
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    device, a, b = Device("A GPU", "sm_99", 132), torch.empty(16, 4096, device="meta"), torch.empty(4096, 4096)
    point = TunedPoint(
        "float32", "nn", {"m": 16, "n": 4096, "k": 4096}, "k20_few_rows@r16_p8", 1e-4, TORCH, 2e-4, 2**29
    )
    Table("matmul", device, (point,)).save(TABLES.user_file(device))
    assert operation.chosen(OP, a, b.to("meta"), device=device).name == "k20_few_rows@r16_p8"
    assert operation.chosen(OP, a, b.to("meta"), device="A GPU").config == "r16_p8", "the table says what GPU it is"
    tuned.reload()


def test_no_time_below_a_launch_is_predicted(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    device, sizes = Device("A GPU"), dict.fromkeys("mnk", 256)
    point = TunedPoint("float32", "nn", sizes, TORCH, 6e-6, "k10_async_copies", 12e-6, 2 * 256**3)
    Table("matmul", device, (point,)).save(TABLES.user_file(device))
    small, shallow = torch.empty(220, 220, device="meta"), torch.empty(256, 240, device="meta")
    found = operation.chosen(OP, small, small, device=device)
    assert (found.seconds, found.rival_seconds) == (pytest.approx(5e-6), pytest.approx(1e-5))
    found = operation.chosen(OP, shallow, torch.empty(240, 256, device="meta"), device=device)
    assert found.seconds == pytest.approx(6e-6 * 240 / 256)
    tuned.reload()


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
    """At its own points a table's winner on the GPU is chosen, unless its call takes the host longer than the GPU."""
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    table = tuned.load(path)
    assert table is not None
    host = Host(**json.loads((TABLES.model.folder / path.name).read_text())["host"])
    slowest = 1e-6 * max(host.unrecorded, host.pytorch + host.fallback, host.rung + 2 * host.launch)
    for point in table.points:
        dtype = getattr(torch, point.dtype)
        first, second = point.kind.split()[0]
        a = empty(point.sizes["m"], point.sizes["k"], dtype, first)
        b = empty(point.sizes["k"], point.sizes["n"], dtype, second)
        found = operation.chosen(OP, a, b, device=table.device)
        name = found.name or TORCH
        if name == point.winner:
            assert found.seconds == pytest.approx(point.seconds), point
            assert found.source == "shipped table" or not point.rival, point  # without a rival the model is asked
            continue
        assert (name, found.rival) == (point.rival, point.winner), point
        assert point.seconds <= slowest, f"{point}: the GPU takes longer than any host"
        assert point.seconds < found.rival_seconds <= slowest, f"{point}: the host's time of the winner"
        assert point.rival_seconds <= found.seconds < found.rival_seconds, point
