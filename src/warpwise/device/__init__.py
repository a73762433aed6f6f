"""Device properties: limits by compute capability, driver attributes, and measured ceilings."""

from __future__ import annotations

from warpwise.device.description import Description, current, describe, profile_of
from warpwise.device.measure import Ceilings, ceilings, measure_ceilings
from warpwise.device.profiles import Profile

__all__ = ["Ceilings", "Description", "Profile", "ceilings", "current", "describe", "measure_ceilings", "profile_of"]
