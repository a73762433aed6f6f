"""Every kernel of every rung compiles for the GPUs that it is meant for, which needs no GPU."""

from __future__ import annotations

import importlib

import pytest
import torch
from tests.ops.conftest import EVERY_OP, HOME, rungs
from tests.sampled import FULL

from warpwise import cuda
from warpwise import triton as wt
from warpwise.triton.kernel import BoundKernel


def _case(op, rung, dtype):
    """The first usual case, whose arguments the rung takes."""
    for case in op.spec.cases:
        args = op.spec.arguments(case, dtype, torch.device("cpu"), 0)
        if not any(value.numel() == 0 for value in args if isinstance(value, torch.Tensor)) and not op.refusal(
            rung, *args
        ):
            return args
    pytest.skip(f"{rung.name} takes no case of {dtype}")


def _dtypes(op, rung, others):
    """The first, or the others."""
    found = [dtype for dtype in op.spec.dtypes if rung.dtypes is None or dtype in rung.dtypes]
    return found[1:] if others else found[:1]


DTYPES = pytest.mark.parametrize(
    "others", [pytest.param(False, id="first"), pytest.param(True, id="others", marks=FULL)]
)


@DTYPES
@pytest.mark.parametrize("op,rung", rungs("cuda"))
def test_cuda_rungs_compile(op, rung, others, monkeypatch):
    """For sm_90 in every dtype; for sm_80 in the first, since what differs there is instructions, not types."""
    pytest.importorskip(
        "cuda.bindings", reason="NVRTC is reached through cuda.core and cuda-bindings", exc_type=ImportError
    )
    launched: list[cuda.Kernel] = []
    monkeypatch.setattr(cuda.Launcher, "__call__", lambda self, *args, **options: launched.append(self.kernel))
    for dtype in _dtypes(op, rung, others):
        launched.clear()
        args = _case(op, rung, dtype)
        op.launch(rung, op.allocate(*args), *args)
        assert launched, f"{rung.name} launched nothing"
        for kernel in launched:
            for target in ("sm_90", "sm_80") if not others else ("sm_90",):
                made = kernel.compile(target)
                assert made.cubin[:4] == b"\x7fELF", f"{kernel} {target}"


@DTYPES
@pytest.mark.parametrize("op,rung", rungs("triton"))
def test_triton_rungs_compile(op, rung, others, monkeypatch):
    """For sm_90 in every dtype, for sm_80 in the first, or sm_89, before which Triton has no fp8 of three mantissa bits."""
    launched: list[tuple[wt.Kernel, tuple, dict]] = []
    monkeypatch.setattr(BoundKernel, "__call__", lambda self, *args, **meta: launched.append((self.kernel, args, meta)))
    for dtype in _dtypes(op, rung, others):
        launched.clear()
        args = _case(op, rung, dtype)
        op.launch(rung, op.allocate(*args), *args)
        assert launched, f"{rung.name} launched nothing"
        oldest = "sm_89" if dtype == torch.float8_e4m3fn else "sm_80"
        for kernel, given, meta in launched:
            for target in ("sm_90", oldest) if not others else ("sm_90",):
                assert kernel.compile_for(*given, target=target, **meta).cubin[:4] == b"\x7fELF"


@pytest.mark.parametrize("op,rung", rungs("cuda") + rungs("triton"))
def test_kernel_files_say_what_they_change(op, rung):
    """Line 1 of a kernel file is its idea; a rung's name is its file's."""
    assert rung.source.stem == rung.name
    first = rung.source.read_text().splitlines()[0]
    assert first.startswith(("// ", '"""', "# "))
    assert len(first) > 40, f"{rung.source.name}: {first}"


@pytest.mark.parametrize("op,rung", rungs())
def test_every_rung_is_in_its_readme(op, rung):
    folder = rung.source.parent
    readme = (folder.parent if folder.name in ("forward", "backward") else folder) / "README.md"
    assert rung.name in readme.read_text(), f"{readme} does not mention {rung.name}"


@pytest.mark.parametrize("op", EVERY_OP)
def test_kernel_folders_hold_no_stray_kernel(op):
    """A kernel file that no rung launches is dead code."""
    folder = op.rungs[0].source.parent
    module = importlib.import_module(".".join(["warpwise.ops", *folder.relative_to(HOME).parts, "rungs"]))
    ladders = [
        value for value in vars(module).values() if isinstance(value, tuple) and value and hasattr(value[0], "source")
    ]
    known = {rung.source.name for ladder in ladders for rung in ladder}
    files = {path.name for path in folder.glob("k[0-9][0-9]_*")}
    assert files <= known
