"""Every kernel of every rung compiles for the GPUs that it is made for, which needs no GPU."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

import pytest
import torch
from tests.ops.conftest import ALIKE, COMPILED, EVERY_OP, OF, for_hopper, one_of, rungs

from warpwise import operation
from warpwise.arguments.values import map_tensors, tensors
from warpwise.cuda.launch.intercepted import InterceptedLaunch
from warpwise.operation import Case, Op, Rung, assume_sm_count
from warpwise.tuned import load

META = torch.device("meta")


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)


def _given(op: Op, case: Case, dtype: torch.dtype) -> tuple | None:
    """The arguments of a case on the meta device; None for a timed size of an operation that cannot draw there."""
    if case in op.spec.sizes:  # too large to be drawn on the CPU first
        try:
            return op.spec.arguments(case, dtype, META, 0)
        except RuntimeError:
            return None
    return map_tensors(_on_meta, op.spec.arguments(case, dtype, torch.device("cpu"), 0))


def _arguments(op: Op, rung: Rung, dtype: torch.dtype, cases: Sequence[Case]) -> Iterator[tuple]:
    """The arguments on the meta device that the rung takes: of each case, size and layout that tables distinguish."""
    given = [made for made in (_given(op, case, dtype) for case in cases) if made is not None]
    if op.tables is not None:
        tuned = [op.spec.arguments(case, dtype, META, 0) for case in op.tables.sizes[::6]]
        given += [arranged(*args) for args in tuned for arranged in op.tables.arrangements.values()]
    for args in given:
        if all(tensor.numel() for tensor in tensors(args)) and op.unsupported(rung, *args) is None:
            yield args


def _chosen(op: Op, rung: Rung, dtype: torch.dtype) -> Iterator[tuple[str, tuple]]:
    """The configurations of the rung that shipped tables choose, each with arguments at its point."""
    if op.tables is None or op.tables.folder is None:
        return
    for file in sorted(op.tables.folder.glob("*.json")):
        for point in load(file).points:
            name, _, config = point.winner.partition("@")
            arranged = op.tables.arrangements.get(point.kind)
            if name == rung.name and config and arranged and getattr(torch, point.dtype) == dtype:
                yield config, arranged(*op.spec.arguments(Case("", point.sizes), dtype, META, 0))


def _dtypes(op: Op, rung: Rung) -> list[torch.dtype]:
    return [dtype for dtype in op.spec.dtypes if rung.dtypes is None or dtype in rung.dtypes]


def _name(launch: InterceptedLaunch) -> str:
    return launch.name.partition("<")[0].rpartition("::")[2]


def _kernels(op: Op, rung: Rung, dtype: torch.dtype) -> dict[str, InterceptedLaunch]:
    """The first launch of each kernel of the rung, over all cases, timed sizes, and points of shipped tables."""
    return _kernels_of(op.name, rung.name, dtype)


@functools.cache
def _kernels_of(name: str, rung_name: str, dtype: torch.dtype) -> dict[str, InterceptedLaunch]:
    op = operation.get(name)
    rung = op.rung(rung_name)
    found: dict[str, InterceptedLaunch] = {}
    for args in _arguments(op, rung, dtype, (*op.spec.cases, *op.spec.sizes)):
        for launch in op.kernels(rung, *args):
            found.setdefault(_name(launch), launch)
    for config, args in _chosen(op, rung, dtype):
        for launch in op.kernels(rung.at(config), *args):
            found.setdefault(_name(launch), launch)
    assert found, f"{rung.name} takes no case of {dtype}"
    return found


def _target(rung: Rung, dtype: torch.dtype) -> str:
    """The oldest GPU: Hopper for rungs that use its instructions or clusters; before sm_89 Triton has no fp8."""
    text = rung.source.read_text() if rung.language == "cuda" else ""
    if for_hopper(rung) or "__cluster_dims__" in text or "mbarrier_wait" in text:
        return "sm_90"
    return "sm_89" if dtype.itemsize == 1 and dtype.is_floating_point and rung.language == "triton" else "sm_80"


# Bytes of a thread in local memory, by the beginning of the kernel's name. Of `gradients` before Hopper, at the 128
# registers of a block of 512 threads. Of k03 of linear and addmm: ptxas makes room for seven blocks on an SM, at 72
# registers; a thread loads two words for the 1024 multiply-adds of a k-tile. Of k04 of matmul_tf32, in a
# configuration that no table chooses, and of k11 of matmul with 64 x 64 of a warp, at 255 registers: two words.
SPILLED = {
    "warpwise::gemm::cluster_split_k<warpwise::gemm::MmaMainLoop<float, 64, 64, 32, 32, 32, 8, ": 8,
    "matmul_mma_sync<__half, __half, 256, 128, 64, 64, 128, 4, ": 8,
    "matmul_mma_sync<__half, __half, 128, 128, 64, 64, 128, 3, ": 8,
    "matmul_mma_sync<__half, __half, 128, 128, 64, 64, 64, 5, ": 8,
    "gradients<512, true, true, true, true, false>": 8,
    "gemm_cluster_split_k<warpwise::gemm::SimtMainLoop<64, 64, 32, 32, 32, 4, ": 24,
}


def _compile(launch: InterceptedLaunch, target: str) -> None:
    compiled = launch.compile(target)
    assert compiled.cubin[:4] == b"\x7fELF", f"{launch.name} {target}"
    if launch.language == "cuda":
        assert "serialized" not in compiled.log, f"{launch.name}: wgmma instructions that wait for each other"
        allowed = max((size for name, size in SPILLED.items() if launch.name.startswith(name)), default=0)
        assert max(compiled.spill_stores, compiled.stack) <= allowed, launch.name


LADDERS = rungs("cuda") + rungs("triton")


@pytest.mark.parametrize("op,rung", one_of(OF, rungs("cuda"), COMPILED, also=ALIKE) + one_of(6, rungs("triton")))
def test_every_kernel_compiles(op, rung):
    """For the oldest GPU that the rung is made for, which lacks most instructions, in its first dtype.

    The CUDA rungs that `make test` leaves out here it compiles for sm_90 in tests/machine/test_ops.py.
    """
    pytest.importorskip(
        "cuda.bindings", reason="NVRTC is reached through cuda.core and cuda-bindings", exc_type=ImportError
    )
    dtype = _dtypes(op, rung)[0]
    for launch in _kernels(op, rung, dtype).values():
        _compile(launch, _target(rung, dtype))


@pytest.mark.full
@pytest.mark.parametrize("op,rung", LADDERS)
def test_every_kernel_compiles_in_every_dtype(op, rung):
    """For sm_90: older GPUs differ in instructions, not in types."""
    for dtype in _dtypes(op, rung):
        for launch in _kernels(op, rung, dtype).values():
            _compile(launch, "sm_90")


@pytest.mark.full
@pytest.mark.parametrize("op,rung", LADDERS)
def test_every_configuration_compiles(op, rung):
    """In the first dtype, at the first timed size that the rung takes, in each layout."""
    dtype = _dtypes(op, rung)[0]
    compiled = set()
    for args in _arguments(op, rung, dtype, (*op.spec.sizes, *op.spec.cases)):
        for config in rung.configs(*args):
            for launch in op.kernels(rung.at(config), *args):
                if (config, launch.name) not in compiled:
                    compiled.add((config, launch.name))
                    _compile(launch, "sm_90")
        if len(compiled) >= 40:
            return


@pytest.mark.parametrize("name,sizes,registers,spilled", [
    ("batch_norm_backward", {"n": 9, "c": 225, "h": 104, "w": 31}, 64, 32), ("matvec", {"m": 4724, "k": 608}, 76, 0),
    ("softmax_backward", {"rows": 20001, "columns": 4001}, 80, 0),
])  # fmt: skip
def test_packs_of_halves_are_words_in_registers(name, sizes, registers, spilled):
    """Bytes of local memory and registers of the kernel that holds most: a half in a register of its own takes two."""
    pytest.importorskip("cuda.bindings", exc_type=ImportError)
    op, attributes = operation.get(name), {"dim": 0} if name == "softmax_backward" else {}
    args = op.spec.arguments(Case("", sizes, attributes), torch.bfloat16, META, 0)
    with assume_sm_count(132):
        compiled = [launch.compile("sm_90") for launch in op.kernels(op.rung(op.default(*args)), *args)]
    assert max(one.registers for one in compiled) <= registers
    assert max(one.spill_stores for one in compiled) <= spilled


@pytest.mark.parametrize("op,rung", rungs("cuda"))
def test_every_kernel_of_a_source_is_launched(op, rung):
    """A ``__global__`` function that no case, timed size or point of a table reaches is dead code, or lacks a case."""
    text = re.sub(r"//[^\n]*", "", rung.source.read_text())
    parentheses = r"\([^()]*\)"
    for _ in range(4):  # one inside the other
        parentheses = rf"\((?:[^()]|{parentheses})*\)"
    attribute = rf"(?:__\w+__|WARPWISE_\w+)\s*{parentheses}\s*"
    declared = set(re.findall(rf"__global__\s+void\s+(?:{attribute})*(\w+)\s*\(", text))
    launched = set().union(*(_kernels(op, rung, dtype) for dtype in _dtypes(op, rung)))
    assert declared <= launched


def _readme(rung: Rung):
    folder = rung.source.parent
    found = [parent / "README.md" for parent in (folder, folder.parent) if (parent / "README.md").exists()]
    assert found, f"{folder}: no README.md; it has the floor and a table with each rung"
    return found[0]


@pytest.mark.parametrize("op,rung", LADDERS)
def test_kernel_files_say_what_they_change(op, rung):
    """Line 1 of a kernel file is its idea; a rung's name is its file's."""
    assert rung.source.stem == rung.name
    first = rung.source.read_text().splitlines()[0]
    assert first.startswith(("// ", '"""', "# "))
    assert len(first) > 40, f"{rung.source.name}: {first}"


@pytest.mark.parametrize("op,rung", rungs())
def test_every_rung_is_in_its_readme(op, rung):
    readme = _readme(rung)
    assert rung.name in readme.read_text(), f"{readme} does not mention {rung.name}"


@pytest.mark.parametrize("op", EVERY_OP)
def test_kernel_folders_hold_no_stray_kernel(op):
    """A kernel file that no rung launches is dead code, as is a launcher of no kernel's name."""
    folder = op.rungs[0].source.parent
    known = {rung.source for other in EVERY_OP for rung in other.values[0].rungs}
    launchers = {source.with_suffix(".py") for source in known}
    assert set(folder.glob("k[0-9][0-9]_*")) <= known | launchers


@pytest.mark.parametrize("op", EVERY_OP)
def test_rungs_for_a_cpu_make_no_launches(op):
    args = map_tensors(_on_meta, op.spec.arguments(op.spec.cases[0], op.spec.dtypes[0], torch.device("cpu"), 0))
    for rung in op.rungs:
        assert "cuda" in rung.devices or op.kernels(rung, *args) == []
