"""The rung that an operation's rule chooses without tables, for meta tensors, on a GPU of 132 SMs."""

from __future__ import annotations

import torch

from warpwise import operation
from warpwise.operation import assume_sm_count

SMS = 132


def default(name, *args):
    with assume_sm_count(SMS):
        return operation.get(name).default(*args)


def matrix(rows, columns, dtype=torch.float32):
    return torch.empty(rows, columns, dtype=dtype, device="meta")
