"""Labelled kernels: each race is found under at least one schedule, and no correct kernel has a finding under any.

The comment above a kernel is its label: the numbers of blocks and of threads, then ``ok``, or ``race`` and a part of
the finding, or ``diverges`` and a part of that finding, or ``missed`` and the reason why the emulator does not find it.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import BarrierDivergence, DataRace, Finding

FOLDER = Path(__file__).parent
FILES = (
    "one_block.cu",
    "blocks.cu",
    "atomics_and_locks.cu",
    "patterns.cu",
    "volatile_data.cu",
    "readers.cu",
    "warps.cu",
)
LABEL = re.compile(r"^// (\d+) (\d+) (ok|race|diverges|missed)(?:: (.*))?\n__device__ void (\w+)", re.MULTILINE)
LABELS = {file: LABEL.findall((FOLDER / file).read_text()) for file in FILES}
SCHEDULES = (("forward", 0), ("reverse", 0), ("shuffle", 1), ("shuffle", 2))


def suite(file: str) -> cuda.Kernel:
    """One kernel that calls the device function of a number: a compilation takes longer than all launches."""
    cases = "".join(f"    case {i}: {label[-1]}(data, flag); break;\n" for i, label in enumerate(LABELS[file]))
    kernel = f"__global__ void f(int which, int* data, int* flag) {{\n  switch (which) {{\n{cases}  }}\n}}\n"
    return cuda.load(f"{(FOLDER / file).read_text()}\n{kernel}")["f"]


KERNELS = {file: suite(file) for file in FILES}


def findings(file: str, index: int, blocks: int, threads: int) -> list[Finding]:
    """The findings under all schedules."""
    found = []
    for order, seed in SCHEDULES:
        data, flag = np.zeros(1024, "i4"), np.zeros(64, "i4")
        found += KERNELS[file][blocks, threads].check(index, data, flag, order=order, seed=seed)
    return found


@pytest.mark.parametrize(
    "file, index",
    [pytest.param(file, index, id=label[-1]) for file, labels in LABELS.items() for index, label in enumerate(labels)],
)
def test_a_labelled_kernel(file: str, index: int) -> None:
    blocks, threads, label, text, _ = LABELS[file][index]
    found = findings(file, index, int(blocks), int(threads))
    if kind := {"race": DataRace, "diverges": BarrierDivergence}.get(label):
        assert any(text in str(finding) for finding in found if finding.kind is kind), [*map(str, found)]
    else:  # a missed race has no finding either: once it is found, its label must change
        assert [*map(str, found)] == []


@pytest.mark.parametrize("file", FILES)
def test_each_kernel_has_a_label(file: str) -> None:
    text = (FOLDER / file).read_text()
    assert len(LABELS[file]) == len(re.findall(r"^__device__ void", text, re.MULTILINE))
    assert len({label[-1] for label in LABELS[file]}) == len(LABELS[file])
