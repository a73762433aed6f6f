"""``tune_online``: what the first call measures and stores. Times come from a list."""

from __future__ import annotations

import runpy
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.commands import python
from tests.lab import toys
from tests.lab.fakes import FakeTimer
from tests.lab.online import CPU, LAUNCHED, MICRO, NUMBER, affine, computed_by, launching, point, rung, times

import warpwise
from warpwise import lab, operation, ops, tuned
from warpwise.lab.tune import online as module
from warpwise.lab.tune.online import CALLS, SOURCE, Online
from warpwise.lab.tune.ranking import candidates
from warpwise.operation import Choice, Device, Op, Tables, choice
from warpwise.tuned import TORCH, Table, add_point, load


def test_the_first_call_measures_and_the_second_does_not(switch):
    op, x, timer = affine(rung("k01_slow"), rung("k02_fast")), torch.ones(64), times(k01_slow=9, k02_fast=3, torch=5)
    online = switch(timer)
    assert operation.chosen(op, x).rung is None
    assert not timer.log, "a question measures nothing"
    assert torch.equal(op(x), 2 * x + 1)
    assert LAUNCHED[-1] == "k02_fast", "the winner computes the first call"
    samples = len(timer.log)
    assert set(timer.log) == {"k01_slow", "k02_fast", "torch"}
    assert computed_by(op, x) == ["k02_fast"]
    assert computed_by(op, torch.rand(64)) == ["k02_fast"]
    assert len(timer.log) == samples
    found = operation.chosen(op, x)
    assert (found.name, found.source, found.seconds, found.rival) == ("k02_fast", SOURCE, 3 * MICRO, TORCH)
    table = load(op.tables.user_file(CPU))
    assert [(point.winner, point.sizes, point.work) for point in table.points] == [("k02_fast", {"n": 64}, 128)]
    assert [name for name, _ in online.points] == [op.name]
    assert online.spent_s == pytest.approx(timer.now)


def test_the_next_process_finds_the_table(switch):
    rungs, x = (rung("k01_plain"),), torch.ones(64)
    op = affine(*rungs)
    switch(times(k01_plain=3, torch=5))
    op(x)
    tuned.reload()  # as a new process reads the files
    later, timer = replace(op), times(k01_plain=3, torch=5)
    switch(timer)
    assert later.chosen(x).name == "k01_plain"
    assert later.choice(x).source == "user's table"
    assert not timer.log


def test_choices_stay_when_it_is_stopped_and_started_again(switch):
    op, x, timer = affine(rung("k01_plain")), torch.ones(64), times(k01_plain=3, torch=5)
    switch(timer).stop()
    op(torch.ones(32))
    assert not timer.log
    switch(timer)
    assert op.chosen(torch.ones(32)) is None
    op(x)
    samples = len(timer.log)
    choice.online.stop()
    switch(times(k01_plain=7, torch=5))
    assert samples
    assert op.chosen(x).name == "k01_plain"


def test_a_measured_choice_does_not_change_that_of_other_shapes(switch):
    op, near = affine(rung("k01_plain")), torch.ones(70)
    op(near)
    switch(times(k01_plain=3, torch=5))
    op(torch.ones(64))
    assert computed_by(op, near) == [], "its plan stays"
    assert op.tables.choice(op, near) is None, "the process goes on with the tables that it has read"
    tuned.reload()
    assert op.tables.choice(op, near).rung == "k01_plain"


def test_a_shape_that_the_tables_have_is_not_measured(switch):
    op, timer = affine(rung("k01_plain")), times(k01_plain=3, torch=5)
    Table(op.name, CPU, (point("k01_plain", 64), point(TORCH, 1024))).save(op.tables.user_file(CPU))
    switch(timer)
    assert computed_by(op, torch.ones(64)) == ["k01_plain"]
    assert computed_by(op, torch.ones(1024)) == []
    assert not timer.log
    assert computed_by(op, torch.ones(80)) == ["k01_plain"]
    assert timer.log, "a near point is another shape"


def test_a_wrong_candidate_never_wins(switch):
    wrong = rung("k02_wrong", launching("k02_wrong", extra=1))
    op = affine(rung("k01_plain"), wrong)
    Table(op.name, CPU, (point("k02_wrong", 60),)).save(op.tables.user_file(CPU))
    switch(times(k01_plain=4, k02_wrong=1, torch=5))
    with pytest.warns(UserWarning, match="k02_wrong is not used: output\\[63\\] is 4, expected 3"):
        op(torch.ones(64))
    assert computed_by(op, torch.ones(64)) == ["k01_plain"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op(torch.ones(65))  # one warning for each candidate


def test_the_tables_choice_is_not_taken_where_it_is_wrong(switch):
    op = affine(rung("k01_wrong", launching("k01_wrong", extra=1)))
    Table(op.name, CPU, (point("k01_wrong", 60),)).save(op.tables.user_file(CPU))
    switch(times(k01_wrong=1, torch=5))
    with pytest.warns(UserWarning, match="k01_wrong is not used"):
        op(torch.ones(64))
    assert computed_by(op, torch.ones(64)) == []
    assert "k01_wrong fails on these arguments" in str(operation.chosen(op, torch.ones(64)))
    assert len(load(op.tables.user_file(CPU)).points) == 1, "what could not be timed is not stored"


def test_a_candidate_that_goes_wrong_while_it_is_timed_does_not_win(switch):
    def later(output: torch.Tensor, x: torch.Tensor) -> None:
        LAUNCHED.append("k01_later")
        output.copy_(2 * x + 1 + (len(LAUNCHED) > 2))

    op = affine(rung("k01_later", later))
    switch(times(k01_later=1, torch=5))
    with pytest.warns(UserWarning, match="k01_later is not used: wrong after the timed runs"):
        op(torch.ones(64))
    assert operation.chosen(op, torch.ones(64)).rung is None


def test_a_candidate_that_does_not_launch_is_skipped_with_one_warning(switch):
    broken = rung("k02_broken", launching("k02_broken", error="out of resources"))
    op = affine(rung("k01_plain"), broken)
    switch(times(k01_plain=4, torch=5))
    with pytest.warns(UserWarning, match="k02_broken is not used: RuntimeError: out of resources"):
        op(torch.ones(64))
    assert computed_by(op, torch.ones(65)) == ["k02_broken", "k01_plain"], "measured without a second warning"
    assert computed_by(op, torch.ones(64)) == ["k01_plain"]


def test_pytorch_wins_where_it_is_as_fast(switch):
    timer = FakeTimer(k01_plain=[4 * MICRO, 4 * MICRO, 6 * MICRO], torch=[5 * MICRO])
    op = affine(rung("k01_plain"))
    switch(timer)
    op(torch.ones(64))
    (point,) = load(op.tables.user_file(CPU)).points
    assert (point.winner, point.seconds, point.rival) == (TORCH, pytest.approx(5 * MICRO), "k01_plain")
    assert computed_by(op, torch.ones(64)) == []


def test_a_rung_wins_only_beyond_the_error_of_the_times(switch):
    noisy = [(4 if number % 2 else 5.5) * MICRO for number in range(20_000)]
    op = affine(rung("k01_noisy"))
    switch(FakeTimer(k01_noisy=noisy, torch=[5 * MICRO]))
    op(torch.ones(64))
    assert operation.chosen(op, torch.ones(64)).rung is None


def test_the_budget_of_a_shape_and_of_the_process_end_it(switch):
    slow, op = 1.1 * 0.05 / (2 * CALLS) / MICRO, affine(rung("k01_plain"))
    online = switch(times(k01_plain=1, torch=slow))
    op(torch.ones(64))
    assert not online.points, "the fewest calls take longer than the budget of one shape"
    assert not LAUNCHED
    timer = times(k01_plain=10, torch=20)
    online = switch(timer, budget_s=0.01, total_s=0.001)
    for n in range(1, 6):
        op(torch.ones(100 + n))
    assert len(online.points) == 2, "the third shape begins beyond the total"
    assert online.spent_s == pytest.approx(timer.now)
    assert timer.now < 0.002


def test_a_slow_candidate_does_not_use_up_the_budget(switch):
    timer = times(k01_plain=4, k02_slow=40_000, torch=5)
    op = affine(rung("k01_plain"), rung("k02_slow"))
    switch(timer)
    op(torch.ones(64))
    assert timer.log.count("k02_slow") == 1
    assert operation.chosen(op, torch.ones(64)).name == "k01_plain"


def test_zeros_verify_nothing(switch):
    spec = replace(toys.AFFINE, schema=f"toys::online{next(NUMBER)}(Tensor x) -> Tensor")
    spec = replace(spec, eager=lambda x: 2 * x, reference=lambda x: 2 * x.double())
    op = Op(spec, (rung("k01_plain"),), tables=Tables(spec.name, None, lambda x: ("", {"n": x.shape[0]})))
    online = switch(times(k01_plain=3, torch=5))
    op(torch.zeros(64))
    assert not online.points
    assert not LAUNCHED


def test_the_callers_arguments_and_generator_stay_as_they_are(switch):
    op, x = affine(rung("k01_plain"), eager=lambda x: 2 * x + torch.rand_like(x) * 0 + 1), torch.rand(64)
    switch(times(k01_plain=3, torch=5))
    before, state = x.clone(), torch.get_rng_state()
    op(x)
    assert torch.equal(x, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_an_error_of_a_measurement_is_not_one_of_the_call(switch):
    def failing(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no reference")

    op = affine(rung("k01_plain"), reference=failing)
    switch(times(k01_plain=3, torch=5))
    with pytest.warns(UserWarning, match="not measured: RuntimeError: no reference"):
        assert torch.equal(op(torch.ones(64)), torch.full((64,), 3.0))


def test_an_operation_inside_a_candidate_is_measured_first_and_counted_once(switch):
    inner = affine(rung("k01_inner"))

    def outer(output: torch.Tensor, x: torch.Tensor) -> None:
        if not inner.fill((output,), x):
            output.copy_(2 * x + 1)

    op, timer = affine(rung("k01_outer", outer)), times(k01_inner=3, k01_outer=4, torch=5)
    online = switch(timer)
    op(torch.ones(64))
    assert [point.winner for _, point in online.points] == ["k01_inner", "k01_outer"]
    assert online.spent_s == pytest.approx(timer.now)


def test_a_table_that_cannot_be_written_still_decides_here(switch, monkeypatch):
    def refused(*given: Any) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(module, "add_point", refused)
    op = affine(rung("k01_plain"))
    switch(times(k01_plain=3, torch=5))
    with pytest.warns(UserWarning, match="the measured choice is not stored: read-only"):
        op(torch.ones(64))
    assert computed_by(op, torch.ones(64)) == ["k01_plain"]


def test_candidates_are_those_of_the_nearest_points_then_the_ladder(switch):
    tiled = rung("k02_tiled", configs=lambda x: ("64", "128"))
    op = affine(rung("k01_plain"), tiled, rung("k03_named", by_name=True), rung("k04_last"))
    x = torch.ones(64)
    assert candidates(op, [x], 5) == ["k04_last", "k02_tiled@64", "k01_plain"]
    points = (point(TORCH, 60, rival="k02_tiled@128"), point("k01_plain", 4096), point("k09_gone", 64))
    points += (point("k04_last", 64, kind="other"), point("k02_tiled@32", 1 << 20))
    Table(op.name, CPU, points).save(op.tables.user_file(CPU))
    assert candidates(op, [x], 5) == ["k02_tiled@128", "k01_plain", "k02_tiled@64", "k04_last"]
    assert candidates(op, [x], 1) == ["k02_tiled@128"]


def test_points_of_several_processes_are_all_kept(tmp_path):
    path, program = tmp_path / "cpu.json", (
        "import os, sys; from pathlib import Path; from warpwise.tuned import Table, TunedPoint, add_point\n"
        "from warpwise.device.target import Device\n"
        "other = os.fork()\n"
        "for n in range(20):\n"
        "    point = TunedPoint('float32', 'one' if other else 'two', {'n': n + 1}, 'torch', 1e-6, '', None, 1)\n"
        "    add_point(Path(sys.argv[1]), Table('affine', Device('cpu')), point)\n"
        "if other:\n"
        "    assert os.waitpid(other, 0)[1] == 0\n"
    )  # fmt: skip
    assert python(program, str(path)).returncode == 0
    assert len(load(path).points) == 40


def test_points_of_another_device_are_replaced(tmp_path):
    path = tmp_path / "t.json"
    Table("affine", Device("NVIDIA H200", "sm_90", 132), (point("k01_plain", 64),)).save(path)
    assert add_point(path, Table("affine", CPU), point(TORCH, 32)).points == (point(TORCH, 32),)


@pytest.mark.parametrize(
    "value, variable, setting, words",
    [
        ("offline", "WARPWISE_TUNE_BUDGET", "1", "WARPWISE_TUNE: expected 'online' or no value, got 'offline'"),
        (
            "online",
            "WARPWISE_TUNE_BUDGET",
            "50ms",
            "WARPWISE_TUNE_BUDGET: expected seconds above 0, such as 0.05, got '50ms'",
        ),
        ("online", "WARPWISE_TUNE_TOTAL", "0", "WARPWISE_TUNE_TOTAL: expected seconds above 0, such as 5.0, got '0'"),
        ("online", "WARPWISE_TUNE_TOTAL", "-1", "WARPWISE_TUNE_TOTAL: expected seconds above 0, such as 5.0, got '-1'"),
    ],
)
def test_wrong_settings_are_refused(value, variable, setting, words, monkeypatch):
    monkeypatch.setenv("WARPWISE_TUNE", value)
    monkeypatch.setenv(variable, setting)
    with pytest.raises(ValueError, match=words):
        module.from_environment()
    assert choice.online is None


def test_the_environment_switches_it_on(monkeypatch):
    """What `import warpwise` does."""
    monkeypatch.setattr(choice, "online", None)
    monkeypatch.setenv("WARPWISE_TUNE", "online")
    monkeypatch.setenv("WARPWISE_TUNE_BUDGET", "0.25")
    runpy.run_path(warpwise.__file__)
    assert isinstance(choice.online, Online) and choice.online.budget_s == 0.25


@pytest.mark.gpu
def test_a_matrix_multiplication_on_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    tuned.reload()
    online = lab.tune_online(budget_s=0.2)
    try:
        a, b = torch.randn(515, 771, device="cuda"), torch.randn(771, 389, device="cuda")
        first = ops.matmul(a, b)
        torch.testing.assert_close(first, (a.double() @ b.double()).float(), rtol=1e-4, atol=1e-3)
        ((name, point),) = online.points
        spent = online.spent_s
        assert torch.equal(ops.matmul(a, b), first)
        assert (name, point.sizes, online.spent_s) == ("matmul", {"m": 515, "n": 389, "k": 771}, spent)
        found: Choice = operation.chosen(operation.get("matmul"), a, b)
        assert (found.name or TORCH, found.source) == (point.winner, SOURCE)
        captured, c = torch.cuda.CUDAGraph(), torch.randn(771, 131, device="cuda")
        with torch.cuda.graph(captured):
            ops.matmul(a, c)
        assert len(online.points) == 1
    finally:
        choice.online = None
        tuned.reload()
