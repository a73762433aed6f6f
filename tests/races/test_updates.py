"""Read-modify-writes without an atomic: one finding, which names the atomic function, the line and both threads."""

from __future__ import annotations

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import DataRace

UPDATES = {
    "data[0]++;": "use atomicAdd",
    "data[0] += 2;": "use atomicAdd",
    "if (threadIdx.x < 60 && flag[0] == 0) data[0] += 2;": "use atomicAdd",
    "data[0] -= 2;": "use atomicSub",
    "data[0] |= 1 << threadIdx.x % 31;": "use atomicOr",
    "data[0] = data[0] + 1;": "use atomicAdd",
    "data[0] = max(data[0], int(threadIdx.x));": "use atomicMax",
    "int old = data[0]; data[0] = old + 1;": "use atomicAdd",
    "if (data[0] < threadIdx.x) data[0] = threadIdx.x;": "use atomicMax",
    "if (data[0] > -int(threadIdx.x))\n data[0] = -int(threadIdx.x);": "use atomicMin",
    "if (threadIdx.x < 32) atomicAdd(data, 1); else data[0] += 1;": "use atomicAdd",
    "atomicAdd(flag, 1); data[0]++;": "use atomicAdd",
    # A sum by atomicCAS is no lock.
    "for (int x = 0, old; (old = atomicCAS(flag, x, x + 1)) != x; x = old) {} data[0]++;": "use atomicAdd",
    "while (atomicCAS(flag, 0, 1)) {}\n data[0]++; atomicExch(flag, 0);": (
        "no fence (release) separates the other access from the write at line 16 that frees the lock: use "
        "__threadfence() there and after taking it"
    ),
}
SOURCE = "\n".join(f"__global__ void update_{i}(int* data, int* flag) {{ {text} }}" for i, text in enumerate(UPDATES))
MODULE = cuda.load(SOURCE)


@pytest.mark.parametrize("index, hint", [*enumerate(UPDATES.values())])
def test_an_update_without_an_atomic_is_one_finding(index: int, hint: str) -> None:
    data, flag = np.zeros(64, "i4"), np.zeros(2, "i4")
    (finding,) = MODULE[f"update_{index}"][1, 64].check(data, flag)
    assert (finding.kind, finding.hint, finding.variable) == (DataRace, hint, "data")
    assert finding.access and finding.other
    assert finding.access.line == finding.other.line > 0
    assert finding.access.thread != finding.other.thread


def test_a_read_of_another_element_is_no_update() -> None:
    module = cuda.load("__global__ void f(int* data) { data[threadIdx.x] += data[(threadIdx.x + 1) % 64]; }")
    findings = module["f"][1, 64].check(np.arange(64, dtype="i4"))
    assert findings and not any("atomic" in finding.hint for finding in findings)
