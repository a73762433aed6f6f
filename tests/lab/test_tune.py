"""``lab.tune``: candidates, winners, the table, and how an interrupted tune continues. Times come from a list."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.lab import toys
from tests.lab.fakes import FakeTimer

from warpwise import lab
from warpwise.cuda.source import includes
from warpwise.lab.tune import Progress, TuneError
from warpwise.lab.tune.candidates import Pruner, fingerprint
from warpwise.operation import Case, Device, Op, Rung, Tables
from warpwise.tuned import Table, TunedPoint, load

CPU = Device("cpu")
SMALL, LARGE = Case("small", {"n": 64}), Case("large", {"n": 4096})
MICRO = 1e-6


def plain(output: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    output.copy_(2 * x + 1)


def wrong(output: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    output.copy_(2 * x + 1)
    output.view(-1)[-1] += 1


def described(x: torch.Tensor) -> tuple[str, dict[str, int]]:
    return "", {"n": x.shape[0]}


def rung(name: str, launch: Any = plain, **options: Any) -> Rung:
    return Rung(name, "a test", "python", launch, Path(__file__), **options)


def tunable(*rungs: Rung, folder: Path | None = None, **options: Any) -> Op:
    tables = Tables("affine", folder, described, **options)
    return replace(toys.op(toys.AFFINE), rungs=rungs, tables=tables)


CONFIGURED = rung("k02_tiled", configs=lambda x: ("64", "128") if x.shape[0] > 100 else ("64",))


def run(op: Op, tmp_path: Path, timer: FakeTimer, **options: Any) -> tuple[lab.Tuned, list[Progress]]:
    steps: list[Progress] = []
    options = {"sizes": [SMALL, LARGE], "dtypes": [torch.float32], "budget_s": 0.05, **options}
    made = lab.tune(op, device="cpu", path=tmp_path / "t.json", timer=timer, progress=steps.append, **options)
    return made, steps


def test_the_fastest_right_candidate_wins_and_pytorch_is_one(tmp_path):
    op = tunable(rung("k01_plain"), CONFIGURED, rung("k03_wrong", wrong))
    times = {"k01_plain": [9 * MICRO], "k02_tiled@64": [5 * MICRO], "k02_tiled@128": [3 * MICRO], "torch": [4 * MICRO]}
    made, _ = run(op, tmp_path, FakeTimer(**times))
    small, large = sorted(made.table.points, key=lambda point: point.sizes["n"])
    assert (small.winner, small.rival) == ("torch", "k02_tiled@64")
    assert (large.winner, large.rival) == ("k02_tiled@128", "torch")
    assert (large.seconds, large.rival_seconds) == (3 * MICRO, 4 * MICRO)
    assert (large.candidates, large.work) == (4, 2 * 4096)
    assert len(made.notes) == 2, "a wrong rung is reported at both sizes"
    assert "k03_wrong" in made.notes[0]
    assert load(made.path) == made.table


def test_nothing_is_timed_where_there_is_nothing(tmp_path):
    made, _ = run(tunable(rung("k01_plain")), tmp_path, FakeTimer(), sizes=[Case("none", {"n": 0})])
    assert (made.measured, made.table.points) == (0, ())
    assert made.notes == ("none(n=0), float32: nothing to be timed where a size is 0",)


@pytest.mark.parametrize(
    "wrong",
    [{"sizes": {"n": 0}}, {"sizes": {"n": -4}}, {"sizes": {"n": "4"}}, {"sizes": None}, {"seconds": "fast"},
     {"seconds": float("nan")}, {"seconds": -1e-6}, {"rival_seconds": "slow"}, {"winner": None}, {"work": "much"}],
    ids=str,
)  # fmt: skip
def test_a_point_that_could_not_be_asked_is_passed_over_when_it_is_read(tmp_path, wrong):
    path = tmp_path / "t.json"
    Table("affine", CPU, (_point("k01_plain", 64),)).save(path)
    data = json.loads(path.read_text())
    data["points"][0].update(wrong)
    path.write_text(json.dumps(data))
    with pytest.warns(UserWarning, match="not a table of tuned choices, ignored"):
        assert load(path) is None


def test_a_rung_by_name_is_never_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path / "cache"))
    op = tunable(rung("k01_plain"), rung("k02_sloppy", by_name=True), folder=tmp_path)
    made, _ = run(op, tmp_path, FakeTimer(k01_plain=[9 * MICRO], torch=[10 * MICRO]), sizes=[SMALL])
    assert [(point.winner, point.candidates) for point in made.table.points] == [("k01_plain", 1)]
    Table("affine", CPU, (_point("k02_sloppy", 64), _point("k01_plain", 80))).save(tmp_path / "cpu.json")
    assert chosen(op, 64).name == "k01_plain"


def test_many_candidates_are_halved_and_the_last_round_decides(tmp_path):
    names = [f"k{number:02d}_rung" for number in range(1, 13)]
    times = {name: [(20 + number) * MICRO] for number, name in enumerate(names)} | {"torch": [50 * MICRO]}
    times["k05_rung"] = [1 * MICRO] * 30 + [22.5 * MICRO]  # a lucky start
    timer = FakeTimer(**times)
    made, steps = run(tunable(*(rung(name) for name in names)), tmp_path, timer, sizes=[SMALL])
    (point,) = made.table.points
    assert point.winner == "k01_rung"
    counts = [int(step.stage.split()[1]) for step in steps if step.stage.startswith("timing")]
    assert counts == [12, 6, 3]
    assert timer.log.count("k12_rung") < timer.log.count("k01_rung")


def test_a_function_selects_the_candidates_of_a_point(tmp_path):
    op, timer = tunable(rung("k01_slow"), rung("k02_fast")), FakeTimer(k01_slow=[9 * MICRO], torch=[10 * MICRO])
    made, _ = run(op, tmp_path, timer, sizes=[SMALL], select=lambda op, rungs, args, device: rungs[:1])
    assert [(point.winner, point.candidates) for point in made.table.points] == [("k01_slow", 1)]


def test_who_is_far_behind_is_not_tried_at_larger_sizes(tmp_path):
    op = tunable(rung("k01_naive"), rung("k02_fast"))
    timer = FakeTimer(k01_naive=[50 * MICRO], k02_fast=[2 * MICRO], torch=[3 * MICRO])
    made, _ = run(op, tmp_path, timer, sizes=[LARGE, SMALL])
    assert [point.winner for point in made.table.points] == ["k02_fast"] * 2
    assert timer.prepared.count("k01_naive") == 1, "the small size comes first"


def test_one_good_showing_keeps_a_rung_among_the_candidates():
    def point(m: int, k: int) -> TunedPoint:
        return TunedPoint("float32", "", {"m": m, "k": k}, "k02", MICRO, "", None, 1, 2, "")

    pruner, found = Pruner(), [rung("k01"), rung("k02@64")]
    pruner.note(point(128, 16384), {"k01": 50 * MICRO, "k02@64": 2 * MICRO})
    assert [each.name for each in pruner.remaining(found, "float32", {"m": 256, "k": 16384})] == ["k02@64"]
    assert pruner.remaining(found, "float32", {"m": 64, "k": 16384}) == found, "smaller in one dimension"
    assert pruner.remaining(found, "bfloat16", {"m": 256, "k": 16384}) == found
    pruner.note(point(1024, 1024), {"k01": 3 * MICRO, "k02@32": 2 * MICRO})
    assert [each.name for each in pruner.remaining(found, "float32", {"m": 512, "k": 16384})] == ["k02@64"]
    assert pruner.remaining(found, "float32", {"m": 1024, "k": 16384}) == found


def test_a_stopped_tune_goes_on_where_it_was(tmp_path):
    class Stopped(FakeTimer):
        left = 60

        def sample(self, call: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().sample(call)

    op = tunable(rung("k01_plain"))
    times = {"k01_plain": [1 * MICRO], "torch": [2 * MICRO]}
    with pytest.raises(KeyboardInterrupt):
        run(op, tmp_path, Stopped(**times))
    kept = load(tmp_path / "t.json")
    assert kept is not None
    assert [point.sizes["n"] for point in kept.points] == [64]
    made, steps = run(op, tmp_path, FakeTimer(**times))
    assert made.measured == 1
    assert [step.kept for step in steps if step.point] == [True, False]
    again, _ = run(op, tmp_path, FakeTimer(**times))
    assert again.measured == 0
    fresh, _ = run(op, tmp_path, FakeTimer(**times), fresh=True)
    assert fresh.measured == 2


def test_other_candidates_make_a_point_stale(tmp_path):
    times = {"k01_plain": [2 * MICRO], "k02_tiled@64": [1 * MICRO], "k02_tiled@128": [1 * MICRO], "torch": [2 * MICRO]}
    run(tunable(rung("k01_plain")), tmp_path, FakeTimer(**times))
    made, _ = run(tunable(rung("k01_plain"), CONFIGURED), tmp_path, FakeTimer(**times))
    assert made.measured == 2


def test_a_fingerprint_changes_with_a_shared_device_header(tmp_path, monkeypatch):
    monkeypatch.setattr(includes, "DEVICE_HEADERS", tmp_path)
    header, kernel = tmp_path / "warpwise" / "x.cuh", tmp_path / "k01.cu"
    header.parent.mkdir()
    header.write_text("#define X 1\n")
    kernel.write_text("#include <warpwise/x.cuh>\n")
    candidate = replace(rung("k01_plain"), source=kernel)
    first = fingerprint([candidate])
    assert fingerprint([candidate]) == first
    header.write_text("#define X 2\n")
    assert fingerprint([candidate]) != first


def test_another_devices_table_is_not_mixed_in(tmp_path):
    Table("affine", Device("NVIDIA H200", "sm_90", 132), (_point("k01_plain", 64),)).save(tmp_path / "t.json")
    made, _ = run(tunable(rung("k01_plain")), tmp_path, FakeTimer(k01_plain=[1 * MICRO], torch=[2 * MICRO]))
    assert made.table.device == CPU
    assert made.measured == 2


def test_layouts_are_points_of_their_own(tmp_path):
    arrangements = {"plain": lambda x: (x,), "gaps": lambda x: (x.repeat_interleave(2)[::2],)}
    tables = Tables("affine", None, lambda x: ("gaps" if x.stride(0) > 1 else "plain", {"n": x.shape[0]}), arrangements)
    op = replace(tunable(rung("k01_plain", strided=True)), tables=tables)
    timer = FakeTimer(k01_plain=[1 * MICRO], torch=[2 * MICRO])
    made, _ = run(op, tmp_path, timer, sizes=[SMALL])
    assert {point.kind for point in made.table.points} == {"plain", "gaps"}
    with pytest.raises(TuneError, match="no layout 'upside'; there are plain, gaps"):
        run(op, tmp_path, timer, layouts=["upside"])


def test_what_cannot_be_tuned_says_why(tmp_path):
    timer = FakeTimer(torch=[1 * MICRO])
    with pytest.raises(TuneError, match="affine: cannot be tuned, because its Op has no tables"):
        run(toys.op(toys.AFFINE), tmp_path, timer)
    with pytest.raises(TuneError, match="no rung can be timed on cpu: kernels are emulated there"):
        run(tunable(replace(rung("k01_plain"), language="cuda")), tmp_path, timer)


def _point(winner: str, n: int, seconds: float = 1e-5, kind: str = "", dtype: str = "float32") -> TunedPoint:
    return TunedPoint(dtype, kind, {"n": n}, winner, seconds, "torch", 2e-5, 2 * n)


def chosen(op: Op, n: int, device: Device = CPU, dtype: torch.dtype = torch.float32) -> Any:
    return op.tables.choice(op, torch.ones(n, dtype=dtype), device=device)


def test_the_nearest_point_chooses(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path / "cache"))
    points = (_point("k01_plain", 64), _point("k02_tiled@128", 1024), _point("torch", 4096))
    Table("affine", CPU, points).save(tmp_path / "cpu.json")
    op = tunable(rung("k01_plain"), CONFIGURED, folder=tmp_path)
    assert chosen(op, 64).name == "k01_plain"
    assert chosen(op, 80).name == "k01_plain"
    assert chosen(op, 200) is None, "more than 1.4 times away from every point"
    found = chosen(op, 768)
    assert (found.name, found.rung, found.config) == ("k02_tiled@128", "k02_tiled", "128")
    assert found.seconds == pytest.approx(0.75e-5), "three quarters of the work"
    assert found.source == "shipped table"
    assert str(found) == (
        "k02_tiled@128, 7.5 µs against 15 µs of PyTorch, predicted ± 2 % (shipped table: ours is faster than torch, "
        "measured at n=1024, the nearest point)"
    )
    assert chosen(op, 5000).name is None
    assert chosen(op, 7) is None
    assert chosen(op, 64, dtype=torch.float16) is None
    assert chosen(op, 64, Device("another GPU")) is None


def test_a_rung_that_refuses_or_is_gone_gives_way_to_the_next_point(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path / "cache"))
    points = (_point("k09_gone", 64), _point("k03_even", 70), _point("k01_plain", 80), _point("k02_tiled@512", 2000))
    Table("affine", CPU, points).save(tmp_path / "cpu.json")
    even = rung("k03_even", limits=lambda x: "takes even sizes" if x.shape[0] % 2 else None)
    op = tunable(rung("k01_plain"), CONFIGURED, even, folder=tmp_path)
    assert chosen(op, 64).name == "k03_even"
    assert chosen(op, 65).name == "k01_plain"
    assert chosen(op, 2000).name == "k02_tiled", "whose configuration of that name is gone"


def test_the_users_table_comes_before_the_shipped_one(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path / "cache"))
    op = tunable(rung("k01_plain"), rung("k02_other"), folder=tmp_path)
    Table("affine", CPU, (_point("k01_plain", 64), _point("torch", 1024))).save(tmp_path / "cpu.json")
    assert chosen(op, 64).source == "shipped table"
    Table("affine", CPU, (_point("k02_other", 64),)).save(op.tables.user_file(CPU))
    assert (chosen(op, 64).name, chosen(op, 64).source) == ("k02_other", "user's table")
    assert chosen(op, 1000).name is None, "the shipped point is nearer"


def test_a_gpu_without_a_table_takes_one_of_its_kind(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path / "cache"))
    op = tunable(rung("k01_plain"), folder=tmp_path)
    Table("affine", Device("NVIDIA H200", "sm_90", 132), (_point("k01_plain", 64),)).save(tmp_path / "nvidia_h200.json")
    found = chosen(op, 64, Device("NVIDIA H100 80GB HBM3", "sm_90", 132))
    assert found.source == "shipped table of NVIDIA H200"
    assert chosen(op, 64, Device("NVIDIA H100 PCIe", "sm_90", 114)) is None
    assert Device("NVIDIA H100 80GB HBM3").file == "nvidia_h100_80gb_hbm3.json"


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"schema": 1}', '{"schema": 1, "op": "a", "device": {}, "points": [7]}']
)
def test_a_damaged_table_is_passed_over_with_a_warning(text, tmp_path):
    path = tmp_path / "cpu.json"
    path.write_text(text)
    with pytest.warns(UserWarning, match="not a table of tuned choices"):
        assert load(path) is None


def test_a_table_of_another_schema_is_no_table(tmp_path):
    (tmp_path / "cpu.json").write_text(json.dumps({"schema": 99}))
    assert load(tmp_path / "cpu.json") is None
    assert load(tmp_path / "nothing.json") is None
