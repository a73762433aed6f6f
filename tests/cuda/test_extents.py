"""Which tensors a pointer in memory may be to."""

from __future__ import annotations

import torch

from warpwise.cuda.launch.extents import extent, extent_bytes, live_tensors


def test_the_extent_includes_the_gaps_between_rows() -> None:
    rows = torch.zeros(3, 8, dtype=torch.float16)[:, :5]
    assert (extent(rows), extent_bytes(rows)) == (21, 42)
    assert (extent(rows[:0]), extent_bytes(rows[:0])) == (0, 0)


def test_live_tensors_have_memory_and_elements() -> None:
    kept: list[torch.Tensor] = []
    torch.vmap(lambda x: kept.append(x * 2) or x.sum())(torch.ones(4, 3))
    torch.func.grad(lambda x: kept.append(x * 2) or x.sum())(torch.ones(4))
    weight, empty = torch.nn.Parameter(torch.ones(7)), torch.ones(0)
    sparse, meta = torch.eye(3).to_sparse(), torch.ones(9, device="meta")
    addresses = {item.data_ptr() for item in live_tensors()}
    assert weight.data_ptr() in addresses
    assert 0 not in addresses
    assert [len(kept), empty.numel(), sparse.layout, meta.device.type] == [2, 0, torch.sparse_coo, "meta"]
