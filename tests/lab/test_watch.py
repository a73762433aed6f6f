"""``lab.watch``: each save is verified in a new process, whatever the file does."""

from __future__ import annotations

import dataclasses
import os
import re
import runpy
from pathlib import Path

import pytest
import torch
from tests.lab import toys

from warpwise.lab.watch import Wanted, Watch, signature
from warpwise.operation import Op

RIGHT = "def launch(out, x): out.copy_(2 * x + 1)"
WRONG = "def launch(out, x): out.copy_(2 * x + 1 + (x.numel() == 1037))"


def affine(file: Path) -> Wanted:
    """A file that defines ``launch``, as the one rung of an operation."""

    def load():
        launch = runpy.run_path(str(file))["launch"]
        op = toys.op(toys.AFFINE, launch, source=file)
        return [(op, op.rungs[0])]

    return Wanted(load, "cpu", ("float32",), timed_s=0.05)


def settle(watched: Watch, saves: int):
    """Update until the work on the save of that number has ended; return the board."""
    while watched.board.saves < saves or watched.board.working:
        watched.update(0.02)
    return watched.board


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(RIGHT)
    return path


@pytest.fixture
def watched(file):
    made = Watch(file, affine(file))
    yield made
    made.close()


def replace(file, text):
    """As editors save: another file takes the name."""
    beside = file.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, file)


def test_each_save_has_its_verdict_and_times_beside_those_before(file, watched):
    board = settle(watched, 1)
    assert board.right
    assert board.verdict_after is not None
    assert (board.rows[0].rung, board.dtypes) == ("launch", "float32")
    assert board.rows[0].seconds is not None
    assert board.rows[0].last is None
    first = board.rows[0].seconds
    replace(file, WRONG)
    board = settle(watched, 2)
    assert not board.right
    assert board.rows[0].status == "wrong"
    assert "ragged" in board.rows[0].message
    assert board.rows[0].seconds is None
    assert {"ragged", "huge", "strided", "unaligned"} <= set(board.rows[0].failed)
    file.write_text(RIGHT + "\n")
    board = settle(watched, 3)
    assert board.right
    assert (board.rows[0].last, board.rows[0].best) == (first, first)


def test_cases_that_failed_come_first_at_the_next_save(file, watched, tmp_path):
    log = tmp_path / "log"
    noted = f"def launch(out, x):\n    open({str(log)!r}, 'a').write(f'{{x.numel()}} ')\n    out.copy_(2 * x + 1"
    file.write_text(noted + " + (x.numel() == 1))")
    assert settle(watched, 1).rows[0].failed == ("one",)
    assert log.read_text().split()[0] == "512"
    log.unlink()
    file.write_text(noted + ")")
    assert settle(watched, 2).right
    assert log.read_text().split()[0] == "1"


@pytest.mark.parametrize(
    "text,said",
    [
        ("def launch(out, x) out", "SyntaxError"),
        ("raise ArithmeticError('no')", r"ArithmeticError: no \(at kernel.py:1\)"),
        ("import os; os._exit(7)", "ended with 7: the kernel or its launch crashed it"),
        ("import os\ndef launch(out, x): os.kill(os.getpid(), 9)", "ended with -9"),
        ("x = 1", "KeyError"),
    ],
)
def test_whatever_a_file_does_watching_goes_on(file, watched, text, said):
    settle(watched, 1)
    file.write_text(text)
    board = settle(watched, 2)
    assert not board.right
    assert re.search(said, board.error)
    file.write_text(RIGHT + "\n")
    board = settle(watched, 3)
    assert board.right
    assert board.error == ""


def test_a_new_save_ends_the_work_on_the_one_before(file, watched):
    file.write_text("import time\ntime.sleep(600)")
    watched.update()
    slow = watched._process
    assert slow.is_alive()
    file.write_text(RIGHT)
    assert settle(watched, 2).right
    assert not slow.is_alive()


def test_a_file_that_is_gone_for_a_moment_is_waited_for(file, watched):
    settle(watched, 1)
    file.unlink()
    for _ in range(3):
        assert not watched.update(0.01)
    file.write_text(WRONG)
    assert settle(watched, 2).rows[0].status == "wrong"


def test_a_replaced_file_of_the_same_size_and_time_has_another_signature(file):
    before = signature([file])
    times = file.stat()
    replace(file, RIGHT)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert signature([file]) != before
    assert signature([file.with_name("nothing")]) == ()


def test_close_leaves_no_process(file):
    made = Watch(file, affine(file))
    made.update()
    process = made._process
    made.close()
    assert not process.is_alive()
    assert made._process is None


TWO = """
def launch(out, x):
    out.copy_(2 * x + 1)

def other(out, x):
    out.copy_(3 * x + 1)
"""


def test_rungs_of_two_operations_with_one_name_have_a_row_each(tmp_path):
    """The second one is wrong, and its operation has dtypes of its own."""
    file = tmp_path / "kernel.py"
    file.write_text(TWO)

    def load():
        values = runpy.run_path(str(file))
        first = toys.op(toys.AFFINE, values["launch"])
        spec = dataclasses.replace(toys.AFFINE, schema="second(Tensor x) -> Tensor", dtypes=(torch.float64,))
        second = Op(spec, (dataclasses.replace(first.rungs[0], launch=values["other"]),))
        return [(op, op.rungs[0]) for op in (first, second)]

    watched = Watch(file, Wanted(load, "cpu", timed_s=0.05))
    try:
        board = settle(watched, 1)
    finally:
        watched.close()
    assert not board.right
    assert board.dtypes == "float32, float64"
    assert [(row.rung, row.status) for row in board.rows] == [("affine:launch", "right"), ("second:launch", "wrong")]
    assert "float64" in board.rows[1].message and not board.rows[0].message
