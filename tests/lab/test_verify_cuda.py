"""CUDA C++ kernels through verify on the CPU: the emulator's findings become the verdict, and correct kernels pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.lab import toys

from warpwise import cuda
from warpwise.cuda.emulator import compiler
from warpwise.lab import verify

MODULE = cuda.load(Path(__file__).parent / "kernels.cu")
F32 = [torch.float32]


def elementwise(kernel, per_thread=1, block=256, timeout=60.0):
    def launch(out, x):
        n = len(x)
        MODULE[kernel][-(-n // (block * per_thread)), block](x, cuda.out(out), n, timeout=timeout)

    launch.__name__ = kernel
    return launch


def a_row_a_block(kernel):
    def launch(out, x):
        MODULE[kernel][x.shape[0], 64](x, cuda.out(out), x.shape[1])

    launch.__name__ = kernel
    return launch


def one_block(kernel):
    def launch(out, x):
        MODULE[kernel][1, 128](x, cuda.out(out), len(x))

    launch.__name__ = kernel
    return launch


def a_float_for_the_length(out, x):
    MODULE["affine"][1, 256](x, cuda.out(out), float(len(x)) + 0.5)


def too_many_threads(out, x):
    MODULE["affine"][1, 2048](x, cuda.out(out), len(x))


def half_for_float(out, x):
    MODULE["affine"][1, 256](x.half(), cuda.out(out), len(x))


AFFINE, ROW_SUM, COUNTS = toys.AFFINE, toys.ROW_SUM, toys.COUNTS

BROKEN = [
    (AFFINE, elementwise("no_guard"), cuda.OutOfBounds, "ragged"),
    (AFFINE, elementwise("guard_off_by_one"), cuda.OutOfBounds, "ragged"),
    (AFFINE, elementwise("tail_forgotten"), cuda.UnwrittenOutput, "ragged"),
    (AFFINE, elementwise("writes_its_input"), cuda.ReadOnlyWrite, "even"),
    (AFFINE, elementwise("unaligned_vectors", per_thread=4), cuda.MisalignedAccess, "unaligned"),
    (AFFINE, elementwise("adds_to_its_output"), cuda.UninitializedRead, "even"),
    (AFFINE, elementwise("barrier_in_a_branch"), cuda.BarrierDivergence, "ragged"),
    (AFFINE, elementwise("never_ends", timeout=0.5), cuda.KernelTimeout, "even"),
    (AFFINE, elementwise("asserts_too_much"), cuda.KernelAssertion, "huge"),
    (AFFINE, elementwise("local_array_too_short"), cuda.UndefinedBehaviour, "even"),
    (ROW_SUM, a_row_a_block("missing_barrier"), cuda.DataRace, "even"),
    (ROW_SUM, a_row_a_block("shared_memory_unset"), cuda.UninitializedRead, "one"),
    (COUNTS, one_block("counts_without_atomics"), cuda.DataRace, "even"),
]  # fmt: skip


@pytest.mark.parametrize("spec,launch,kind,case", BROKEN, ids=[entry[1].__name__ for entry in BROKEN])
def test_what_the_emulator_finds_is_the_verdict(spec, launch, kind, case):
    verdict = verify(toys.op(spec, launch, language="cuda"), launch.__name__, device="cpu", dtypes=spec.dtypes[:1])
    assert verdict.status == "wrong"
    failure = next(failure for failure in verdict.failures if failure.case.name == case)
    assert failure.kind == "finding"
    assert [finding.kind for finding in failure.findings] == [kind]
    assert kind.__name__ in str(verdict)


REFUSED = [
    (a_float_for_the_length, cuda.ArgumentError, "n"),
    (half_for_float, cuda.ArgumentError, "x"),
    (too_many_threads, cuda.LaunchError, "1,?024"),
    (elementwise("does_not_compile"), cuda.CompileError, "z"),
]


@pytest.mark.parametrize("launch,kind,said", REFUSED, ids=[entry[0].__name__ for entry in REFUSED])
def test_a_launch_that_is_refused_is_a_failure(launch, kind, said):
    verdict = verify(toys.op(AFFINE, launch, language="cuda"), launch.__name__, device="cpu", dtypes=F32)
    assert verdict.status == "wrong"
    assert {failure.kind for failure in verdict.failures} == {"finding"}
    with pytest.raises(kind, match=said):
        launch(torch.empty(8), torch.ones(8))


def test_a_clean_kernel_with_a_wrong_formula_is_wrong_by_value():
    launch = elementwise("wrong_offset")
    verdict = verify(toys.op(AFFINE, launch, language="cuda"), "wrong_offset", device="cpu", dtypes=F32)
    assert verdict.failures[0].kind == "value"
    assert verdict.failures[0].smaller is not None
    assert verdict.failures[0].smaller.case.sizes == {"n": 1}


def test_a_missing_guard_is_shrunk_to_the_smallest_ragged_size():
    launch = elementwise("no_guard", block=32)
    verdict = verify(toys.op(AFFINE, launch, language="cuda"), "no_guard", device="cpu", dtypes=F32)
    first = verdict.failures[0]
    assert first.case.name == "ragged"
    assert first.smaller is not None
    assert first.smaller.case.sizes == {"n": 1}
    assert first.smaller.findings[0].kind is cuda.OutOfBounds


def test_a_kernel_that_does_not_compile_is_tried_once_a_dtype():
    launch = elementwise("does_not_compile")
    verdict = verify(toys.op(AFFINE, launch, language="cuda"), "does_not_compile", device="cpu", dtypes=F32)
    assert len(verdict.cases) == 1
    assert verdict.failures[0].smaller is None
    assert "does not compile for float32" in str(verdict)


def test_a_kernel_that_never_ends_stops_the_verification():
    launch = elementwise("never_ends", timeout=0.2)
    verdict = verify(toys.op(AFFINE, launch, language="cuda"), "never_ends", device="cpu", dtypes=F32)
    assert len(verdict.cases) == 1
    assert "stopped there" in str(verdict)


def test_what_the_emulator_cannot_do_is_untested_not_wrong():
    def unsupported(out, x):
        raise cuda.UnsupportedFeature("wgmma needs sm_90 hardware (line 3)")

    verdict = verify(toys.op(AFFINE, unsupported, language="cuda"), "unsupported", device="cpu")
    assert verdict.status == "untested"
    assert "wgmma needs sm_90 hardware" in str(verdict)


def test_without_a_compiler_a_rung_is_untested_not_wrong(monkeypatch):
    monkeypatch.setenv("WARPWISE_CXX", "no-such-compiler")
    kernel = cuda.load("__global__ void affine(const float* x, float* y) { y[0] = 2 * x[0] + 1; }")["affine"]

    def affine(out, x):
        kernel[1, 1](x, cuda.out(out))

    verdict = verify(toys.op(AFFINE, affine, language="cuda"), "affine", device="cpu", dtypes=F32)
    assert verdict.status == "untested" and not verdict.failures
    assert "WARPWISE_CXX='no-such-compiler': there is no such program" in str(verdict)


@pytest.mark.parametrize("module, status", [("triton.language", "untested"), ("tritn", "wrong")])
def test_without_triton_a_rung_is_untested_and_with_a_misspelt_import_it_is_wrong(module, status):
    def imports(out, x):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    verdict = verify(toys.op(AFFINE, imports, language="triton"), "imports", device="cpu", dtypes=F32)
    assert verdict.status == status
    assert f"No module named '{module}'" in str(verdict)


def test_without_nvrtc_a_rung_is_untested():
    def compiles(out, x):
        try:
            raise ModuleNotFoundError("No module named 'cuda'", name="cuda")
        except ImportError as error:
            raise ImportError("compiling for a GPU needs NVRTC: pip install it") from error

    verdict = verify(toys.op(AFFINE, compiles, language="cuda"), "compiles", device="cpu", dtypes=F32)
    assert verdict.status == "untested" and "compiling for a GPU needs NVRTC" in str(verdict)


HONEST = [(AFFINE, elementwise("affine")), (ROW_SUM, a_row_a_block("row_sum")), (COUNTS, one_block("counts_shared"))]


@pytest.mark.parametrize("spec,launch", HONEST, ids=[launch.__name__ for _, launch in HONEST])
def test_an_honest_kernel_is_right(spec, launch):
    verdict = verify(toys.op(spec, launch, language="cuda"), launch.__name__, device="cpu", dtypes=spec.dtypes[:1])
    assert verdict.right, str(verdict)


ALIGNED = """
template <int SIZE> __global__ void affine_of(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + 1;
}
"""


def test_one_compiler_run_builds_the_kernels_of_all_cases(monkeypatch, tmp_path):
    """The rung launches one instantiation for inputs that are aligned to 16 bytes, and another for the others."""
    module = cuda.load(f"// {tmp_path}: not in the cache{ALIGNED}")
    runs, compile = [], compiler._compile

    def affine_of(out, x):
        size = 16 if x.data_ptr() % 16 == 0 else 4
        module[f"affine_of<{size}>"][-(-len(x) // 256), 256](x, cuda.out(out), len(x))

    def counted(*args):
        runs.append(args)
        return compile(*args)

    monkeypatch.setattr(compiler, "_compile", counted)
    verdict = verify(toys.op(AFFINE, affine_of, language="cuda"), "affine_of", device="cpu", dtypes=F32)
    assert verdict.right, str(verdict)
    assert len(runs) == 1
