"""Message passing: every release with every acquire, in one block and across blocks, by the PTX memory model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import DataRace

KERNEL = cuda.load(Path(__file__).with_name("messages.cu"))["message"]
NOTHING, BLOCK, DEVICE = 0, 1, 2  # what a side includes: no other thread, those of the block, all
WRITERS = {
    "fence, volatile": DEVICE,
    "fence of scope block, volatile": BLOCK,
    "volatile": NOTHING,
    "fence, atomicExch": DEVICE,
    "fence, atomicExch_block": BLOCK,
    "fence of scope block, atomicExch": BLOCK,
    "atomicExch": NOTHING,
    "st.release.gpu": DEVICE,
    "st.release.cta": BLOCK,
    "st.relaxed.gpu": NOTHING,
    "red.release.gpu": DEVICE,
    "fence of scope system, atomicAdd_system": DEVICE,
}
READERS = {
    "volatile, fence": DEVICE,
    "volatile, fence of scope block": BLOCK,
    "volatile": NOTHING,
    "atomicAdd, fence": DEVICE,
    "atomicAdd_block, fence": BLOCK,
    "atomicAdd": NOTHING,
    "ld.acquire.gpu": DEVICE,
    "ld.acquire.cta": BLOCK,
    "ld.relaxed.gpu, fence.acq_rel.gpu": DEVICE,
    "ld.relaxed.gpu": NOTHING,
}


@pytest.mark.whole
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_message_needs_a_release_and_an_acquire_that_include_the_other_thread(writer: str, blocks: int) -> None:
    for index, reader in enumerate(READERS):
        ordered = min(WRITERS[writer], READERS[reader]) >= blocks
        for order in ("forward", "reverse"):
            data, flag, result = np.zeros(1, "i4"), np.zeros(1, "i4"), np.zeros(1, "i4")
            launch = KERNEL[blocks, 64 // blocks]
            findings = launch.check([*WRITERS].index(writer), index, data, flag, result, order=order)
            races = {(finding.kind, finding.variable) for finding in findings}
            assert ((DataRace, "data") in races) if not ordered else not races, (reader, order, [*map(str, findings)])
            if blocks == 2 and WRITERS[writer] == NOTHING and READERS[reader] == DEVICE:
                assert "no fence (release) precedes the write of the flag" in str(findings[0]), reader
            assert result[0] == 42


COUNTER = """
__device__ unsigned finished;
__global__ void total(const float* x, float* parts, float* y) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = x[blockIdx.x];
    BEFORE
    last = atomicAdd(&finished, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x > 0) return;
  AFTER
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; i++) sum += parts[i];
  y[0] = sum;
  finished = 0;
}
"""
DEVICE_FENCE, BLOCK_FENCE = "__threadfence();", "__threadfence_block();"


@pytest.mark.parametrize(
    "before, after, missing",
    [
        ("", DEVICE_FENCE, "no fence (release) precedes the write of the flag at line 8"),
        (BLOCK_FENCE, DEVICE_FENCE, "the fence before the release at line 8 has scope block"),
        (DEVICE_FENCE, "", "no fence (acquire) follows the read"),
        (DEVICE_FENCE, BLOCK_FENCE, "the fence after the read of the flag has scope block"),
        (DEVICE_FENCE, DEVICE_FENCE, ""),
    ],
)
def test_a_counter_of_finished_blocks(before: str, after: str, missing: str) -> None:
    kernel = cuda.load(COUNTER.replace("BEFORE", before).replace("AFTER", after))["total"]
    x, y = np.arange(4, dtype="f4"), np.zeros(1, "f4")
    findings = kernel[4, 32].check(x, np.zeros(4, "f4"), cuda.out(y))
    assert [finding.variable for finding in findings] == (["parts"] if missing else [])
    assert all(missing in finding.hint for finding in findings), [*map(str, findings)]
    assert y[0] == 6
