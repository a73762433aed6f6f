"""``build_ahead``: the kernels of a rung are built before it is verified on a CPU."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

import torch

from warpwise.arguments.values import first_tensor, map_tensors, tensors
from warpwise.cuda.errors import MissingTool
from warpwise.cuda.launch.extents import extent
from warpwise.cuda.launch.kernel import Kernel, build_together
from warpwise.device.target import assume_sm_count, assumed_sm_count, sm_count
from warpwise.operation import Case, Op, Rung

_META = torch.device("meta")


def build_ahead(op: Op, rung: Rung, cases: Sequence[Case], dtypes: Sequence[torch.dtype], seed: int) -> None:
    """Build the CUDA kernels that ``rung`` launches on a CPU for these cases, with one compiler run for each source.

    The launches are those for tensors on the meta device. What differs on a CPU, or does not compile, is built later.
    """
    if rung.language != "cuda" or os.environ.get("WARPWISE_CHECKS", "all") == "none":
        return
    taken = [dtype for dtype in dtypes if rung.dtypes is None or dtype in rung.dtypes]
    with contextlib.suppress(MissingTool):
        build_together(kernel for dtype in taken for case in cases for kernel in _kernels(op, rung, case, dtype, seed))


def _kernels(op: Op, rung: Rung, case: Case, dtype: torch.dtype, seed: int) -> Iterator[Kernel]:
    """The kernels of one case; none if the rung raises an error, which its verification reports."""
    with contextlib.suppress(Exception):
        args = op.spec.arguments(case, dtype, torch.device("cpu"), seed)
        if op.refusal(rung, *args) or not all(tensor.numel() for tensor in tensors(args)):
            return
        with assume_sm_count(assumed_sm_count() or sm_count(first_tensor(args))):
            launches = op.kernels(rung, *map_tensors(_on_meta, args))
        yield from (launch.kernel for launch in launches if launch.language == "cuda")


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on the meta device with the strides, the storage offset and therefore the alignment of ``tensor``."""
    storage = torch.empty(tensor.storage_offset() + extent(tensor), dtype=tensor.dtype, device=_META)
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
