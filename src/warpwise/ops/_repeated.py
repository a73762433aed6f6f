"""A launch inside of a launcher, recorded by itself: what stands before it may be PyTorch's, which no recording repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from warpwise.cuda.gpu.recording import Recording, record
from warpwise.cuda.launch import intercept
from warpwise.ops._plans import description
from warpwise.ops._shortcuts import MOST


class Repeated:
    """``launch(*args)``, which fills tensors among ``args``: recorded on a GPU for arguments of each description."""

    def __init__(self, launch: Callable[..., None]) -> None:
        self._launch = launch
        self._recordings: dict[tuple[Any, ...], Recording | None] = {}

    def __call__(self, *args: Any) -> None:
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        if intercept.INTERCEPTORS or not tensors[0].is_cuda:  # what records all of it makes each launch itself
            self._launch(*args)
            return
        key = tuple(description(args))
        if key not in self._recordings:
            if len(self._recordings) >= MOST:
                self._recordings.clear()
            self._recordings[key] = record(lambda: self._launch(*args), tensors)
            return
        recording = self._recordings[key]
        if recording is None:
            self._launch(*args)
        else:
            recording([tensor.data_ptr() for tensor in tensors])
