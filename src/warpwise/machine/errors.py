"""Exceptions of a run."""

from __future__ import annotations


class MachineFault(RuntimeError):
    """The hardware would fault: an access outside all buffers, a misaligned access, a deadlock, a trap."""


class Unsupported(MachineFault):
    """The kernel executed an instruction that the interpreter does not support."""


class NeedsAllBlocks(MachineFault):
    """The sampled blocks wait for blocks outside the sample: run all blocks."""


class LaunchTimeout(MachineFault):
    """The run took longer than its ``timeout``."""
