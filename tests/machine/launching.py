"""Run a launch as SASS, and compare it with the checked emulation."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np

from warpwise import machine
from warpwise.cuda.gpu import nvrtc
from warpwise.cuda.launch.launcher import Launcher
from warpwise.machine.counts import Counts


def machine_run(launcher: Launcher, args: tuple[Any, ...], target: str = "sm_90", **options: Any) -> Counts:
    """Run the launch as SASS of ``target``; arrays in ``args`` are not modified."""
    kernel = launcher.kernel
    values = kernel.module.constants.values
    # A cubin contains all non-template kernels: one compilation serves all kernels with C linkage.
    linkage = re.search(rf'extern "C" __global__ void {kernel.expression}\(', kernel.module.text)
    expression = kernel.module.kernels[0] if linkage else kernel.expression
    compiled = nvrtc.compile(kernel.module, expression, target, tuple(values))
    program = machine.load_program(compiled.cubin, kernel.expression if linkage else compiled.symbol)
    constants = {compiled.constants[name]: data for name, data in values.items()}
    bound = kernel.binder(kernel.build()).cpu(args)
    return machine.run(
        program, launcher.grid, launcher.block, launcher.shared_bytes, bound, constants=constants, **options
    )


def agree(launcher: Launcher, args: tuple[Any, ...], target: str = "sm_90", **options: Any) -> Counts:
    """Run SASS, then the emulator, which writes the arrays; the outputs must be bitwise equal."""
    counts = machine_run(launcher, args, target, **options)
    bound = launcher.kernel.binder(launcher.kernel.build()).cpu(args)
    launcher(*args)
    compared = 0
    for part in bound:
        if hasattr(part, "data") or part.const or not part.nbytes:
            continue
        emulated = np.frombuffer((ctypes.c_char * part.nbytes).from_address(part.address), np.uint8)
        np.testing.assert_array_equal(counts.outputs[part.name], emulated, err_msg=f"{part.name} on {target}")
        compared += 1
    assert compared, "the launch has no outputs to compare"
    return counts
