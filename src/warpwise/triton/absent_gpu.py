"""A description of a GPU for files of Triton kernels that ask for one when they are imported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

_NAME = "NVIDIA H100 80GB HBM3"
_PROPERTIES = SimpleNamespace(
    name=_NAME, major=9, minor=0, multi_processor_count=132, total_memory=80 << 30, L2_cache_size=50 << 20,
    warp_size=32, max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
)  # fmt: skip


class _Utilities:
    def get_device_properties(self, device: Any = None) -> dict[str, int]:
        return {
            "multiprocessor_count": 132, "max_shared_mem": 232448, "max_num_regs": 65536, "warpSize": 32,
            "sm_clock_rate": 1_755_000, "mem_clock_rate": 2_619_000, "mem_bus_width": 5120,
        }  # fmt: skip


class _Driver:
    """The part of Triton's driver that programs use before a launch. Tensors of its device are those of the CPU."""

    utils = _Utilities()

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def get_device_capability(self) -> tuple[int, int]:
        return 9, 0

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return a function that raises when it is called: autotuners fetch it when their module is imported."""

        def benchmark(*arguments: Any, **options: Any) -> Any:
            raise RuntimeError("kernels are not timed without a GPU")

        return benchmark

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError("there is no GPU to launch a kernel on")


@contextlib.contextmanager
def described_gpu() -> Iterator[None]:
    """Within the context, Triton's active driver describes an H100 if there is no GPU; nothing can be launched on it.

    Files of kernels read the target, the compute capability, the name or the number of SMs at their top level.
    """
    if torch.cuda.is_available():
        yield
        return
    from triton.runtime import driver

    answers = {
        "get_device_capability": (9, 0),
        "get_device_name": _NAME,
        "get_device_properties": _PROPERTIES,
        "current_device": 0,
    }
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(driver, "_active", _Driver()))
        for function, answer in answers.items():
            patches.enter_context(mock.patch.object(torch.cuda, function, return_value=answer))
        yield
