"""What can go wrong in a run."""

from __future__ import annotations


class MachineFault(RuntimeError):
    """The kernel did what the hardware faults at: an address of no buffer, a deadlock, a trap."""


class Unsupported(MachineFault):
    """The kernel reached an instruction that the interpreter does not know."""


class LaunchTimeout(MachineFault):
    """The run took longer than its ``timeout``."""
