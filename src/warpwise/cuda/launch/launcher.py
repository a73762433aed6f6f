"""``Launcher``: a kernel with its grid, block and dynamic shared memory."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from warpwise.cuda.errors import Access, Finding, UnsupportedFeature
from warpwise.cuda.launch import copies, intercept, limits
from warpwise.cuda.launch.arguments import device_of
from warpwise.cuda.launch.order import current_order

if TYPE_CHECKING:
    from warpwise.cuda.emulator.launcher import Watch
    from warpwise.cuda.launch.kernel import Kernel
    from warpwise.device.profiles import Profile

CHECKS = ("all", "bounds", "none")
_CPU = torch.device("cpu")


class Launcher:
    """A kernel with its grid, block and dynamic shared memory. Call it with the kernel's arguments.

    ``grid`` and ``block`` are (x, y, z); ``shared_bytes`` is the dynamic shared memory of a block, in bytes.
    """

    __slots__ = ("_checked_for", "block", "grid", "kernel", "shared_bytes")

    def __init__(
        self, kernel: Kernel, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int
    ) -> None:
        self.kernel, self.grid, self.block, self.shared_bytes = kernel, grid, block, shared_bytes
        self._checked_for: Profile | None = None

    def __call__(
        self, *args: Any, timeout: float = 60.0, checks: str | None = None, order: str | None = None, seed: int = 0
    ) -> None:
        """Launch on a GPU for CUDA tensors, on torch's current stream; emulated for CPU tensors and NumPy arrays.

        ``args`` has one value for each parameter. A pointer takes a PyTorch tensor, a NumPy array, an object with the
        CUDA array interface, or None for a null pointer. The dtype must be that of the pointer, and the array
        contiguous, unless it is marked by ``strided``; all arrays are on one device. A parameter passed by value takes
        a number that its type can hold, or the bytes of a structure. A launch on a GPU does not synchronise.

        The keyword arguments apply to emulated launches only. ``timeout`` is in seconds. ``checks`` is "all", "bounds"
        (no checks for races or uninitialised memory) or "none"; the default is $WARPWISE_CHECKS, else "all". ``order``
        is the order in which blocks and threads run: "forward" (the default), "reverse", or a random order drawn from
        ``seed``, "shuffle" or "preempt"; "preempt" also preempts threads and blocks at atomics, volatile accesses,
        fences and barriers.

        Raises ``CompileError`` if the source does not compile, ``ArgumentError`` for an argument that does not fit, and
        ``LaunchError`` for a grid, block or shared memory beyond the device's limits. An emulated launch raises its
        first finding, as the subclass of ``KernelError`` that ``Finding.kind`` names.
        """
        if intercept.INTERCEPTORS:
            options = {"timeout": timeout, "checks": checks, "order": order or current_order(), "seed": seed}
            if intercept.intercepted(self, args, options):
                return
        device = device_of(args, self.kernel.expression)
        if device is None:
            device = torch.device("cuda") if torch.cuda.is_available() and self.kernel.module.target is None else _CPU
        if device.type == "cuda":
            self.kernel.on_gpu(device).launch(self, args)
            return
        findings = self._emulate(args, timeout, checks, order or current_order(), seed)
        if findings:
            raise findings[0].error()

    def check(
        self,
        *args: Any,
        timeout: float = 60.0,
        checks: str | None = None,
        order: str = "forward",
        seed: int = 0,
        schedules: int = 0,
        nan: bool = False,
    ) -> list[Finding]:
        """Run emulated and return every finding instead of raising the first. CUDA tensors are copied to the CPU and
        are not changed.

        The arguments, the other options and the errors are those of a call.

        With ``schedules``, a launch without a finding is repeated on the same arguments with ``order="preempt"`` and
        the seeds ``seed`` to ``seed + schedules - 1``, until one has a finding, which names its seed.

        With ``nan``, findings of the kind ``SpecialValue`` give the line, the thread and the operands of the first
        operation that returns NaN, of the first that returns an infinity and of the first that returns a denormal
        number, where no operand is such a value. a * b + c then counts as two operations. Raises ``UnsupportedFeature``
        if ``nan`` is set on a CPU other than x86-64.
        """
        device = device_of(args, self.kernel.expression)
        if device is not None and device.type == "cuda":
            args = copies.to_cpu(args)
        if not schedules:
            return self._emulate(args, timeout, checks, order, seed, nan)
        saved, variables = copies.saved(args), self.variables(checks, nan)
        findings = self._emulate(args, timeout, checks, order, seed, nan)
        for each in range(seed, seed + schedules):
            if findings:
                break
            copies.restore(args, saved)
            copies.restore_variables(variables)
            findings = [
                replace(finding, schedule=f'order="preempt", seed={each}')
                for finding in self._emulate(args, timeout, checks, "preempt", each, nan)
            ]
        return findings

    def last_write(
        self, *args: Any, address: int, timeout: float = 60.0, order: str = "forward", seed: int = 0
    ) -> Access | None:
        """Run emulated and return the access that last wrote the element at ``address``, or None if no thread did.

        ``address`` is an address in one of the CPU tensors in ``args``: ``tensor.data_ptr()`` plus an offset in bytes.
        """
        from warpwise.cuda.emulator.launcher import Watch

        watch = Watch(address)
        self._emulate(args, timeout, "all", order, seed, watch=watch)
        return watch.access

    def variables(self, checks: str | None = None, nan: bool = False) -> list[tuple[int, bytes]]:
        """The address and the bytes of each ``__device__`` and ``__constant__`` variable of emulated launches.

        The variables keep their values from launch to launch.
        """
        from warpwise.cuda.emulator.constants import library_variables

        library = self.kernel.build(checked=_checks(checks) != "none", numbers=nan).library
        return [(address, ctypes.string_at(address, size)) for address, size in library_variables(library).values()]

    def _emulate(
        self,
        args: Sequence[Any],
        timeout: float,
        checks: str | None,
        order: str,
        seed: int,
        nan: bool = False,
        watch: Watch | None = None,
    ) -> list[Finding]:
        from warpwise.cuda.emulator import constants, launcher

        kernel = self.kernel
        checks = _checks(checks)
        profile = limits.target_profile(kernel.module.target)
        if self._checked_for is not profile:
            bounds = kernel.declaration.launch_bounds if kernel.declaration else None
            limits.check_launch(kernel.expression, self.grid, self.block, profile, bounds)
            limits.check_shared(kernel.expression, 0, self.shared_bytes, profile)
            self._checked_for = profile
        if nan and platform.machine() != "x86_64":
            raise UnsupportedFeature(f"{kernel.expression}: the check for NaN needs an x86-64 CPU")
        build = kernel.build(checked=checks != "none", numbers=nan)
        bound = kernel.binder(build).cpu(args)
        if kernel.module.constants:
            constants.apply(kernel.module.constants, build)
        options = launcher.Options(timeout=timeout, checks=checks, order=order, seed=seed, numbers=nan, watch=watch)
        return launcher.launch(build, self.grid, self.block, self.shared_bytes, bound, options, profile)


def _checks(given: str | None) -> str:
    checks = given if given is not None else os.environ.get("WARPWISE_CHECKS", "all")
    if checks not in CHECKS:
        where = "checks" if given is not None else "WARPWISE_CHECKS"
        raise ValueError(f"{where}={checks!r}: expected one of {', '.join(CHECKS)}")
    return checks
