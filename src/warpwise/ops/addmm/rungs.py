"""The ladder of addmm, slowest idea first."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.default import default_of
from warpwise.gemm.fused import problem as fused
from warpwise.gemm.operands import KERNEL_DTYPES
from warpwise.operation import make_rung
from warpwise.ops.addmm import _shared, k01_thread_per_element
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent

RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per element, which adds before it stores",
              k01_thread_per_element.launch, dtypes=KERNEL_DTYPES, limits=_shared.grid_of_elements, strided=True),
    *fused.rungs(_shared.problem, _shared.operands, _shared.warpgroup_limits, MATMUL),
)  # fmt: skip

default = default_of(RUNGS, "k05_warpgroups", "k02_triton_pass", "k06_cluster_split_k", operands=_shared.operands)
