"""``warpwise check`` of kernels and rungs in Python files."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.checking import check, said

from warpwise import operation
from warpwise.cli import cli

PYTHON_KERNELS = """
import triton
import triton.language as tl
import warpwise as ww

@JIT
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

MODULE = ww.cuda.load("__global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }")
"""
ADD = ("--kernel", "add", "--grid", "4", "--arg", "x=f32[1000]", "--arg", "y=f32[1000]", "--arg", "BLOCK=256")


@pytest.mark.parametrize("decorator", ["triton.jit", "ww.triton.jit"])
def test_a_triton_kernel_of_a_python_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decorator: str) -> None:
    (tmp_path / "kernels_of_check.py").write_text(PYTHON_KERNELS.replace("JIT", decorator))
    (tmp_path / "reference_of_add.py").write_text("def add(x, y, out, n, BLOCK, num_warps): return x + y\n")
    monkeypatch.chdir(tmp_path)
    given = (*ADD, "--arg", "out=out:f32[1000]", "--arg", "num_warps=2", "--reference", "reference_of_add:add")
    done = check("kernels_of_check.py", *given, "--arg", "n=1000")
    assert done.return_value == 0, said(done)
    assert "no finding in add, equals the reference" in said(done)
    done = check("kernels_of_check.py", *given, "--arg", "n=1001")
    assert done.return_value == 1 and "OutOfBounds: add" in said(done) and "kernels_of_check.py:9" in said(done)


def test_a_cuda_kernel_of_a_python_file(tmp_path: Path) -> None:
    path = tmp_path / "kernels_of_check.py"
    path.write_text(PYTHON_KERNELS.replace("JIT", "triton.jit"))
    given = ("--kernel", "twice", "--grid", "1", "--block", "32", "--arg", "x=f32[32]", "--arg")
    assert check(path, *given, "y=out:f32[32]").return_value == 0
    done = check(path, *given, "y=f32[31]")
    assert done.return_value == 1 and "(kernels_of_check.py:11)" in said(done)


def test_a_whole_program_is_for_run(tmp_path: Path) -> None:
    path = tmp_path / "program.cu"
    path.write_text("// The main (only) loop.\n__global__ void fill(int *x) { *x = 1; }\n")
    assert "the file declares fill(int* x)" in said(check(path)) and "warpwise run" not in said(check(path))
    path.write_text(path.read_text() + "int\nmain(int argc, char **argv) { return 0; }\n")
    assert "the file defines main: `warpwise run program.cu` runs the whole program" in said(check(path))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--kernel", "ad", "--grid", "1"], "no kernel 'ad'; did you mean 'add'?"),
        (["--kernel", "add"], "needs --kernel and --grid; there are add, twice"),
        (["--kernel", "twice", "--grid", "1"], "twice: a launch needs --kernel, --grid, --block; missing: --block"),
        ([*ADD, "--arg", "m=3", "--arg", "n=3", "--arg", "out=f32[3]"], "'m' is neither a parameter nor"),
        ([*ADD, "--arg", "n=3"], "missing a required argument: 'out'"),
        ([], "for one of its kernels (add, twice) give --kernel, --grid and --arg"),
    ],
)
def test_what_is_missing_for_a_python_file(tmp_path: Path, arguments: list[str], words: str) -> None:
    path = tmp_path / "kernels_of_check.py"
    path.write_text(PYTHON_KERNELS.replace("JIT", "triton.jit"))
    assert words in said(check(path, *arguments))


def test_a_rung_is_checked_on_the_operations_own_cases():
    done = CliRunner().invoke(cli, ["check", "vector_add:k01"], standalone_mode=False)
    assert done.return_value == 0
    assert "no finding in vector_add:k01_thread_per_element on" in done.output


BROKEN_RUNG = '''
from pathlib import Path

import torch
from warpwise import cuda
from warpwise.operation import Case, Cost, Op, Output, Rung, Spec, register

KERNEL = cuda.load("""
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * 32 + threadIdx.x;
  y[i] = 2 * x[i];
}
""")["twice"]
SPEC = Spec(
    "twice_broken(Tensor x) -> Tensor", {"output": Output()}, lambda x: 2 * x.double(),
    lambda case, dtype, device, seed: {"x": torch.ones(case.sizes["n"], device=device)}, lambda x: 2 * x,
    lambda x: Cost(8 * x.numel()), (Case("whole", {"n": 64}), Case("ragged", {"n": 33})), (Case("large", {"n": 64}),),
)
def launch(y, x): KERNEL[-(-len(x) // 32), 32](x, cuda.out(y), len(x))
RUNG = Rung("k01_unguarded", "no guard", "cuda", launch, Path(__file__))
register(Op(SPEC, (RUNG,)))
'''


@pytest.fixture
def withdrawn():
    yield
    operation.unregister("twice_broken")


def test_a_rung_of_ones_own_file_and_what_is_wrong_with_it(tmp_path, withdrawn):
    path = tmp_path / "twice_broken.py"
    path.write_text(BROKEN_RUNG)
    done = CliRunner().invoke(cli, ["check", f"{path}:k01"], standalone_mode=False)
    assert done.return_value == 1
    assert "ragged(n=33), float32" in done.output and "OutOfBounds: twice: read of x[33]" in done.output
    assert "whole" not in done.output
    for what, message in (
        (str(path), f"expected {path}:RUNG"),
        (f"{path}:k09", "no rung 'k09'"),
        ("softmaxx:k01", "did you mean"),
    ):
        done = CliRunner().invoke(cli, ["check", what])
        assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output
    done = CliRunner().invoke(cli, ["check", "twice.cu"])
    assert "no file 'twice.cu'" in done.output


def test_a_rung_without_a_compiler_ends_with_its_message(tmp_path, withdrawn, monkeypatch):
    path = tmp_path / "twice_broken.py"
    path.write_text(BROKEN_RUNG)
    monkeypatch.setenv("WARPWISE_CXX", "no-such-compiler")
    done = check(f"{path}:k01")
    assert done.return_value == 1
    assert said(done).startswith("MissingTool: running a kernel on the CPU needs a C++17 compiler: WARPWISE_CXX=")


@pytest.mark.parametrize("what", ["twice_broken.py", "twice_broken.py:twice_broken"])
def test_the_command_that_is_recommended_verifies_the_rung(tmp_path, withdrawn, monkeypatch, what):
    (tmp_path / "twice_broken.py").write_text(BROKEN_RUNG.replace('("ragged", {"n": 33})', '("ragged", {"n": 32})'))
    monkeypatch.chdir(tmp_path)
    done = check(f"{what}:k01")
    assert done.return_value == 0, said(done)
    assert f"`warpwise climb {what} --rung k01_unguarded` verifies its results" in said(done)


def test_a_rung_that_takes_no_case_says_why():
    found = said(check("matmul:k11@7x7"))
    assert "accepts none of the operation's cases on a CPU" in found
    assert "has no configuration '7x7' for these arguments; there are 64x64x32_w32x32_s4" in found
