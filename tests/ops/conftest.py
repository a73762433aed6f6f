"""The operations of the package and their rungs, as parameters of tests."""

from __future__ import annotations

import functools
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
import torch
from tests.sampled import FULL

import warpwise.ops
from warpwise import operation
from warpwise.operation import Case, Op, Rung

HOME = Path(warpwise.ops.__file__).parents[1]
OPS: list[Op] = [op for op in operation.all_ops() if all(HOME in rung.source.parents for rung in op.rungs)]
RUNGS: list[tuple[Op, Rung]] = [(op, rung) for op in OPS for rung in op.rungs]


@functools.lru_cache(maxsize=4)
def problem(op: str, device: str):
    """The references of one operation, shared by the tests of its rungs."""
    from warpwise import lab

    return lab.Problem(operation.get(op), torch.device(device))


def for_hopper(rung: Rung) -> bool:
    """True for a CUDA rung that Hopper alone runs."""
    return rung.language == "cuda" and rung.idea.startswith("Hopper")


def on_cpu(rung: Rung) -> bool:
    """True for a rung that runs on a CPU, and fast: the emulator takes seconds to compile a kernel for Hopper."""
    return "cpu" in rung.devices and not for_hopper(rung)


# Rungs for Hopper of which `make test` verifies no sample of cases on a CPU: they share their main loop with one of
# which it does. What executes them: tests, or one case in one dtype and configuration, which is one kernel to compile.
# The three others differ from what is executed by an instruction or a factor.
ALIKE: dict[str, str | tuple[str, torch.dtype, str]] = {
    "addmm k02_warpgroups": "as linear's k02_warpgroups, of the same source: without alpha and beta",
    "batched_matmul k02_warp_specialised": ("ragged_tiles", torch.float32, "64x64x32_s5"),
    "batched_matmul k03_overlapped_epilogue": "test_batched_matmul.py::test_a_mask_of_stray_rows_is_not_needed",
    "batched_matmul k04_cluster_split_k": "test_batched_matmul.py::test_any_size_and_layout",
    "grouped_matmul k02_overlapped_epilogue": "test_grouped_matmul.py",
    "grouped_matmul k03_warp_specialised": "test_grouped_matmul.py::test_every_configuration_of_float32",
    "grouped_matmul_backward k02_overlapped_epilogue": ("past_the_end", torch.float16, "64x64x64_s8"),
    "linear k02_warpgroups": ("several_tiles", torch.float16, "64x64x64_s8_c1x1"),
    "linear k03_cluster_split_k": "test_linear.py::test_warps_that_divide_k",
    "matmul k18_warpgroups_int8": ("several_tiles", torch.int8, ""),
    "matmul k19_padded": "test_matmul_padded.py",
    "matmul k22_variable_m_tiles": "test_matmul_variable.py",
    "matmul_tf32 k03_skinny": "as matmul's k16_skinny, by the instruction of k02: test_skinny.py",
    "scaled_matmul k02_two_k_tile_promotion": ("several_tiles", torch.float8_e4m3fn, "128x128x128_s6"),
    "scaled_matmul k03_skinny": "as matmul's k16_skinny, by the instruction of k02: test_skinny.py",
}


def rungs(language: str = "", device: str = "", slow: bool = False) -> list:
    """Parameters ``op,rung``: all rungs, or those of one language, or those that run on one kind of device.

    ``slow``: of rungs for Hopper with the same main loop, all but one are marked ``full``.
    """
    return [
        pytest.param(op, rung, id=f"{op.name}-{rung.name}", marks=[FULL] if slow and _name(op, rung) in ALIKE else [])
        for op, rung in RUNGS
        if (not language or rung.language == language) and (not device or device in rung.devices)
    ]


def one_of(every: int, parameters: list, places: tuple[int, ...] = (0,), also: Collection[str] = ()) -> list:
    """Parameters ``op,rung``, marked ``full`` but for those whose number modulo ``every`` is in ``places``.

    ``also`` names rungs that are chosen too: "matmul k19_padded". The numbers run through all operations, so that
    neighbouring rungs, which mostly share headers, differ in what `make test` does with them.
    """
    return [
        pytest.param(
            *one.values,
            id=one.id,
            marks=[*one.marks, *([] if number % every in places or _name(*one.values) in also else [FULL])],
        )
        for number, one in enumerate(parameters)
    ]


def _name(op: Op, rung: Rung) -> str:
    return f"{op.name} {rung.name}"


# NVRTC compiles every CUDA rung in `make test`. Of 48 it executes the machine code of one, which takes three times
# as long as compiling it, most of it in the disassembler; the others it compiles for the oldest GPU.
EXECUTED, OF = (0,), 48
COMPILED = tuple(range(1, OF))


# Kernels of these types differ from those of the other type by a conversion only.
TWINS = {torch.float16: torch.bfloat16, torch.float8_e5m2: torch.float8_e4m3fn}


def sampled_dtypes(op: Op, rung: Rung) -> list[torch.dtype]:
    """One dtype that the rung takes, that which fewest rungs before it have; several of an operation of few rungs.

    ``TWINS`` count as one dtype, of which the rungs have the one and the other in turn.
    """
    return _sampled_dtypes(op.name)[rung.name]


@functools.cache
def _sampled_dtypes(name: str) -> dict[str, list[torch.dtype]]:
    """By rung; those of ``ALIKE`` come last."""
    op, sampled, times = operation.get(name), dict[str, list[torch.dtype]](), Counter[torch.dtype]()
    alike = [rung for rung in op.rungs if "cpu" not in rung.devices or _name(op, rung) in ALIKE]
    others = [rung for rung in op.rungs if rung not in alike]
    several = -(-len(_twins(op.spec.dtypes)) // max(1, len(others)))
    first = zlib.crc32(name.encode())
    for rung in (*others, *alike):
        twins = _twins([dtype for dtype in op.spec.dtypes if rung.dtypes is None or dtype in rung.dtypes])
        chosen = sorted(twins, key=lambda dtype: times[dtype])[:several]
        sampled[rung.name] = [twins[dtype][(first + times[dtype]) % len(twins[dtype])] for dtype in chosen]
        times.update(chosen)
    return sampled


def _twins(dtypes: Sequence[torch.dtype]) -> dict[torch.dtype, list[torch.dtype]]:
    """``dtypes``, of ``TWINS`` the second, each with its twin if that is among them too."""
    alone = [dtype for dtype in dtypes if TWINS.get(dtype) not in dtypes]
    return {dtype: [dtype, *(each for each in dtypes if TWINS.get(each) is dtype)] for dtype in alone}


def sample(op: Op, rung: Rung) -> tuple[list[torch.dtype], list[Case]]:
    """The sampled dtypes, and cases that together are of every kind (``kinds``: ragged, empty, strided ...) that the
    rung takes in them; two of them at least have elements. The search begins at another case for the next rung.
    """
    from warpwise.lab.verify.problem import kinds

    number, dtypes = op.rungs.index(rung), sampled_dtypes(op, rung)

    def takes(case: Case) -> bool:
        return op.refusal(rung, *op.spec.arguments(case, dtypes[0], torch.device("cpu"), 0)) is None

    taken = [case for case in op.spec.cases if takes(case)]
    first = number % max(1, len(taken))
    left = taken[first:] + taken[:first]
    wanted = set[str]().union(*(kinds(case, op.spec.cases) for case in taken))
    cases: list[Case] = []
    while left and (wanted or sum(all(case.sizes.values()) for case in cases) < 2):
        best = max(left, key=lambda case: (len(kinds(case, op.spec.cases) & wanted), all(case.sizes.values())))
        left.remove(best)
        cases.append(best)
        wanted -= kinds(best, op.spec.cases)
    return dtypes, [case for case in taken if case in cases]


EVERY_OP = [pytest.param(op, id=op.name) for op in OPS]
