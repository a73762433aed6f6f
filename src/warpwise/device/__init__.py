"""What a GPU can do: its limits by compute capability, what the driver tells, and the ceilings measured on it."""

from __future__ import annotations

from warpwise.device.profiles import Profile

__all__ = ["Profile"]
