"""``lab.profile``: the schedule, complete traces with the named ranges, and wrong arguments refused before the run."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.lab import toys

from warpwise import ranges
from warpwise.lab.profile import ProfileError, ProfileResult, Schedule, profile
from warpwise.lab.profile.result import ProfileRow, byte_text, rows_of


def copies(out, x):
    out.copy_(2 * x + 1)


OP = toys.op(toys.AFFINE, copies)


def a_step(x, calls=None):
    OP(x, rung="copies")
    if calls is not None:
        calls.append(1)


def events(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.name.endswith(".gz") else data)["traceEvents"]


def named(path, name):
    return [event for event in events(path) if event.get("name") == name and event.get("ph") == "X"]


def test_the_trace_holds_the_active_steps_and_the_rung_by_name(tmp_path):
    calls = []
    result = profile(a_step, torch.ones(64), calls, schedule=(1, 2, 3, 1), trace=tmp_path / "t.json")
    assert len(calls) == 6
    assert result.steps == 3
    assert result.trace == tmp_path / "t.json"
    assert len(named(result.trace, "affine:copies")) == 3
    steps = {event["name"] for event in events(result.trace) if event.get("name", "").startswith("ProfilerStep#")}
    assert steps == {"ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"}
    (row,) = [row for row in result.table if row.name == "affine:copies"]
    assert (row.calls, row.ranged) == (3, True)
    assert not any(row.name.startswith("ProfilerStep") for row in result.table)


def test_a_repeated_schedule_keeps_a_trace_each_and_sums_the_table(tmp_path):
    result = profile(a_step, torch.ones(64), schedule="1,1,2,3", trace=tmp_path / "t.pt.trace.json.gz")
    assert [path.name for path in result.traces] == [f"t.{cycle}.pt.trace.json.gz" for cycle in (1, 2, 3)]
    assert [len(named(path, "affine:copies")) for path in result.traces] == [2, 2, 2]
    assert result.steps == 6
    assert next(row.calls for row in result.table if row.name == "affine:copies") == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in result.traces)


def test_a_module_and_a_training_step_are_profiled():
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def training_step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    forward = profile(model, torch.ones(2, 8), schedule=(0, 1, 1, 1))
    assert forward.name == "Linear"
    assert "aten::linear" in {row.name for row in forward.table}
    whole = profile(training_step, torch.ones(2, 8), schedule=(0, 1, 1, 1))
    assert "Optimizer.step#SGD.step" in {row.name for row in whole.table}


def test_steps_beyond_the_schedule_are_not_recorded_and_too_few_are_refused():
    assert profile(a_step, torch.ones(4), schedule=(1, 1, 2, 1), steps=9).steps == 2
    with pytest.raises(ProfileError, match="2 steps record nothing: schedule 1,1,2,1 waits and warms up for 2"):
        profile(a_step, torch.ones(4), steps=2)


def test_ctrl_c_keeps_what_was_recorded(tmp_path):
    calls = []

    def interrupted_in_the_second_active_step(x):
        calls.append(1)
        a_step(x)
        if len(calls) == 4:
            raise KeyboardInterrupt

    result = profile(
        interrupted_in_the_second_active_step, torch.ones(4), schedule=(1, 1, 5, 1), trace=tmp_path / "t.json"
    )
    assert result.interrupted
    assert "interrupted" in str(result)
    assert len(named(result.trace, "affine:copies")) == 2


def test_ctrl_c_before_anything_was_recorded_says_so(tmp_path):
    def at_once():
        raise KeyboardInterrupt

    result = profile(at_once, schedule=(1, 1, 1, 1), trace=tmp_path / "t.json")
    assert result.interrupted
    assert result.traces == ()
    assert "nothing was recorded" in str(result)
    assert list(tmp_path.iterdir()) == []


def test_an_exception_goes_on_and_leaves_the_trace(tmp_path):
    def fails(x):
        a_step(x)
        raise ArithmeticError("no")

    with pytest.raises(ArithmeticError):
        profile(fails, torch.ones(4), schedule=(0, 0, 1, 1), trace=tmp_path / "t.json")
    assert len(named(tmp_path / "t.json", "affine:copies")) == 1


def test_a_trace_that_cannot_be_written_is_refused_before_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    calls = []
    for path, said in (
        (tmp_path / "file" / "t.json", "is a file, not a folder"),
        (tmp_path, "expected a name that ends in"),
        (tmp_path / "t.txt", "expected a name that ends in"),
        ("/proc/nowhere/t.json", "cannot be written"),
    ):
        with pytest.raises(ProfileError, match=said):
            profile(a_step, torch.ones(4), calls, trace=path)
    (tmp_path / "d.json").mkdir()
    with pytest.raises(ProfileError, match="is a folder"):
        profile(a_step, torch.ones(4), calls, trace=tmp_path / "d.json")
    assert calls == []


def test_a_failed_export_leaves_neither_a_trace_nor_a_temporary_file(tmp_path, monkeypatch):
    def breaks(self, path):
        raise OSError("disk full")

    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", breaks)
    with pytest.raises(OSError, match="disk full"):
        profile(a_step, torch.ones(4), trace=tmp_path / "t.json")
    assert list(tmp_path.iterdir()) == []


@given(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 4), st.integers(1, 4)))
def test_a_schedule_is_what_its_text_says(numbers):
    plan = Schedule.of(numbers)
    assert Schedule.of(str(plan)) == plan == Schedule(*numbers)
    assert plan.steps == sum(numbers[:3]) * numbers[3]


@pytest.mark.parametrize(
    "text", ["", "1", "1,1,2", "1,1,2,1,1", "a,b,c,d", "1,1,0,1", "1,1,1,0", "-1,1,1,1", "1.5,1,1,1"]
)
def test_a_bad_schedule_says_what_is_expected(text):
    with pytest.raises(ValueError, match="expected wait,warm-up,active,repeat: four whole numbers such as 1,1,2,1"):
        Schedule.of(text)


def test_a_schedule_without_a_warm_up_says_what_that_costs():
    assert any("no warm-up step" in note for note in profile(a_step, torch.ones(4), schedule=(0, 0, 1, 1)).notes)


def average(key, device, self_cuda=0.0, cuda=0.0, annotation=False, count=1):
    return SimpleNamespace(
        key=key,
        device_type=f"DeviceType.{device}",
        count=count,
        is_user_annotation=annotation,
        self_cpu_time_total=1.0,
        cpu_time_total=2.0,
        self_device_time_total=self_cuda,
        device_time_total=cuda,
        self_cpu_memory_usage=4,
        self_device_memory_usage=8,
    )


def test_the_device_side_of_a_range_is_not_counted_twice():
    host = average("softmax:k01", "CPU", 0.0, 30.0, annotation=True)
    mirror = average("softmax:k01", "CUDA", 30.0, 30.0, annotation=True)
    kernel = average("softmax_rows", "CUDA", 30.0, 30.0)
    step = [
        average("ProfilerStep*", "CPU", annotation=True, count=2),
        average("ProfilerStep*", "CUDA", 9.0, 9.0, annotation=True),
    ]
    table, steps = rows_of([[host, mirror, kernel, *step], [host, kernel]])
    rows = {row.name: row for row in table}
    assert steps == 2
    assert rows["softmax:k01"].calls == 2
    assert rows["softmax:k01"].self_cuda == 0
    assert rows["softmax:k01"].cuda == pytest.approx(60e-6)
    assert rows["softmax_rows"].self_cuda == pytest.approx(60e-6)
    result = ProfileResult("x", "gpu", None, 1, table, 0.0)
    assert result.on_gpu
    assert result.sorted()[0].name == "softmax_rows"


def test_a_kernel_without_an_operator_counts_for_its_range():
    table, _ = rows_of(
        [[average("softmax:k03", "CPU", annotation=True), average("softmax:k03", "CUDA", 30.0, 30.0, annotation=True)]]
    )
    assert [(row.name, row.self_cuda, row.cuda) for row in table] == [("softmax:k03", 0.0, pytest.approx(30e-6))]


def test_rows_sort_by_any_column_and_show_themselves():
    rows = (ProfileRow("<a>", 1, 1e-6, 5e-6, 0, 0, 0, 0), ProfileRow("b", 9, 2e-6, 3e-6, 0, 0, 2048, 0))
    result = ProfileResult("f", "cpu: x", Schedule(), 2, rows, 0.1, notes=("a & b",))
    assert [row.name for row in result.sorted()] == ["b", "<a>"]
    assert [row.name for row in result.sorted("cpu")] == ["<a>", "b"]
    assert [row.name for row in result.sorted("name")] == ["<a>", "b"]
    with pytest.raises(ValueError, match="no column 'gpu'; there are name"):
        result.sorted("gpu")
    assert "2 KiB" in str(result)
    assert "CUDA" not in str(result)
    page = result._repr_html_()
    assert "&lt;a&gt;" in page
    assert "<a>" not in page
    assert "a &amp; b" in page
    assert json.loads(json.dumps(result.to_json()))["table"][0]["name"] == "b"


def test_bytes_have_units():
    assert [byte_text(count) for count in (0, -512, 2048, 3 << 20, 5 << 40)] == [
        "0 B",
        "-512 B",
        "2 KiB",
        "3 MiB",
        "5120 GiB",
    ]


def test_a_range_costs_nothing_without_a_profiler_and_is_recorded_with_one():
    assert not ranges.profiling_active()
    with torch.profiler.profile(acc_events=True) as recorded:
        assert ranges.profiling_active()
        with ranges.named("a part"):
            torch.ones(1)
    assert "a part" in {average.key for average in recorded.key_averages()}
