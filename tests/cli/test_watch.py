"""``warpwise watch``: the rungs that a file selects, and the page."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

import warpwise
from warpwise.cli import watch_kernel
from warpwise.cli.commands.watch import watch
from warpwise.cli.watch import find, page
from warpwise.lab.watch import Board, RungState

SOFTMAX = Path(warpwise.__file__).parent / "ops" / "softmax"


def run(*words):
    done = CliRunner().invoke(watch, [*map(str, words), "--device", "cpu", "--once"], standalone_mode=False)
    assert done.exception is None, done.exception
    return SimpleNamespace(code=done.return_value, output=" ".join(done.output.split()))


def test_the_source_of_a_rung_is_verified_and_explained():
    done = run(SOFTMAX / "forward" / "k03_warp_shuffle.cu", "--no-explain")
    assert done.code == 0, done.output
    assert "k03_warp_shuffle ✓ right" in done.output
    assert "float32, save 1, verdict" in done.output


def test_an_operation_of_ones_own_and_a_wrong_rung_in_it(tmp_path):
    from warpwise.cli.commands.new import new

    path = tmp_path / "gate.py"
    made = CliRunner().invoke(new, ["gate", "-o", str(path)], standalone_mode=False)
    assert made.exception is None, made.exception
    path.write_text(path.read_text().replace("if (i < n) out[i]", "out[i]"))
    done = run(path, "--rung", "k01", "--no-explain")
    assert done.code == 1
    assert "k01_thread_per_element ✗ wrong" in done.output
    assert "OutOfBounds" in done.output
    assert "k02" not in done.output


def test_a_file_means_its_rung_or_all_of_its_folder():
    names = [rung.name for _, rung in find(SOFTMAX / "forward" / "k04_online.cu", ())]
    assert names == ["k04_online"]
    forward = [rung.name for op, rung in find(SOFTMAX / "forward" / "rungs.py", ()) if op.name == "softmax"]
    assert forward == [rung.name for _, rung in find(SOFTMAX / "forward" / "rungs.py", ())]
    assert {op.name for op, _ in find(SOFTMAX / "op.py", ())} == {"softmax", "softmax_backward"}
    assert [rung.name for _, rung in find(SOFTMAX / "spec.py", ["k02_block_per_row"])] == ["k02_block_per_row"]
    with pytest.raises(click.BadParameter, match="no rung 'k04_onlin'; did you mean 'k04_online'"):
        find(SOFTMAX / "spec.py", ["k04_onlin"])


def test_a_file_that_is_none_says_what_is_expected(tmp_path):
    lone = tmp_path / "lone.cu"
    lone.write_text("")
    with pytest.raises(click.BadParameter, match="expected the source of a rung.*any other file needs --kernel"):
        find(lone, ())
    done = CliRunner().invoke(watch, [str(lone)])  # without --once: it does not wait for a save
    assert done.exit_code == 2 and "any other file needs --kernel" in " ".join(done.output.split())
    bad = tmp_path / "bad.py"
    bad.write_text("def (")
    with pytest.raises(click.BadParameter, match="bad.py:1: SyntaxError"):
        find(bad, ())
    done = run(bad)
    assert done.code == 1
    assert "bad.py:1: SyntaxError" in done.output


def drawn(board):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(page(board))
        return " ".join(console.export_text().split())


def test_the_page_shows_times_against_the_last_and_the_best():
    rows = (
        RungState("k01", status="right", seconds=9e-6, last=10e-6, best=8e-6, hint="OPT uncoalesced"),
        RungState("k02", status="right", seconds=5e-6, last=5e-6, modelled=True),
        RungState("k03", status="wrong", stage="shrinking a failure: n=8", message="output[0] is [1]"),
    )
    said = drawn(Board(Path("k.cu"), rows, "cpu: x", "float32", saves=3, verdict_after=0.8))
    assert "k01 ✓ right 9 µs -10.0 % +12.5 %" in said
    assert "k02 ✓ right 5 µs (modelled) the same" in said
    assert "k03: output[0] is [1]" in said
    assert "shrinking a failure: n=8" in said
    assert "save 3, verdict 0.8 s after the save" in said
    assert drawn(Board(Path("k.py"), error="no [good]", saves=1)) == "k.py save 1 no [good]"


SCALE = """
#include "factor.cuh"
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = FACTOR * x[i];
}
"""
LAUNCH = ("--kernel", "scale", "--grid", "2", "--block", "64", "--arg", "x=f32[100]", "--arg", "y=out:f32[100]")


def test_a_lone_cuda_kernel_is_checked_and_explained(tmp_path):
    (tmp_path / "factor.cuh").write_text("#define FACTOR 2")
    (tmp_path / "scale.cu").write_text(SCALE)
    done = run(tmp_path / "scale.cu", *LAUNCH, "--arg", "n=100")
    assert done.code == 0 and "no finding in scale" in done.output and "predicted, limited by" in done.output
    done = run(tmp_path / "scale.cu", *LAUNCH, "--arg", "n=101", "--no-explain")
    assert done.code == 1 and "OutOfBounds: scale" in done.output and "predicted" not in done.output
    done = run(tmp_path / "scale.cu", *LAUNCH, "--no-explain")
    assert done.code == 1 and "no --arg for n" in done.output


def test_a_kernel_is_checked_again_when_a_file_that_it_includes_is_saved(tmp_path, monkeypatch):
    header = tmp_path / "factor.cuh"
    header.write_text("#define FACTOR 2")
    (tmp_path / "scale.cu").write_text(SCALE)
    edits = iter(["#define FACTOR wrong", "#define FACTOR 2 * 3"])

    def sleep(seconds):
        if seconds == watch_kernel.POLL:
            try:
                header.write_text(next(edits))
            except StopIteration:
                raise KeyboardInterrupt from None

    monkeypatch.setattr(watch_kernel.time, "sleep", sleep)
    words = [str(tmp_path / "scale.cu"), *LAUNCH, "--arg", "n=100", "--no-explain"]
    done = CliRunner().invoke(watch, words, standalone_mode=False)
    assert done.return_value == 0
    assert done.output.count("no finding in scale") == 2 and done.output.count("CompileError") == 1
    assert [f"save {number}" in done.output for number in (1, 2, 3)] == [True] * 3 and "stopped" in done.output
