"""``profile_script``: a script runs as ``__main__`` under the profiler; its trace is written however it ends."""

from __future__ import annotations

import json
import sys

import pytest

from warpwise.lab.profile import ProfileError, profile_script

TRAINING = """
import sys, torch
import beside
assert __name__ == "__main__"
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(int(sys.argv[1])):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def write(folder, text, name="train.py"):
    (folder / "beside.py").write_text("")
    (folder / name).write_text(text)
    return folder / name


def steps_in(path):
    return {
        event["name"]
        for event in json.loads(path.read_text())["traceEvents"]
        if "ProfilerStep#" in event.get("name", "")
    }


def test_a_script_gets_its_arguments_and_all_of_it_is_recorded(tmp_path):
    before = list(sys.argv), list(sys.path)
    result = profile_script(write(tmp_path, TRAINING), ["3"], trace=tmp_path / "t.json")
    assert (result.failure, result.steps) == ("", 1)
    assert next(row.calls for row in result.table if row.name == "Optimizer.step#SGD.step") == 3
    assert result.trace.exists()
    assert (sys.argv, sys.path) == before


def test_with_a_schedule_an_optimizer_step_ends_a_step(tmp_path):
    result = profile_script(write(tmp_path, TRAINING), ["6"], schedule=(1, 1, 2, 1), trace=tmp_path / "t.json")
    assert result.steps == 2
    assert steps_in(result.trace) == {"ProfilerStep#2", "ProfilerStep#3"}


def test_a_schedule_for_a_script_without_an_optimizer_says_what_a_step_is(tmp_path):
    result = profile_script(write(tmp_path, "import torch; torch.ones(3)"), schedule="1,1,1,1")
    assert any("called no optimizer's step()" in note for note in result.notes)


@pytest.mark.parametrize(
    "text,failure",
    [
        ("raise ArithmeticError('no')", "ArithmeticError: no"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import sys; sys.exit()", ""),
    ],
)
def test_however_a_script_ends_its_trace_stays(tmp_path, text, failure):
    result = profile_script(write(tmp_path, f"import torch; torch.ones(3)\n{text}"), trace=tmp_path / "t.json")
    assert failure in result.failure
    assert bool(result.failure) == bool(failure)
    assert "runpy" not in result.failure
    assert "aten::ones" in {row.name for row in result.table}
    assert result.trace.exists()


def test_ctrl_c_in_a_script_keeps_the_trace(tmp_path):
    result = profile_script(
        write(tmp_path, "import torch; torch.ones(3); raise KeyboardInterrupt"), trace=tmp_path / "t.json"
    )
    assert result.interrupted
    assert result.trace.exists()


def test_no_script_is_an_error(tmp_path):
    with pytest.raises(ProfileError, match="no file"):
        profile_script(tmp_path / "nothing.py")
