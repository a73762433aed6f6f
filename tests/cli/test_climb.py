"""``warpwise climb``, ``device`` and ``doctor``: their output and exit status."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from rich.console import Console
from tests.lab import toys
from tests.lab.fakes import FakeTimer

import warpwise
import warpwise.ops
from warpwise.cli import cli
from warpwise.cli.ladder_table import LadderTable
from warpwise.lab import Entry, Interval, Point, Roofline, Timing, climb
from warpwise.operation import Cost, registry


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)), standalone_mode=False)


def said(result: Result) -> str:
    message = getattr(result.exception, "message", "") or ""
    return " ".join(f"{result.output} {message}".split())


def test_version() -> None:
    assert said(run("--version")) == f"warpwise, version {warpwise.__version__}"


def test_a_command_that_does_not_exist_is_refused() -> None:
    assert "No such command 'clim'. Did you mean 'climb'?" in said(run("clim", "softmax"))


def test_a_ladder_is_climbed_and_kept(tmp_path: Path) -> None:
    result = run(
        "climb", "square", "--device", "cpu", "--rung", "k01", "--dtype", "float32", "--json", tmp_path / "square.json"
    )
    assert result.return_value == 0, said(result)
    assert "k01" in said(result)
    assert "right" in said(result)
    kept = json.loads((tmp_path / "square.json").read_text())
    assert kept["op"] == "square"
    assert kept["place"].startswith("cpu")
    assert [row["verdict"]["status"] for row in kept["rungs"]] == ["right"]
    assert not kept["points"], "emulated kernels are not timed"


def test_progress_is_printed_as_lines_where_there_is_no_terminal() -> None:
    done = run("climb", "vector_add", "--rung", "k01_thread_per_element", "--no-store")
    assert "vector_add: verifying k01_thread_per_element" in done.stderr.splitlines()
    assert "verifying" not in done.stdout


def test_a_wrong_rung_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = registry.get("square")

    def off_by_one(output: torch.Tensor, x: torch.Tensor) -> None:
        output.copy_(x * x)
        output.view(-1)[-1] += 1

    broken = dataclasses.replace(
        honest, rungs=(dataclasses.replace(honest.rungs[0], launch=off_by_one),), default=lambda x: None
    )
    monkeypatch.setitem(registry._OPS, "warpwise::square", broken)
    result = run("climb", "square", "--device", "cpu", "--dtype", "float32")
    assert result.return_value == 1
    assert "wrong" in said(result)


def replaced(monkeypatch: pytest.MonkeyPatch, name: str, **changes: object) -> None:
    """Replace the operation ``name`` by one with other fields of its specification."""
    op = registry.get(name)
    spec = dataclasses.replace(op.spec, **changes)
    monkeypatch.setitem(registry._OPS, f"warpwise::{name}", dataclasses.replace(op, spec=spec))


CLIMB = ("climb", "square", "--device", "cpu", "--dtype", "float32", "--no-store")


def test_a_tolerance_that_pytorch_exceeds_too_is_questioned(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, words = registry.get("square"), "the tolerance is too small: it follows from `terms` and `magnitude`"

    def inexact(output: torch.Tensor, x: torch.Tensor) -> None:
        output.copy_(1.001 * x * x)

    rungs = (dataclasses.replace(honest.rungs[0], launch=inexact),)
    broken = dataclasses.replace(honest, rungs=rungs, default=lambda x: None)
    monkeypatch.setitem(registry._OPS, "warpwise::square", broken)
    assert words not in said(run(*CLIMB)), "PyTorch is right"
    replaced(monkeypatch, "square", eager=lambda x: 1.001 * x * x)
    assert words in said(run(*CLIMB))


def test_on_a_cpu_a_small_size_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = registry.get("square")

    def wrong_at_a_size(output: torch.Tensor, x: torch.Tensor) -> None:
        output.copy_(x * x)
        if tuple(x.shape) == (3, 1001):
            output[2, 1000] += 1

    broken = dataclasses.replace(
        honest, rungs=(dataclasses.replace(honest.rungs[0], launch=wrong_at_a_size),), default=lambda x: None
    )
    monkeypatch.setitem(registry._OPS, "warpwise::square", broken)
    assert run(*CLIMB).return_value == 0
    result = run(*CLIMB, "--size", "rows=3,cols=1001")
    assert result.return_value == 1
    assert "rows=3,cols=1001, float32, seed 0" in said(result)
    assert "output[2, 1000] is" in said(result)


def test_on_a_cpu_a_large_size_is_ignored_with_a_note() -> None:
    result = run(*CLIMB, "--rung", "k01", "--size", "rows=100000,cols=1001")
    assert result.return_value == 0, said(result)
    assert "rows=100000,cols=1001: ignored, because it is too large for a checked run on a CPU" in said(result)
    assert "too large" not in said(run(*CLIMB, "--rung", "k01"))


def test_on_a_cpu_a_size_reaches_the_gradient() -> None:
    cases = [case for case in registry.get("polynomial").spec.cases if case.values == "normal"]
    result = run(
        "climb",
        "polynomial",
        "--device",
        "cpu",
        "--rung",
        "k01",
        "--dtype",
        "float32",
        "--no-store",
        "--size",
        "rows=3,cols=5",
    )
    assert f"gradient: right ({len(cases) + 1} cases)" in said(result)


@pytest.mark.parametrize("size, shown", [("n=8192", True), ("n=16", False), ("", True)])
def test_no_record_of_another_size_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str, shown: bool
) -> None:
    def quick(output: torch.Tensor, x: torch.Tensor) -> None:
        output.copy_(2 * x + 1)

    op = toys.op(toys.AFFINE, quick)
    folder = tmp_path / "benchmarks" / "results" / "fake"
    timer, ceilings = FakeTimer(quick=[1.0], torch=[2.0]), Roofline(bandwidth=1e9, flops=1e9, source="a test")
    climbed = climb(op, device="cpu", timer=timer, ceilings=lambda device, dtype: ceilings, compiled=False)
    climbed.save(folder / "affine.json")
    monkeypatch.setitem(registry._OPS, "warpwise::affine", op)
    monkeypatch.chdir(tmp_path)
    result = run("climb", "affine", "--device", "cpu", "--no-store", *(("--size", size) if size else ()))
    assert ("recorded on" in said(result)) == shown, said(result)


def test_an_attribute_reaches_the_inputs() -> None:
    result = run(
        "climb",
        "softmax",
        "--device",
        "cpu",
        "--rung",
        "k03",
        "--dtype",
        "float32",
        "--no-store",
        "--size",
        "rows=3,columns=40",
        "--attr",
        "masked=true",
    )
    assert result.return_value == 0, said(result)
    result = run(
        "climb",
        "histogram",
        "--device",
        "cpu",
        "--rung",
        "k01",
        "--no-store",
        "--size",
        "n=900,bins=7",
        "--attr",
        "pattern=one_value",
        "--json",
        "/dev/null/x.json",
    )
    assert "cannot be written" in said(result)


def test_the_gradient_is_verified_and_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(
        "climb",
        "polynomial",
        "--device",
        "cpu",
        "--rung",
        "k01",
        "--dtype",
        "float32",
        "--no-store",
        "--json",
        tmp_path / "polynomial.json",
    )
    assert result.return_value == 0, said(result)
    cases = [case for case in registry.get("polynomial").spec.cases if case.values == "normal"]
    assert f"gradient: right ({len(cases)} cases)" in said(result)
    assert json.loads((tmp_path / "polynomial.json").read_text())["gradient"]["status"] == "right"
    assert "gradient" not in said(run("climb", "histogram", "--device", "cpu", "--rung", "k01", "--no-store"))


def test_the_note_to_climb_a_backward_is_for_one_that_is_not_climbed() -> None:
    options, note = (*CLIMB[2:], "--rung", "k01"), "climb polynomial_backward too"
    assert note in said(run("climb", "polynomial", *options))
    assert note not in said(run("climb", "polynomial", "polynomial_backward", *options))


def test_a_rung_selects_the_operations_that_have_it() -> None:
    """A file may define a forward with several rungs and a backward with one."""
    result = run(
        "climb",
        "vector_add",
        "gaussian_blur_backward",
        "--device",
        "cpu",
        "--rung",
        "k03",
        "--dtype",
        "float32",
        "--no-store",
    )
    assert result.return_value == 0, said(result)
    assert "not climbed, without a rung k03: gaussian_blur_backward" in said(result) and "verifying k03" in said(result)
    assert "gaussian_blur_backward: verifying" not in said(result)


def test_a_wrong_gradient_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    backward = registry.get("polynomial").spec.gradient.op
    wrong = dataclasses.replace(backward.spec, reference=lambda grad, x: 1.5 * grad.double() * (2 * x.double() + 1))
    gradient = dataclasses.replace(
        registry.get("polynomial").spec.gradient, backward=dataclasses.replace(backward, spec=wrong)
    )
    replaced(monkeypatch, "polynomial", gradient=gradient)
    result = run("climb", "polynomial", "--device", "cpu", "--rung", "k01", "--dtype", "float32", "--no-store")
    assert result.return_value == 1
    assert "gradient: wrong:" in said(result)
    assert "polynomial_backward's reference: the gradient of" in said(result)


def test_a_rung_held_to_a_configuration_is_climbed_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = registry.get("square")

    def squared(output: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
        output.copy_(x * x)

    rung = dataclasses.replace(honest.rungs[0], launch=squared, configs=lambda x: ("64", "128"))
    monkeypatch.setitem(
        registry._OPS, "warpwise::square", dataclasses.replace(honest, rungs=(rung,), default=lambda x: None)
    )
    result = run("climb", "square", "--device", "cpu", "--dtype", "float32", "--rung", "k01@64")
    assert result.exception is None, said(result)
    assert f"{rung.name}@64" in said(result) and "right" in said(result)
    result = run("climb", "square", "--device", "cpu", "--dtype", "float32", "--rung", "k01@7")
    assert result.return_value == 1
    assert f"untested square {rung.name}@7 on cpu" in said(result) and ": untested:" not in said(result)
    assert "has no configuration '7' for these arguments; there are 64, 128" in said(result)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["climb", "sqare"], "no operation 'sqare'"),
        (["climb", "square.cu"], "expected an operation, or a Python file that defines one"),
        (["climb", "square", "--rung", "k99"], "no rung 'k99'"),
        (["climb", "square", "vector_add", "--rung", "k99"], "square: no rung 'k99'"),
        (["climb", "square", "--size", "huge"], "no size 'huge'"),
        (["climb", "square", "--size", "rows=x"], "expected"),
        (["climb", "square", "--size", "rows=3"], "'rows=3' lacks cols: expected rows=N,cols=N"),
        (["climb", "square", "--attr", "bias=true"], "no attribute 'bias'; it has none"),
        (["climb", "softmax", "--attr", "colour=1"], "no attribute 'colour'; there are dim, masked"),
        (["climb", "softmax", "--attr", "masked"], "expected NAME=VALUE"),
        (["climb", "square", "--dtype", "float7"], "no dtype 'float7'"),
        (["climb", "square", "vector_add", "--json", "results.json"], "need a folder"),
        (["climb", "square", "--json", "/dev/null/results.json"], "cannot be written"),
        (["climb", "square", "--device", "cuad"], "expected 'cpu', 'cuda' or 'cuda:1'"),
        (["climb", "square", "--device", "mps"], "expected 'cpu', 'cuda' or 'cuda:1'"),
        (["climb", "square", "--device", "cuda:99"], "device 'cuda:99': there"),
        (["device", "--target", "sm_1"], "sm_1"),
    ],
)
def test_bad_input_says_what_there_is(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert words in said(result)
    assert result.exception


def test_a_target_is_described() -> None:
    result = run("device", "--target", "sm_90")
    assert result.return_value == 0
    for words in ("9.0 (Hopper)", "227 KiB", "limits only"):
        assert words in said(result)


def test_doctor_finds_the_emulator_working() -> None:
    result = run("doctor")
    assert result.return_value == 0
    assert "ran a kernel of 32 threads" in said(result)


def test_doctor_says_that_the_cache_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWISE_CACHE", "/dev/null/cache")
    result = run("doctor")
    assert not isinstance(result.exception, OSError)
    assert "cannot create the cache folder /dev/null/cache" in said(result)


def test_what_is_said_of_several_rungs_is_said_once() -> None:
    op = registry.get("softmax")
    why = "takes torch.float16, not torch.float32"
    entries = tuple(
        Entry(rung.name, "rung", None, None, why if place < 2 else "") for place, rung in enumerate(op.rungs)
    )
    table = LadderTable(op, op.rungs)
    table.points = [Point(op.spec.sizes[0], torch.float32, entries, "torch.compile")]
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(table)
    text = console.export_text()
    assert text.count(why) == 1
    assert f"{op.rungs[0].name}, {op.rungs[1].name}: {why}" in text


def test_a_legend_explains_the_marks_that_occur() -> None:
    op = registry.get("softmax")
    timing = Timing("", 1.3e-4, 1.29e-4, 1.31e-4, 30, 1.0, "a GPU", "events", Cost(537_000_000), 1.25e-4, "memory")
    table = LadderTable(op, op.rungs)
    entry = Entry(op.rungs[0].name, "rung", dataclasses.replace(timing, throttled=True), Interval(1.14, 1.1, 1.2))
    table.points = [Point(op.spec.sizes[0], torch.float32, (entry,), "torch")]
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(table)
    text = " ".join(console.export_text().split())
    assert "130 µs↓" in text and "↓ the SM clock was low" in text
    assert "launch overhead" not in text and "× torch: speed relative to it" in text


@pytest.mark.parametrize("width, ideas", [(80, False), (150, True)])
def test_a_narrow_terminal_loses_columns_and_no_figures(width: int, ideas: bool) -> None:
    op = registry.get("softmax")
    timing = Timing("", 1.3e-4, 1.29e-4, 1.31e-4, 30, 1.0, "a GPU", "events", Cost(537_000_000), 1.25e-4, "memory")
    entries = tuple(Entry(rung.name, "rung", timing, Interval(1.14, 1.1, 1.2)) for rung in op.rungs)
    table = LadderTable(op, op.rungs)
    table.points = [Point(op.spec.sizes[0], torch.float32, entries, "torch.compile")]
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(table)
    text = console.export_text()
    assert "…" not in text
    assert text.count("4,131 GB/s") == len(op.rungs)
    assert (op.rungs[0].idea in text) == ideas


def test_an_error_in_a_function_of_an_operation_names_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken_one.py"
    assert run("new", "broken_one", "-o", broken).return_value == 0
    lines = broken.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith('    return {"x": draw('))
    lines[at] = "    raise ValueError('no such values')"
    broken.write_text("\n".join(lines))
    result = run("climb", broken, "--device", "cpu", "--no-store")
    assert f"broken_one: ValueError: no such values (inputs, {broken}:{at + 1})" in said(result)
    registry.unregister("broken_one")
